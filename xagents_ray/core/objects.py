"""Python objects that settings name: an environment's class, a wrapper, a function.

Settings are plain data, since they are written to disk and sent to other processes. An
object that a user passes from Python has a name in them: `module:name` where it can be
imported, else its own name, by which it is kept here. `exported` takes what is kept to
another process, where `install` keeps it.
"""

import contextlib
import functools
import sys
from collections.abc import Collection, Iterable
from pkgutil import resolve_name
from typing import Any

import cloudpickle

_kept: dict[tuple[str, str], Any] = {}
"""Objects by setting and name."""


def keep(setting: str, value: Any, label: str = "", taken: Collection[str] = ()) -> str:
    """Return the name of an object in a setting, and keep it unless it is importable.

    An object with the name of another one replaces it: a notebook's cell that defines
    a class is run again.

    Args:
        setting: that has it as its value, `env`.
        value: a class, a function, or any other object.
        label: a name in place of its own.
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


def find(setting: str, name: str) -> Any | None:
    """Return the object that `keep` has kept by a name; None if there is none."""
    return _kept.get((setting, name))


def named(setting: str) -> list[tuple[str, str]]:
    """Return what is kept of a setting, with its names."""
    return [key for key in _kept if key[0] == setting]


def as_stored(setting: str, given: Any, stored: Any) -> Any:
    """Return a value, or the stored one where both name an object by the same name.

    A class that a run knows as `Corridor`, since its script defined it, may be passed
    again from a module, as `own:Corridor`; it is then kept by the stored name too.
    """
    if isinstance(given, tuple) and isinstance(stored, tuple):
        if len(given) == len(stored):
            pairs = zip(given, stored, strict=True)
            return tuple(as_stored(setting, *pair) for pair in pairs)
    is_text = isinstance(given, str) and isinstance(stored, str)
    if not is_text or given == stored or _last(given) != _last(stored):
        return given
    found = find(setting, given)
    if found is None and ":" in given:
        with contextlib.suppress(AttributeError, ImportError, ValueError):  # an id
            found = resolve_name(given)
    if found is None:
        return given
    _kept[setting, stored] = found
    return stored


def _last(name: str) -> str:
    return name.rpartition(":")[2].rpartition(".")[2]


def exported(named: Iterable[tuple[str, str]]) -> bytes:
    """Return what `install` needs to keep objects in another process.

    What a script or a notebook defines goes by value, what modules define by name.

    Args:
        named: settings and names; those that are not kept are left out.
    Raises:
        Exception: of some kind; an object can't be sent.
    """
    chosen = {key: _kept[key] for key in named if key in _kept}
    data: bytes = cloudpickle.dumps(functools.partial(_install, chosen))
    return data


def install(definition: bytes) -> None:
    """Do what another process has exported: call the function in it.

    Raises:
        ImportError, AttributeError: a module that defines one is not the same here.
    """
    cloudpickle.loads(definition)()


def _install(chosen: dict[tuple[str, str], Any]) -> None:
    _kept.update(chosen)


def _place(value: Any) -> str:
    """Return where a class or a function can be imported, `module:name`; "" if not."""
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
