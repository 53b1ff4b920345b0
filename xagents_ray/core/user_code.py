"""Helpers for user code: import by name, source lines and tracebacks."""

import importlib
import inspect
import os
import re
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from xagents_ray.core.errors import UserError, did_you_mean, one_line

_E = TypeVar("_E", bound=BaseException)
_HEAD = "Traceback (most recent call last):\n"
_ROOT = Path(__file__).resolve().parents[2]
_ROOMS = ("xagents_ray", "actors", "learners", "cluster")
_NOT_THEIRS = tuple(
    f"{folder}{os.sep}"
    for folder in (*(_ROOT / room for room in _ROOMS), Path(os.__file__).parent)
)
_INSTALLED = f"{os.sep}site-packages{os.sep}"  # libraries that user code calls


@contextmanager
def importing_from_here() -> Iterator[None]:
    """Let modules in the working directory be imported within the block.

    Use it only to import what the user or a run names: the directory may be a download
    with a module of any name, such as one that libraries import where it is installed.
    """
    sys.path.append("")
    try:
        yield
    finally:
        with suppress(ValueError):  # the user's code may have changed the path
            del sys.path[-1 - sys.path[::-1].index("")]


def enter_folder(folder: str) -> None:
    """Make a folder the working directory, where there is one of that name."""
    with suppress(OSError):
        os.chdir(folder)


def find_named(flag: str, name: str) -> Any:
    """Return the object that a flag names as `package.module:name`.

    Raises:
        UserError: the module or the name does not exist, or importing it fails.
    """
    module, _, attribute = name.partition(":")
    if not module or not attribute or module.startswith("."):
        raise UserError(f"{flag} {name}: name it as package.module:name.")
    try:
        with importing_from_here():
            imported = importlib.import_module(module)
    except ImportError as error:
        raise UserError(
            f"{flag} {name}: module {module} can't be imported ({error}); install it, "
            "or start in the directory that holds it."
        ) from None
    except Exception as error:
        place = place_that_raised(error)
        why = one_line(error) + (f" ({place})" if place else "")
        raise UserError(f"{flag} {name}: {why}; fix it there.") from error
    try:
        return getattr(imported, attribute)
    except AttributeError:
        hint = did_you_mean(attribute, vars(imported)) or "; name one that it holds."
        raise UserError(f"{flag} {name}: {module} has no {attribute}{hint}") from None


def line_of(what: Any) -> str:
    """Return `file, line N` of a function, a class or an object's class."""
    what = inspect.unwrap(getattr(what, "func", what))  # also unwraps functools.partial
    code = getattr(what, "__code__", None)
    if code is not None:
        return _shown(code.co_filename, code.co_firstlineno)
    kind = what if isinstance(what, type) else type(what)
    try:
        return _shown(inspect.getfile(kind), inspect.getsourcelines(kind)[1])
    except (OSError, TypeError):
        return ""


def place_that_raised(error: BaseException) -> str:
    """Return `file, line N` of the user's code nearest to where an error was raised."""
    if isinstance(error, SyntaxError) and error.filename:
        return _shown(error.filename, error.lineno or 0)
    theirs = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if not is_library(frame.f_globals.get("__name__", ""))
    ]
    found = [place for place in theirs if _INSTALLED not in place[0]] or theirs
    return _shown(*found[-1]) if found else ""


def traceback_of(error: BaseException) -> str:
    """Return the traceback, starting at the user's first frame."""
    first = _user_frames(error)
    return "".join(traceback.format_exception(type(error), error, first)).rstrip()


def starting_at_the_user(error: _E) -> _E:
    """Return the error with its traceback cut to start at the user's first frame."""
    return error.with_traceback(_user_frames(error))


def _user_frames(error: BaseException) -> TracebackType | None:
    """Return the traceback from the user's first frame on, or all without one."""
    link = error.__traceback__
    while link and is_library(link.tb_frame.f_globals.get("__name__", "")):
        link = link.tb_next
    return link or error.__traceback__


def folder_of_modules() -> Path | None:
    """Return the folder from which the user's own modules were imported.

    None if all imported modules are installed. If there are several folders, the
    script's folder is preferred, then the working directory.
    """
    main, found = sys.modules["__main__"], []
    script = getattr(main, "__file__", None)
    # Other threads may import meanwhile: a copy is atomic, a list of the items is not.
    for name, module in sys.modules.copy().items():
        file = getattr(module, "__file__", None)
        is_top = module is not main and "." not in name
        if file and is_top and _is_theirs(file):
            is_package = Path(file).name == "__init__.py"
            found.append(Path(file).resolve().parents[int(is_package)])
    preferred = [Path(script).resolve().parent] if script else []
    return next((x for x in (*preferred, Path.cwd(), *found) if x in found), None)


def from_their_frame(text: str) -> str:
    """Trim each part of another process's traceback to start at the user's code."""
    first, *parts = text.split(_HEAD)
    return _HEAD.join((first, *map(_without_our_frames, parts)))


def _without_our_frames(part: str) -> str:
    for frame in re.finditer(r'^ *File "(.+)", line \d+', part, re.MULTILINE):
        if _is_theirs(frame[1]):
            return part[frame.start() :]
    return part


def _is_theirs(file: str) -> bool:
    return _INSTALLED not in file and not file.startswith(_NOT_THEIRS)


def is_library(module: str) -> bool:
    """Return whether a module is part of xagents_ray, Gymnasium, NumPy or Python."""
    top = module.partition(".")[0]
    is_ours = is_of(module, "xagents_ray") or is_of(module, "gymnasium")
    return is_ours or top in ("numpy", "ale_py") or top in sys.stdlib_module_names


def is_of(module: str, package: str) -> bool:
    """Return whether a module is the package or inside it."""
    return module == package or module.startswith(f"{package}.")


def _shown(file: str, line: int) -> str:
    here = os.path.relpath(file)
    return f"{file if here.startswith(os.pardir) else here}, line {line}"
