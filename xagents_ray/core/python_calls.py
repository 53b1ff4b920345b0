"""What differs if a function is called from Python, and not by the command line."""

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from xagents_ray.core.errors import Broken, Diverged, UserError

_VALUE = r"(?![-–])[^\s,;:]*[\dA-Z/~][^\s,;]*?(?=[.,;:]?(?:\s|$))"
_FLAG = re.compile(
    rf"(?<![\w-])--(no-)?([a-z][a-z0-9]*(?:-[a-z0-9]+)*)((?: {_VALUE})*)"
)
_OF_COMMANDS = "; --traceback shows the traceback"  # Python shows it anyway
_PLAIN = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?|['\"].*")  # numbers and quoted text


@contextmanager
def python_call() -> Iterator[None]:
    """Raise errors as callers from Python expect them.

    Ctrl-C is a KeyboardInterrupt, not a SystemExit, and messages name arguments, such
    as `max_steps`, not flags.
    """
    try:
        yield
    except SystemExit as error:
        if error.code == 128 + signal.SIGINT:
            raise KeyboardInterrupt from None
        raise
    except (UserError, Broken, Diverged) as error:
        error.args = (as_arguments(str(error)),)
        raise


def as_arguments(text: str) -> str:
    """Return a message with Python's arguments in place of flags.

    >>> as_arguments("--lr must be > 0, got -1.0; name one, as in --env CartPole-v1.")
    'lr must be > 0, got -1.0; name one, as in env="CartPole-v1".'
    """
    return _FLAG.sub(_argument, text.replace(_OF_COMMANDS, ""))


def _argument(flag: re.Match[str]) -> str:
    name, values = flag[2].replace("-", "_"), flag[3].split()
    if flag[1]:
        return f"{name}=False{flag[3]}"
    shown = [x if _PLAIN.fullmatch(x) else f'"{x}"' for x in values]
    if len(shown) > 1:
        return f"{name}=[{', '.join(shown)}]"
    return f"{name}={shown[0]}" if shown else name
