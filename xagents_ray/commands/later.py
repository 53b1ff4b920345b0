"""Functions that are imported when they are called."""

from collections.abc import Callable
from pkgutil import resolve_name
from typing import Any


def later(path: str) -> Callable[..., Any]:
    """Return a function that imports the one with this path when it is called.

    Other commands than `train` would delay its first line by 40 ms.
    """
    return lambda *given, **settings: resolve_name(path)(*given, **settings)
