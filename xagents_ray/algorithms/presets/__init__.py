"""Tuned settings by agent and environment, from the data files in this directory.

Each AGENT.yaml is a list of presets. A user's file contains a single one:

    settings: {n_envs: 8, lr: 1e-3, model: small.cfg}

Its network paths are relative to the file.
"""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

from xagents_ray.algorithms.definition import Algorithm
from xagents_ray.algorithms.table import all_algorithms, find_algorithm
from xagents_ray.core.errors import Mistakes, UserError, did_you_mean
from xagents_ray.core.parsing import DECIMALS
from xagents_ray.settings.config import replaced_settings, train_options
from xagents_ray.settings.options import Option, check_known, options, plain_values
from xagents_ray.settings.paths import local_path, read_settings_file
from xagents_ray.settings.run import RunConfig

AUTO_PRESET = "auto"
"""Value of a bare `--preset`: the default preset of the agent and environment."""
_HERE = Path(__file__).parent
_REMEDY = "write `settings:` and below it one a line, as in `n_envs: 8`"


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Loader of the package's files, which every command reads: ten times as fast."""


_Loader.add_implicit_resolver(*DECIMALS)


@dataclass(frozen=True, kw_only=True)
class Preset:
    """Settings that are known, or reported, to work."""

    agent: str  # name of the agent
    env: str  # ID of the environment; `*` is a wildcard, as in `ALE/*`
    name: str = AUTO_PRESET  # value of `--preset`
    settings: Mapping[str, Any] = field(default_factory=dict)  # by flat name
    goal: float | None = None  # mean of 20 greedy episodes with the final weights
    expected: str = ""  # result of the preset, or of the source's settings
    source: str = ""  # who reported the result
    is_recommended: bool = False  # has the best result in the environment


def all_presets() -> tuple[Preset, ...]:
    return tuple(preset for row in all_algorithms().values() for preset in _of(row))


@functools.lru_cache
def _of(row: Algorithm) -> tuple[Preset, ...]:
    path = row.presets or _HERE / f"{row.name}.yaml"
    if not path.is_file():
        return ()
    return tuple(
        Preset(agent=row.name, **_located(entry, row, path.parent))
        for entry in yaml.load(path.read_text("utf-8"), _Loader)
    )


def apply(algorithm: Algorithm, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the user's settings, completed by those of the preset they name.

    Preset settings that the user's settings make ineffective are left out.

    Args:
        algorithm: algorithm to train.
        given: user's settings by flat name; `preset` is "auto", another name or a file.
    Raises:
        UserError: the preset doesn't exist, its file is invalid, its name isn't a
            string, or another setting makes one of the user's ineffective.
    """
    asked = RunConfig(preset=given.get("preset")).preset
    settings: Mapping[str, Any] = {}
    if asked in {AUTO_PRESET, *(preset.name for preset in _of(algorithm))}:
        settings = named_preset(algorithm.name, given.get("env"), str(asked)).settings
    elif asked is not None:
        path = Path(local_path("--preset", asked))
        settings = _read(path, algorithm, given.get("env"))
    completed = {**settings, **given}
    known = train_options(algorithm.config)
    _check_effects(known, given, completed)
    dropped = replaced_settings(known, completed).keys() - given.keys()
    return {name: value for name, value in completed.items() if name not in dropped}


def _check_effects(
    known: Iterable[Option], given: Mapping[str, Any], whole: Mapping[str, Any]
) -> None:
    """Raise UserError when a user's setting has no effect, given all settings."""
    options = {each.name: each for each in known}
    unused, mistakes = replaced_settings(options.values(), whole), Mistakes()
    for each in options.values():
        if given.get(each.name) in (None, each.default):
            continue
        others = [options[name] for name in each.needs]
        with mistakes:
            if each.name in unused:
                other = unused[each.name].flag
                raise UserError(
                    f"{each.flag} has no effect with {other}: drop one of them."
                )
            if others and not any(whole.get(o.name, o.default) for o in others):
                flags = " or ".join(other.flag for other in others)
                one = "one of them" if len(others) > 1 else "that"
                raise UserError(
                    f"{each.flag} has no effect without {flags}: add {one}, or drop it."
                )
    mistakes.report()


def find_preset(agent: str, env: str, called: str = AUTO_PRESET) -> Preset | None:
    """Return the named preset of an agent for an environment, or None."""
    known = (preset for preset in _of(find_algorithm(agent)) if preset.name == called)
    return next((preset for preset in known if fnmatchcase(env, preset.env)), None)


def recommended(env: str) -> Preset | None:
    """Return the preset with the best recorded result in an environment, or None."""
    fitting = [
        preset
        for preset in all_presets()
        if preset.is_recommended and fnmatchcase(env, preset.env)
    ]
    return min(fitting, key=lambda preset: "*" in preset.env, default=None)


def named_preset(agent: str, env: str | None, name: str) -> Preset:
    """Return the named preset of an agent for an environment.

    Raises:
        UserError: no such preset; the message lists those for other environments.
    """
    if env is None:
        raise UserError("--preset goes by the environment: name one with --env.")
    env = str(env)  # it isn't checked yet
    found = find_preset(agent, env, name)
    if found is not None:
        return found
    known = [preset.env for preset in _of(find_algorithm(agent)) if preset.name == name]
    others = f", only for {', '.join(known)}" if known else ""
    names = {preset.name for preset in _of(find_algorithm(agent))}
    hint = did_you_mean(env, known) if known else did_you_mean(name, sorted(names))
    hint = hint or (
        f"{others}: give the settings one by one, or a file with --preset FILE."
    )
    called = "" if name == AUTO_PRESET else f" {name}"
    raise UserError(f"There is no preset{called} of {agent} for {env}{hint}")


def preset_hints(algorithm: Algorithm, given: Mapping[str, Any]) -> list[str]:
    """Return a hint if a preset exists that the user didn't request."""
    env, asked = given.get("env"), given.get("preset")
    preset = find_preset(algorithm.name, str(env))
    is_tuned = asked is not None or given.get("config") is not None
    if env is None or is_tuned or preset is None:
        return []
    return [
        f"{algorithm.name} has a preset for {env}: add --preset. Its result: "
        f"{preset.expected} ({preset.source})"
    ]


def _read(path: Path, algorithm: Algorithm, env: Any) -> Mapping[str, Any]:
    """Return the settings of a user's preset file, for an environment if it is named.

    Raises:
        UserError: the file is invalid, or there is none; the message has the presets.
    """
    try:
        entry = read_settings_file("--preset", path, _REMEDY)
    except OSError as error:
        hint = _other_presets(str(path), algorithm, None if env is None else str(env))
        raise UserError(f"--preset {path}: {error.strerror}{hint}") from None
    settings = entry.get("settings") if isinstance(entry, dict) else None
    if not isinstance(settings, dict) or not all(isinstance(k, str) for k in settings):
        raise UserError(f"--preset {path} has no settings: {_REMEDY}.")
    try:
        located: dict[str, Any] = _located(entry, algorithm, path.parent)["settings"]
        _check(located, algorithm)
    except UserError as error:
        raise UserError(f"--preset {path}: {error}") from None
    return located


def _other_presets(asked: str, algorithm: Algorithm, env: str | None) -> str:
    """Return advice for the name of a preset that doesn't exist."""
    names = dict.fromkeys(preset.name for preset in _of(algorithm))
    if hint := did_you_mean(asked, names):
        return hint
    if env is None:
        return "; name a file, or no value for the preset of the agent and --env."
    fitting = [name for name in names if find_preset(algorithm.name, env, name)]
    if not fitting:
        return f"; {algorithm.name} has no preset for {env}: name a file."
    words = ["no value" if name == AUTO_PRESET else name for name in fitting]
    return f"; for {env}, give {', '.join(words)} or a file."


def _check(settings: Mapping[str, Any], algorithm: Algorithm) -> None:
    """Raise UserError when a setting is invalid."""
    known = {each.name: each for each in train_options(algorithm.config)}
    check_known(settings, known.values())
    for name, value in plain_values(known.values(), settings).items():
        if not known[name].in_presets:
            remedy = "give it in addition to --preset"
            raise UserError(f"{known[name].flag} can't be part of a preset: {remedy}.")
        known[name].check(value)


def _located(
    entry: Mapping[str, Any], algorithm: Algorithm, folder: Path
) -> dict[str, Any]:
    """Return an entry with lists as tuples and network paths relative to `folder`."""
    settings = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in entry["settings"].items()
    }
    for each in options(algorithm.config):
        if each.is_path and settings.get(each.name) is not None:
            path = local_path(each.flag, str(settings[each.name]))
            settings[each.name] = str(folder / path)
    return {**entry, "settings": settings}
