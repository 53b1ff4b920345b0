"""Python objects that settings name: an environment's class, a wrapper, a function.

Settings are plain data, since they are written to disk and sent to other processes. In
them, an object that a user passes from Python is a name: `module:name` if it can be
imported, else the object's own name, under which it is kept here. `export_objects`
prepares kept objects for another process, where `install_objects` keeps them.
"""

import contextlib
import functools
import sys
from collections.abc import Collection, Iterable
from pkgutil import resolve_name
from typing import Any

import cloudpickle

from xagents_ray.core.errors import UserError

_kept: dict[tuple[str, str], Any] = {}
"""Objects by setting and name."""


def keep(setting: str, value: Any, label: str = "", taken: Collection[str] = ()) -> str:
    """Return an object's name for a setting, and keep it unless it is importable.

    An object replaces another one of the same name, since a notebook's cell that
    defines a class may run again.

    Args:
        setting: name of the setting whose value it is, such as `env`.
        value: a class, a function, or any other object.
        label: a name to use instead of the object's own.
        taken: names that the same setting has already given to other objects.
    """
    place = _place(value)
    if place and not label:
        return place
    name = own = label or _own_name(value)
    number = 1
    while name in taken:
        number += 1
        name = f"{own}-{number}"
    _kept[setting, name] = value
    return name


def find_kept(setting: str, name: str) -> Any | None:
    """Return the object that was kept under a name; None if there is none."""
    return _kept.get((setting, name))


def kept_names(setting: str) -> list[tuple[str, str]]:
    """Return the objects that are kept for a setting, by name."""
    return [key for key in _kept if key[0] == setting]


def as_stored(setting: str, given: Any, stored: Any) -> Any:
    """Return a value, or the stored one if both name the same object.

    A class that a run knows as `Corridor`, because its script defined it, may later be
    passed from a module as `own:Corridor`. It is then kept under the stored name too.
    """
    if isinstance(given, tuple) and isinstance(stored, tuple):
        if len(given) == len(stored):
            pairs = zip(given, stored, strict=True)
            return tuple(as_stored(setting, *pair) for pair in pairs)
    is_text = isinstance(given, str) and isinstance(stored, str)
    if not is_text or given == stored or _last(given) != _last(stored):
        return given
    found = find_kept(setting, given)
    if found is None and ":" in given:
        with contextlib.suppress(AttributeError, ImportError, ValueError):  # an id
            found = resolve_name(given)
    if found is None:
        return given
    _kept[setting, stored] = found
    return stored


def _last(name: str) -> str:
    return name.rpartition(":")[2].rpartition(".")[2]


def export_objects(named: Iterable[tuple[str, str]]) -> bytes:
    """Return what `install_objects` needs to keep objects in another process.

    Objects that a script or a notebook defines are sent by value, others by name.

    Args:
        named: pairs of a setting and a name; those that are not kept are left out.
    Raises:
        Exception: of any type; an object can't be serialized.
    """
    chosen = {key: _kept[key] for key in named if key in _kept}
    data: bytes = cloudpickle.dumps(functools.partial(_install, chosen))
    return data


def install_objects(definition: bytes) -> None:
    """Keep the objects that another process exported, by calling its function.

    Raises:
        ImportError, AttributeError: a module that defines an object differs in this
            process.
    """
    cloudpickle.loads(definition)()


def _install(chosen: dict[tuple[str, str], Any]) -> None:
    _kept.update(chosen)


def _place(value: Any) -> str:
    """Return the import path `module:name` of a class or a function; "" if none."""
    module = getattr(value, "__module__", None)
    name = getattr(value, "__qualname__", None)
    if not module or not name or module == "__main__" or module not in sys.modules:
        return ""
    place = f"{module}:{name}"
    try:
        return place if resolve_name(place) is value else ""
    except (AttributeError, ImportError, ValueError):  # `<locals>` or `<lambda>` in it
        return ""


def _own_name(value: Any) -> str:
    while isinstance(value, functools.partial):
        value = value.func
    name: str = getattr(value, "__name__", type(value).__name__)
    return name.strip("<>")  # of a lambda


def install_definitions(definitions: Iterable[bytes]) -> None:
    """Register the environments that another process exported.

    Raises:
        UserError: a module is missing in this process.
    """
    for definition in definitions:
        try:
            install_objects(definition)
        except (ImportError, AttributeError) as error:
            raise UserError(
                f"--env needs what can't be imported here ({error}): install the same "
                "modules on every node."
            ) from None
