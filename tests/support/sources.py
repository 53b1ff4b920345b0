"""The sources of the checkout, each parsed once in a process."""

import ast
import functools
from pathlib import Path


@functools.cache
def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of a file, which its readers share and don't change."""
    return ast.parse(path.read_text(encoding="utf-8"))
