"""`--set key=value`: settings by their names in `config.yaml`, on the command line."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from xagents_ray.core.errors import UserError, shown
from xagents_ray.core.parsing import SettingsLoader, parse_yaml
from xagents_ray.settings.options import Option, flag, option


@dataclass(frozen=True, kw_only=True)
class Assignments:
    """Options of commands that take the settings of a run."""

    set: tuple[str, ...] | None = option(
        None,
        "Any setting by its name in a file of --config, such as n_envs=4; the same as "
        "its flag, and null for no value",
        common=True,
    )


def with_assignments(
    words: Iterable[str], given: Mapping[str, Any], known: Iterable[Option]
) -> dict[str, Any]:
    """Return settings with those that the arguments of `--set` add.

    Args:
        words: arguments of `--set`.
        given: settings of other flags, by flat name.
        known: options of the command; unknown names are kept.
    Raises:
        UserError: an argument has another form, or a setting is given twice.
    """
    options, found = {each.name: each for each in known}, dict(given)
    for word in words:
        name, _, text = (part.strip() for part in word.partition("="))
        if not (name and text):
            raise UserError(
                f"--set takes key=value, got {shown(word)}: write it as in "
                "--set n_envs=4."
            )
        if name in found:
            raise UserError(
                f"--set {name}=… and {_other(name, given)} give one setting: drop one "
                "of the two."
            )
        found[name] = _value(text, options.get(name))
    return found


def _other(name: str, given: Collection[str]) -> str:
    return flag(name) if name in given else "another --set"


def _value(text: str, option: Option | None) -> Any:
    """Return a value as a file would have it; text needs no quotes."""
    try:
        value = parse_yaml(text, SettingsLoader)
    except ValueError:
        return text
    if option is None or option.type is not str or value is None:
        return value
    is_list = isinstance(value, list) and (option.many or option.hp_type is not None)
    return value if is_list or (isinstance(value, dict) and option.many) else text
