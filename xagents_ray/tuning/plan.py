"""The plan of a sweep: options, trial settings, and the best trial's command."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from xagents_ray.algorithms.definition import Algorithm
from xagents_ray.core import objects
from xagents_ray.core.errors import UserError
from xagents_ray.settings.algorithm import AlgorithmConfig
from xagents_ray.settings.config import (
    GROUPS,
    Config,
    replaced_settings,
    train_options,
)
from xagents_ray.settings.options import Checked, Option, count, option, options
from xagents_ray.settings.resources import ConnectionConfig
from xagents_ray.settings.run import SESSION_GROUPS
from xagents_ray.tuning.space import Space

_POINTS = 20


@dataclass(frozen=True, kw_only=True)
class TuneConfig(Checked):
    """Options of a sweep: number, length and storage of trials."""

    study: str | None = option(
        None,
        "Name of the Optuna study; one that exists is resumed; default: agent and time",
        names_directory=True,
        common=True,
    )
    storage: str | None = option(
        None,
        "Database URL of the study, sqlite:///FILE, postgresql://… or mysql://…; "
        "default: the environment variable XAGENTS_RAY_STORAGE, for a URL with a "
        "password, or sqlite in the sweep's directory",
    )
    n_trials: int = count(
        1,
        "Trials of the study when the sweep ends: complete, pruned and failed ones",
        common=True,
    )
    n_jobs: int = count(
        1, "Trials that run in parallel and share the cores and GPUs", common=True
    )
    trial_steps: int = count(
        500_000, "Maximum steps for a trial", unit="env steps", common=True
    )
    warmup_trials: int = option(
        5, "Complete trials before --scheduler median begins to prune", low=0
    )
    warmup_steps: int | None = option(
        None,
        "Steps of a trial before --scheduler median may prune it; default: a "
        "tenth of --trial-steps, and as many as fill --reward-buffer-size",
        low=0,
        unit="env steps",
    )
    scheduler: str = option(
        "median",
        "What ends bad trials early: the median of the others at the same step, "
        "successive halving, or nothing",
        choices=("median", "asha", "none"),
    )
    non_silent: bool = option(
        False,
        "If specified, the messages of trials and of Optuna are printed, in "
        "place of the table",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        steps, prunes = self.warmup_steps, self.scheduler == "median"
        if prunes and steps is not None and steps >= self.trial_steps:
            raise UserError(
                f"--warmup-steps {steps} is not less than --trial-steps "
                f"{self.trial_steps}, so nothing would be pruned: lower it, or say so "
                "with --scheduler none."
            )


UNSUPPORTED_OPTIONS = {
    each.name: each.instead
    for group in GROUPS.values()
    for each in options(group)
    if each.instead
}
"""Options of `train` that `tune` lacks, and what replaces them."""


def tune_options(algorithm: type[AlgorithmConfig] | None) -> list[Option]:
    """Return the options of `tune`, including those of an agent if there is one."""
    groups: list[type] = [TuneConfig, *GROUPS.values()]
    if algorithm is not None:
        groups.append(algorithm)
    return [each for group in groups for each in options(group) if not each.instead]


@dataclass(frozen=True)
class Plan:
    """The plan of a sweep."""

    algorithm: Algorithm
    config: TuneConfig  # options of the sweep
    fixed: Mapping[str, Any]  # settings of every trial, by flat name
    spaces: Mapping[str, Space]  # settings that vary
    study: str  # name of the study
    directory: Path  # absolute path of the sweep's directory
    # Connection to Ray, which runs the trials even if they are local.
    ray: ConnectionConfig

    @property
    def points(self) -> tuple[int, ...]:
        """Env steps at which trials report, so that they can be compared."""
        steps = self.config.trial_steps
        return tuple(sorted({max(1, steps * i // _POINTS) for i in range(1, _POINTS)}))

    @property
    def storage(self) -> str:
        """Database URL of the study."""
        return self.config.storage or f"sqlite:///{self.directory / 'study.db'}"

    @property
    def about(self) -> dict[str, Any]:
        """What all trials of a study must have in common."""
        env, steps = self.fixed.get("env"), self.config.trial_steps
        return {"agent": self.algorithm.name, "env": env, "trial_steps": steps}

    def settings(self, params: Mapping[str, Any], seed: int | None) -> dict[str, Any]:
        """Return all settings of a trial with these values of the varied ones.

        Settings that have no effect together with the others are left out.
        """
        seeded = {} if seed is None else {"seed": seed}
        steps = {"max_steps": self.config.trial_steps}
        whole = {**self.fixed, **params, **steps, **seeded}
        unused = replaced_settings(train_options(self.algorithm.config), whole)
        return {name: value for name, value in whole.items() if name not in unused}

    def checked(self, settings: Mapping[str, Any]) -> Config:
        """Return a trial's config; UserError if its settings conflict."""
        return Config.of(self.algorithm.config, settings)

    def run(self, settings: Mapping[str, Any], number: int) -> dict[str, Any]:
        """Return the settings of a trial's run, including its directory."""
        above = self.directory / self.algorithm.name
        name, again = f"trial-{number}", 1
        while any(above.glob(f"*/{name}")):  # by another study of this name
            again += 1
            name = f"trial-{number}-{again}"
        return {
            "keep_checkpoints": 1,  # besides the best one: there are many trials
            "quiet": not self.config.non_silent,
            **settings,
            "run_dir": str(self.directory),
            "name": name,
        }


def resolve_paths(algorithm: Algorithm, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with absolute paths, as trials have other directories."""
    resolved, kept = dict(settings), objects.kept_names("network")
    for each in train_options(algorithm.config):
        value = settings.get(each.name)
        if each.is_path and value is not None and ("network", value) not in kept:
            paths = value if each.many else (value,)
            paths = tuple(str(Path(path).resolve()) for path in paths)
            resolved[each.name] = paths if each.many else paths[0]
    return resolved


def train_command(algorithm: Algorithm, settings: Mapping[str, Any]) -> list[str]:
    """Return the command line of `train` with these settings, as words."""
    words = ["xagents-ray", "train", algorithm.name]
    for each in train_options(algorithm.config):
        value = settings.get(each.name)
        if value is None:
            continue
        if each.type is bool:
            off = each.off or f"--no-{each.flag[2:]}"
            words += [each.flag] if value else [off] if each.default else []
        else:
            values = value if each.many else (value,)
            words += [each.flag, *map(str, values)]
    return words


def preset_yaml(
    algorithm: Algorithm, settings: Mapping[str, Any], expected: str, source: str
) -> str:
    """Return a preset file for `train --preset`, as YAML."""
    session = [each for group in SESSION_GROUPS for each in options(group)]
    left_out = {each.name for each in session if not each.is_path}
    left_out |= {o.name for o in train_options(algorithm.config) if not o.in_presets}
    kept = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in settings.items()
        if name not in left_out
    }
    entry = {"expected": expected, "source": source, "settings": kept}
    text: str = yaml.safe_dump(entry, sort_keys=False, allow_unicode=True)
    return text
