"""Tracebacks of other processes, without our frames before the user's."""

import gc
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from processes import python

from xagents_ray.core import user_code
from xagents_ray.core.user_code import folder_of_modules, from_their_frame

HEAD = "Traceback (most recent call last):\n"
OURS = f'  File "{user_code.__file__}", line 3, in rollout\n    x\n    ^\n'
GYMNASIUM = '  File "/venv/lib/site-packages/gymnasium/core.py", line 9, in step\n'
THEIRS = '  File "/home/me/own.py", line 7, in step\n    y\n'
ERROR = "RuntimeError: closed\n"


def test_each_part_begins_with_their_frame() -> None:
    part = HEAD + OURS + GYMNASIUM + THEIRS + GYMNASIUM + ERROR
    short = HEAD + THEIRS + GYMNASIUM + ERROR
    assert from_their_frame(part) == short
    both = "\nDuring handling of the above exception, another exception occurred:\n\n"
    assert from_their_frame(part + both + part) == short + both + short


def test_without_their_frame_all_is_left() -> None:
    for text in (HEAD + OURS + GYMNASIUM + ERROR, "its process died", ""):
        assert from_their_frame(text) == text


def test_the_folder_of_modules_beside_a_script() -> None:
    """A package's is the one above it; what is installed or ours has none."""
    Path("beside/package").mkdir(parents=True)
    Path("beside/package/__init__.py").write_text("")
    show = "from xagents_ray.core.user_code import folder_of_modules as f\nprint(f())\n"
    Path("beside/script.py").write_text("import gymnasium, xagents_ray.run\n" + show)
    Path("beside/other.py").write_text("import package\n" + show)
    found = [python(f"beside/{name}.py").stdout for name in ("script", "other")]
    assert found == ["None\n", f"{Path('beside').resolve()}\n"]


@pytest.fixture
def imports() -> Iterator[list[str]]:
    """Import a module whenever garbage is collected, as another thread may then."""
    names: list[str] = []

    def one_more(phase: str, info: Any) -> None:
        names.append(f"imported_meanwhile_{len(names)}")
        sys.modules[names[-1]] = ModuleType(names[-1])

    thresholds = gc.get_threshold()
    gc.callbacks.append(one_more)
    gc.set_threshold(1)
    yield names
    gc.set_threshold(*thresholds)
    gc.callbacks.remove(one_more)
    for name in names:
        del sys.modules[name]


def test_the_folder_of_modules_while_others_are_imported(imports: list[str]) -> None:
    """Ray's threads import as well."""
    before = len(imports)
    assert folder_of_modules() is not None  # of the tests
    assert len(imports) > before
