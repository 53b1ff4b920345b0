"""Find what a dotted path names."""

import importlib
from typing import Any


def resolve(path: str) -> Any:
    """Return what `module:name` names."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)
