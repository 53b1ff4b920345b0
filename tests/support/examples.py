"""The examples in docstrings, run as doctests in a namespace that they share."""

import doctest
import io
from typing import Any

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def examples_of(found: Any, name: str) -> dict[str, doctest.DocTest]:
    """Return what of an object has examples: itself, and the methods of a class."""
    tests = doctest.DocTestFinder().find(found, name, module=False)  # type: ignore[arg-type]
    return {test.name: test for test in tests if test.examples}


def complaints(test: doctest.DocTest, namespace: dict[str, Any]) -> str:
    """Run examples; return what doctest says of those that fail, '' if none does."""
    test.globs, said = namespace, io.StringIO()
    runner = doctest.DocTestRunner(verbose=False, optionflags=FLAGS)
    runner.run(test, out=said.write, clear_globs=False)
    return said.getvalue()
