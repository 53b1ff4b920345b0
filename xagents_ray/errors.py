"""The one kind of error that is the user's to mend."""

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """A mistake that the user can mend; the message is one sentence with a remedy.

    The command line prints the message without a traceback and exits with 2.
    """


def near(name: str, known: Iterable[str], count: int = 3) -> str:
    """Return `; did you mean A or B?` for the known names nearest to `name`, or ''."""
    matches = difflib.get_close_matches(name, list(known), n=count, cutoff=0.6)
    return f"; did you mean {' or '.join(matches)}?" if matches else ""


class Stopped(Exception):
    """Raised inside a rollout that was asked to end early."""


class Diverged(Exception):
    """A loss, gradient or reward is no number; the message names the first one.

    The command line prints the message without a traceback and exits with 1.
    """


class Broken(Exception):
    """So many parts of a run failed that it can't go on; the message says why.

    The command line prints the message without a traceback of its own and exits with 1.
    """
