"""The one kind of error that is the user's to mend."""

import difflib
import traceback
from collections.abc import Iterable
from pathlib import Path


class UserError(ValueError):
    """A mistake that the user can mend; the message is one sentence with a remedy.

    The command line prints the message without a traceback and exits with 2.
    """


class EnvironmentFault(UserError):
    """A user's environment breaks Gymnasium's interface, or raised at its start.

    Attributes:
        trace: the traceback of what it raised; "" where it raised nothing.
    """

    def __init__(self, message: str, trace: str = "") -> None:
        super().__init__(message)
        self.trace = trace


def near(name: str, known: Iterable[str], count: int = 3) -> str:
    """Return `; did you mean A or B?` for the known names nearest to `name`, or ''."""
    words = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name.lower(), list(words), n=count, cutoff=0.6)
    matches = [words[each] for each in close]
    return f"; did you mean {' or '.join(matches)}?" if matches else ""


def sentence(error: BaseException) -> str:
    """Return what was raised and the line that did it."""
    said = " ".join(str(error).split()).rstrip(".")
    if len(said) > 300:
        said = f"{said[:300]}…"
    text = f"{type(error).__name__}: {said}" if said else type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    return f"{text} ({Path(frames[-1].filename).name}, line {frames[-1].lineno})"


class Stopped(Exception):
    """Raised inside a rollout that was asked to end early."""


class Diverged(Exception):
    """A loss, gradient or reward is no number; the message names the first one.

    The command line prints the message without a traceback and exits with 1.
    """


class RemoteTraceback(Exception):
    """The traceback of another process; Python prints it before what it caused."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}\n"


class Broken(Exception):
    """So many parts of a run failed that it can't go on; the message says why.

    The command line prints the message without a traceback of its own and exits with 1.

    Attributes:
        trace: traceback of the user's code, printed first; "" when it is not to blame.
    """

    def __init__(self, message: str, trace: str = "") -> None:
        super().__init__(message)
        self.trace = trace
        if trace:
            self.__cause__ = RemoteTraceback(trace)
