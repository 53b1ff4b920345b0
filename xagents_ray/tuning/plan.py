"""What a sweep is to do: its settings, those of each trial, the best one's command."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from xagents_ray.algorithms.row import Algorithm
from xagents_ray.settings.config import Config, train_options
from xagents_ray.settings.options import options
from xagents_ray.settings.run import SESSION_GROUPS, ConnectionConfig
from xagents_ray.tuning.config import TuneConfig
from xagents_ray.tuning.space import Space

_POINTS = 20


@dataclass(frozen=True)
class Plan:
    """A sweep before it starts.

    Attributes:
        algorithm: whose settings vary.
        config: of the sweep.
        fixed: settings of every trial, by flat name.
        spaces: settings that vary.
        study: name of the study.
        directory: of the sweep, absolute.
        ray: where Ray is; the trials are on it, whatever they are themselves.
    """

    algorithm: Algorithm
    config: TuneConfig
    fixed: Mapping[str, Any]
    spaces: Mapping[str, Space]
    study: str
    directory: Path
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
        """What all trials of a study have in common."""
        env, steps = self.fixed.get("env"), self.config.trial_steps
        return {"agent": self.algorithm.name, "env": env, "trial_steps": steps}

    def settings(self, params: Mapping[str, Any], seed: int | None) -> dict[str, Any]:
        """Return what a trial with these values of what varies trains with."""
        seeded = {} if seed is None else {"seed": seed}
        steps = {"max_steps": self.config.trial_steps}
        return {**self.fixed, **params, **steps, **seeded}

    def checked(self, settings: Mapping[str, Any]) -> Config:
        """Return a trial's config; UserError when its settings don't fit together."""
        return Config.of(self.algorithm.config, settings)

    def run(self, settings: Mapping[str, Any], number: int) -> dict[str, Any]:
        """Return the settings of a trial's run, with where it is kept."""
        above = self.directory / self.algorithm.name
        name, again = f"trial-{number}", 1
        while any(above.glob(f"*/{name}")):  # of another study of this name
            again += 1
            name = f"trial-{number}-{again}"
        return {
            "keep_checkpoints": 1,  # besides the best one: there are many trials
            "quiet": not self.config.non_silent,
            **settings,
            "run_dir": str(self.directory),
            "name": name,
        }

    def examples(self) -> Iterator[dict[str, Any]]:
        """Yield settings of trials at the ends of what varies."""
        for end in (0, -1) if self.spaces else (0,):
            params = {name: space.values[end] for name, space in self.spaces.items()}
            yield self.settings(params, None)


def resolve_paths(algorithm: Algorithm, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with absolute paths: trials have working directories."""
    resolved = dict(settings)
    for each in train_options(algorithm.config):
        value = settings.get(each.name)
        if each.is_path and value is not None:
            paths = value if each.many else (value,)
            paths = tuple(str(Path(path).resolve()) for path in paths)
            resolved[each.name] = paths if each.many else paths[0]
    return resolved


def command(algorithm: Algorithm, settings: Mapping[str, Any]) -> list[str]:
    """Return the words of the `train` command line with these settings."""
    words = ["xagents-ray", "train", algorithm.name]
    for option in train_options(algorithm.config):
        value = settings.get(option.name)
        if value is None:
            continue
        if option.type is bool:
            off = option.off or f"--no-{option.flag[2:]}"
            words += [option.flag] if value else [off] if option.default else []
        else:
            values = value if option.many else (value,)
            words += [option.flag, *map(str, values)]
    return words


def preset(
    algorithm: Algorithm, settings: Mapping[str, Any], expected: str, source: str
) -> str:
    """Return a file for `train --preset` with what training depends on, as YAML."""
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
