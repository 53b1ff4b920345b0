"""A registry of Python objects that settings refer to by name.

Settings are plain data, because they are written to disk and sent to other processes.
An object that a user passes from Python is stored there as `module:name` if it can be
imported; otherwise it is registered here under its name. `export_objects` serializes
registered objects, and `install_objects` registers them in another process.
"""

import contextlib
import functools
import sys
from collections.abc import Collection, Iterable
from pkgutil import resolve_name
from typing import Any

import cloudpickle

from xagents_ray.core.errors import UserError, one_line
from xagents_ray.core.user_code import importing_from_here

_kept: dict[tuple[str, str], Any] = {}
"""Registered objects by setting and name."""


def keep(setting: str, value: Any, label: str = "", taken: Collection[str] = ()) -> str:
    """Return the name of an object in settings; register it unless it is importable.

    A registered object of the same name is replaced, because a notebook cell that
    defines a class may run again.

    Args:
        setting: name of the setting that refers to the object, such as `env`.
        value: a class, a function, or any other object.
        label: name to register the object under, even if it is importable.
        taken: names that the setting already uses for other objects.
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
    """Return the object registered under a name; None if there is none."""
    return _kept.get((setting, name))


def kept_names(setting: str) -> list[tuple[str, str]]:
    """Return (setting, name) of each object registered for a setting."""
    return [key for key in _kept if key[0] == setting]


def as_stored(setting: str, given: Any, stored: Any) -> Any:
    """Return `stored` if `given` names the same object, otherwise `given`.

    A class stored as `Corridor`, because a script defined it, may later be passed from
    a module as `envs:Corridor`. It is then registered under the stored name too.
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
        # It may be a path.
        missing = contextlib.suppress(AttributeError, ImportError, ValueError)
        with missing, importing_from_here():
            found = resolve_name(given)
    if found is None:
        return given
    _kept[setting, stored] = found
    return stored


def _last(name: str) -> str:
    return name.rpartition(":")[2].rpartition(".")[2]


def export_objects(named: Iterable[tuple[str, str]]) -> bytes:
    """Serialize registered objects for `install_objects` in another process.

    Objects that a script or notebook defines are serialized by value, others by name.

    Args:
        named: pairs of setting and name; unregistered ones are skipped.
    Raises:
        Exception: any type, if an object can't be serialized.
    """
    chosen = {key: _kept[key] for key in named if key in _kept}
    data: bytes = cloudpickle.dumps(functools.partial(_install, chosen))
    return data


def export_each(named: Iterable[tuple[str, str]]) -> tuple[bytes, ...]:
    """Serialize registered objects one by one; see `export_objects`.

    Raises:
        UserError: an object can't be serialized; the message names it.
    """
    found: list[bytes] = []
    for setting, name in (key for key in named if key in _kept):
        try:
            found.append(export_objects([(setting, name)]))
        except Exception as error:
            raise UserError(
                f"The {setting} {name!r} can't be sent to other processes "
                f"({one_line(error)}): define it in a module that they can import, or "
                "create what it holds when it is called."
            ) from None
    return tuple(found)


def install_objects(definition: bytes) -> None:
    """Register the objects that another process exported.

    Raises:
        ImportError, AttributeError: a module that defines an object is missing or
            different in this process.
    """
    with importing_from_here():
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
    except (AttributeError, ImportError, ValueError):  # has `<locals>` or `<lambda>`
        return ""


def _own_name(value: Any) -> str:
    while isinstance(value, functools.partial):
        value = value.func
    name: str = getattr(value, "__name__", type(value).__name__)
    return name.strip("<>")  # `<lambda>`


def install_definitions(definitions: Iterable[bytes]) -> None:
    """Register the environments and other objects that another process exported.

    Raises:
        UserError: a module is missing or different in this process.
    """
    for definition in definitions:
        try:
            install_objects(definition)
        except (ImportError, AttributeError) as error:
            raise UserError(
                f"The run needs what can't be imported here ({error}): install the "
                "same modules on every node."
            ) from None
