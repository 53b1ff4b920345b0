"""Settings in a YAML file: a user's own, or the `config.yaml` of a run."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xagents_ray.algorithms.definition import Algorithm
from xagents_ray.algorithms.table import check_owners, find_algorithm
from xagents_ray.core.errors import Mistakes, UserError, did_you_mean, shown
from xagents_ray.settings.config import (
    GROUPS,
    placed_settings,
    replaced_settings,
    train_options,
)
from xagents_ray.settings.options import Option, check_known, plain_values
from xagents_ray.settings.paths import check_path, local_path, read_settings_file
from xagents_ray.settings.run import RunConfig
from xagents_ray.storage import migrations
from xagents_ray.storage.run_directory import RunDirectory

_REMEDY = "write each setting once, on a line of its own, as in `n_envs: 8`"
_SECTIONS = {*GROUPS, "algorithm"}
_OF_ONE_ENV = "env_kwargs", "vectorization"
_OTHER = {"seed": "seeds", "seeds": "seed"}


@dataclass(frozen=True)
class ConfigFile:
    """The contents of a file of settings.

    Attributes:
        path: path of the file.
        agent: name of the agent; None if the file names none.
        settings: settings by flat name, unchecked.
        is_of_run: whether a run wrote the file, with all of its settings.
    """

    path: Path
    agent: str | None
    settings: Mapping[str, Any]
    is_of_run: bool


def chosen_algorithm(agent: str | None, config: Any) -> Algorithm:
    """Return the named algorithm, or without a name that of the file `config`.

    Raises:
        UserError: the algorithm is unknown, or the file can't be read or names none.
    """
    if agent is None and config is not None:
        file = read_config(config)
        if file.agent is None:
            raise UserError(
                f"--config {file.path} names no agent: add a line such as `agent: ppo`,"
                " or name one, as in train ppo."
            )
        agent = file.agent
    return find_algorithm(agent)  # type: ignore[arg-type]


def with_config(
    algorithm: Algorithm,
    given: Mapping[str, Any],
    known: Sequence[Option] | None = None,
    left_out: Collection[str] = (),
) -> dict[str, Any]:
    """Return settings, completed by those of the file that `config` names.

    In the result, `config` is the file's name without its directory. Settings of the
    file that the given ones rule out are left out.

    Args:
        algorithm: the algorithm that learns.
        given: the user's settings by flat name, which precede those of the file.
        known: options of the command; None for those of `train`.
        left_out: names of settings in the file to ignore.
    Raises:
        UserError: the file can't be read, is for another agent, or has an unknown or
            invalid setting; the message has a line for each mistake.
    """
    if given.get("config") is None or given.get("resume") is not None:
        return dict(given)  # `find_run` refuses both together
    known = train_options(algorithm.config) if known is None else known
    file = read_config(given["config"])
    if file.agent not in (None, algorithm.name):
        raise UserError(
            f"--config {file.path} is for {file.agent}, not for {algorithm.name}: name "
            f"{file.agent}, or no agent."
        )
    if file.is_of_run and given.get("preset") is not None:
        raise UserError(
            f"--preset has no effect with --config {file.path}, which has all settings "
            "of a run: drop one of them."
        )
    values = {n: v for n, v in file.settings.items() if n not in left_out}
    if file.is_of_run:
        values = _of_new_run(values, known)
    values = _checked(values, algorithm, known, file)
    values = _located(values, known, file)
    values = _compatible(values, algorithm, given)
    values = _effective(values, known, given, file.is_of_run)
    return {**values, **given, "config": file.path.name}


def read_config(named: Any) -> ConfigFile:
    """Return the contents of a file of settings, in sections or without.

    Raises:
        UserError: the file can't be read, or holds something else.
    """
    text = str(RunConfig(config=named).config)
    check_path("--config", text)
    path = Path(local_path("--config", text))
    try:
        entry = read_settings_file("--config", path, _REMEDY)
    except OSError as error:
        hint = _nearby(path)
        raise UserError(f"--config {path}: {error.strerror}{hint}") from None
    if not isinstance(entry, dict) or not all(isinstance(key, str) for key in entry):
        raise UserError(f"--config {path} has no settings: {_REMEDY}.")
    if isinstance(entry.get("settings"), dict):
        raise UserError(
            f"--config {path} is a preset, which has `settings:`: give it with "
            f"--preset {path}."
        )
    is_of_run = "format" in entry or entry.keys() >= _SECTIONS
    try:
        agent, number = entry.pop("agent", None), entry.pop("format", 1)
        if agent is not None:
            find_algorithm(agent)
        values = _flat(entry)
        if is_of_run:
            for migration in migrations.migrations_from(number, path):
                values = migration.settings(str(agent), values)
    except migrations.NewerFormatError as error:
        raise UserError(f"--config {error}.") from None
    except ValueError as error:
        remedy = "" if isinstance(error, UserError) else f"; {_REMEDY}."
        raise UserError(f"--config {path}: {error}{remedy}") from None
    return ConfigFile(path, agent, values, is_of_run)


def _nearby(path: Path) -> str:
    """Return advice for a path that can't be read."""
    if path.is_dir():
        return "; name the file in it, such as the config.yaml of a run."
    others = [each for each in sorted(path.parent.glob("*.y*ml")) if each != path]
    found = {each.stem: str(each) for each in others}
    return did_you_mean(path.stem, found, found) or (
        "; name a YAML file of settings, such as the config.yaml of a run."
    )


def _flat(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by flat name; ValueError if one is in two sections."""
    found: dict[str, Any] = {}
    for name, value in _without_sections(entry):
        if name in found:
            raise ValueError(f"it has {shown(name)} twice")
        found[name] = value
    return found


def _without_sections(entry: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    for name, value in entry.items():
        is_empty = value is None and name != "env"
        if name in _SECTIONS and (is_empty or isinstance(value, dict)):
            yield from (value or {}).items()
        else:
            yield name, value


def _of_new_run(values: Mapping[str, Any], known: Iterable[Option]) -> dict[str, Any]:
    """Return a run's settings without its defaults and what belongs to it alone."""
    own = {each.name for each in known if each.of_one_run}
    return {n: v for n, v in values.items() if v is not None and n not in own}


def _located(
    values: Mapping[str, Any], known: Iterable[Option], file: ConfigFile
) -> dict[str, Any]:
    """Return settings with the paths in a user's file relative to its directory.

    A network of a run is the copy in its directory, if there is one.
    """
    located, folder = dict(values), file.path.parent
    has_copies = file.is_of_run and RunDirectory(folder).has_started
    for each in known:
        value = values.get(each.name)
        if not each.is_path or value is None:
            continue
        copies = [folder / f"{each.name}{end}" for end in (".cfg", ".keras")]
        if has_copies and (found := [copy for copy in copies if copy.is_file()]):
            located[each.name] = str(found[0])
        elif not file.is_of_run and each.many:
            located[each.name] = tuple(_below(folder, path) for path in value)
        elif not file.is_of_run:
            located[each.name] = _below(folder, value)
    return located


def _below(folder: Path, path: str) -> str:
    return path if ":" in path else str(folder / path)  # module:function is no path


def _checked(
    values: Mapping[str, Any],
    algorithm: Algorithm,
    known: Sequence[Option],
    file: ConfigFile,
) -> dict[str, Any]:
    """Return settings as plain values; UserError for each mistake."""
    own, mistakes = {each.name: each for each in known}, Mistakes()
    checked: dict[str, Any] = {}
    for name, value in values.items():
        with mistakes:
            try:
                checked[name] = _plain(name, value, algorithm, own)
            except UserError as error:
                raise UserError(f"--config {file.path}: {error}") from None
    mistakes.report()
    return checked


def _plain(
    name: Any, value: Any, algorithm: Algorithm, known: Mapping[str, Option]
) -> Any:
    """Return a setting as a plain value; UserError if it is unknown or invalid."""
    if name not in known:
        if isinstance(value, dict):
            hint = did_you_mean(str(name), _SECTIONS) or "."
            raise UserError(f"There is no section {shown(name)}{hint}")
        check_owners(algorithm, [str(name)])
        check_known([str(name)], known.values())
    each = known[name]
    if each.is_written or name == "config":
        raise UserError(f"{each.flag} can't be part of a file: give it as a flag.")
    plain = plain_values([each], {name: value})[name]
    varies = isinstance(plain, tuple) and each.hp_type is not None
    if not varies:  # `tune` checks the values of a search space
        each.check(plain)
    return plain


def _compatible(
    values: Mapping[str, Any], algorithm: Algorithm, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a file's settings without those that given ones rule out.

    These are the other one of seed and seeds, arguments of another environment, and
    what another placement replaces.
    """
    out = {_OTHER[name] for name in _OTHER if given.get(name) is not None}
    if given.get("env") is not None and given["env"] != values.get("env"):
        out.update(_OF_ONE_ENV)
    left = {name: value for name, value in values.items() if name not in out}
    return placed_settings(algorithm.config, left, given)


def _effective(
    values: Mapping[str, Any],
    known: Sequence[Option],
    given: Mapping[str, Any],
    is_of_run: bool,
) -> dict[str, Any]:
    """Return a file's settings without those that given ones make ineffective.

    Settings of a user's file that have no effect in themselves are kept, for `Request`
    to refuse.
    """
    out = _ineffective(known, {**values, **given})
    if not is_of_run:
        out -= _ineffective(known, values)
    return {name: value for name, value in values.items() if name not in out}


def _ineffective(known: Sequence[Option], whole: Mapping[str, Any]) -> set[str]:
    """Return the names of settings without effect, given all settings."""
    defaults = {each.name: each.default for each in known}
    whole = {**defaults, **whole}
    unmet = (o.name for o in known if o.needs and not any(map(whole.get, o.needs)))
    return {*replaced_settings(known, whole), *unmet}
