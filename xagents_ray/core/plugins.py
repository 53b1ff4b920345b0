"""Plugins: entry points of installed packages, and classes by import path."""

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from pkgutil import resolve_name
from typing import Any, TypeAlias

from xagents_ray.core.errors import UserError, one_line

Place: TypeAlias = str | Callable[..., Any]
"""A class, or its import path `module:class`, which is resolved where it is used."""


def load_plugins(group: str, add: Callable[[str, Any], None]) -> dict[str, str]:
    """Load the entry points of a group; a failing one doesn't affect the others.

    Args:
        group: name of the entry point group.
        add: function that takes a name and the loaded object; may raise UserError.
    Returns:
        Error messages by name: failed entry points, and names used twice.
    """
    packages: dict[str, str] = {}
    failures: dict[str, str] = {}
    for each in entry_points(group=group):
        package = each.value if each.dist is None else each.dist.name
        if each.name in packages:
            failures[each.name] = (
                f"Both {packages[each.name]} and {package} have {each.name!r} among "
                f"their {group}, and the first one is used: uninstall one."
            )
            continue
        packages[each.name] = package
        try:
            add(each.name, _loaded(each, package))
        except UserError as error:
            failures[each.name] = str(error)
    return failures


def _loaded(entry: EntryPoint, package: str) -> Any:
    try:
        return entry.load()
    except Exception as error:  # a module may raise anything
        raise UserError(
            f"{entry.name} of the package {package} can't be loaded "
            f"({one_line(error)}): fix or uninstall it."
        ) from None


def resolve_class(what: str, place: Place) -> Callable[..., Any]:
    """Return the class with the import path `module:class`; return a class unchanged.

    Raises:
        UserError: there is no such class; the message calls it `what`.
    """
    if not isinstance(place, str):
        return place
    try:
        found: Callable[..., Any] = resolve_name(place)
    except (ImportError, AttributeError, ValueError) as error:
        raise UserError(
            f"The {what} {place} can't be imported ({one_line(error)}): install its "
            "package wherever the run has processes, or correct the name."
        ) from error
    return found
