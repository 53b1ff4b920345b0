"""Exceptions, and helpers that format error messages."""

import difflib
import errno
import math
import re
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path

# Control characters, those that change the direction of text, and undecoded bytes.
_CONTROL = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


_NO_MEMORY = "MemoryError", "ResourceExhaustedError"  # the latter is TensorFlow's
_NO_SPACE = errno.ENOSPC, errno.EDQUOT, errno.EFBIG


class UserError(ValueError):
    """A mistake that the user can fix; the message is one sentence with a remedy.

    If a command has several mistakes, the message has one line for each. The command
    line interface prints it without a traceback and exits with code 2. Characters that
    control a terminal are escaped in it.

    >>> try:
    ...     xagents_ray.load("nowhere")
    ... except xagents_ray.UserError as error:
    ...     print(error)
    load nowhere: there is no such directory; name a run's, or last.
    """

    def __init__(self, message: object) -> None:
        # Gymnasium's AsyncVectorEnv passes the error of another process.
        super().__init__(printable(str(message)))


class EnvironmentFault(UserError):
    """A user-defined environment violates Gymnasium's API, or raises when created.

    Attributes:
        trace: traceback of the environment's exception; "" if it raised none.
    """

    def __init__(self, message: object, trace: str = "") -> None:
        super().__init__(message)
        self.trace = trace


class EndlessEpisode(UserError):
    """An episode of an evaluation doesn't end in time."""


class Mistakes:
    """Collects the mistakes of a user, so that all of them are reported at once.

    A `with` block ends at its first UserError; execution continues after the block.

    Attributes:
        found: the mistakes so far, in the order in which they are reported.
    """

    def __init__(self, found: Iterable[UserError] = ()) -> None:
        self.found = list(found)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, at: object) -> bool:
        if isinstance(error, UserError):
            self.found.append(error)
        return isinstance(error, UserError)

    def error(self) -> UserError:
        """Return the only mistake, or one error with a line for each mistake."""
        lines = dict.fromkeys(str(each) for each in self.found)
        return self.found[0] if len(lines) == 1 else UserError("\n".join(lines))

    def report(self) -> None:
        """Raise `error` if there is a mistake."""
        if self.found:
            raise self.error()


def has_controls(text: str) -> bool:
    """Return whether a text has characters that control a terminal, or line ends."""
    return _CONTROL.search(text) is not None


def printable(text: str) -> str:
    """Return text with control characters escaped, except for line ends and tabs.

    Text from a file can otherwise change what a terminal shows, or its settings.
    """
    return _CONTROL.sub(_escaped, text)


def _escaped(control: re.Match[str]) -> str:
    is_kept = control[0] in "\n\t"
    return control[0] if is_kept else control[0].encode("unicode_escape").decode()


def shown(value: object) -> str:
    """Return the representation of a value for a message, cut after 80 characters."""
    try:
        text = repr(value)
    except ValueError:  # an integer has too many digits
        text = f"a value of {type(value).__name__} with too many digits"
    return text if len(text) <= 80 else f"{text[:79]}…"


def did_you_mean(
    name: str, known: Iterable[str], texts: Mapping[str, str] | None = None
) -> str:
    """Return `; did you mean A or B?` for the known names nearest to `name`, or "".

    Args:
        name: the unknown name.
        known: the known names.
        texts: text to show for each known name; None for the names themselves.
    """
    words = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name.lower(), list(words), n=3, cutoff=0.65)
    matches = [words[each] for each in close]
    if texts is not None:
        matches = [texts[each] for each in matches]
    return f"; did you mean {' or '.join(matches)}?" if matches else ""


def pluralize(count: int, singular: str, plural: str = "") -> str:
    """Return `1 env actor` or `1,200 env actors`; the plural adds an s by default."""
    word = singular if count == 1 else plural or f"{singular}s"
    return f"{count:,} {word}"


def one_line(error: BaseException) -> str:
    """Return the error's type and message in one line, without a period."""
    message = " ".join(str(error).split()).rstrip(".")
    if len(message) > 300:
        message = f"{message[:300]}…"
    kind = type(error).__name__
    return f"{kind}: {message}" if message else kind


def describe_error(error: BaseException) -> str:
    """Return the error in one line, with the file and line that raised it."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{one_line(error)} ({Path(last.filename).name}, line {last.lineno})"


def shortage(error: BaseException | None) -> str:
    """Return what an error says is used up: `memory`, `disk space`, or ""."""
    if any(each.__name__ in _NO_MEMORY for each in type(error).__mro__):
        return "memory"
    number = error.errno if isinstance(error, OSError) else None
    if number == errno.ENOMEM:
        return "memory"
    return "disk space" if number in _NO_SPACE else ""


class Stopped(Exception):
    """Ends work in progress, such as a rollout, after a request to stop."""


class Diverged(Exception):
    """A loss, gradient or reward is not finite; the message names the first one.

    The command line interface prints it without a traceback and exits with code 1.

    >>> import gymnasium
    >>> def no_rewards():
    ...     env = gymnasium.make("CartPole-v1")
    ...     return gymnasium.wrappers.TransformReward(env, lambda reward: np.nan)
    >>> try:
    ...     xagents_ray.train(
    ...         "a2c", env=no_rewards, max_steps=200, run_dir="others", local=True,
    ...         quiet=True)
    ... except xagents_ray.Diverged as error:
    ...     print(error)
    The environment gave a reward of nan: ...
    """


class RemoteTraceback(Exception):
    """A formatted traceback as the cause of an error; Python prints it first."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}\n"


class Broken(Exception):
    """A run can't continue, or a user's callback failed; the message says why.

    The command line interface prints it without its own traceback and exits with 1.

    Attributes:
        trace: traceback of the user's code, printed first; "" if the user's code is not
            the cause.

    >>> def on_rollout(ctx):
    ...     raise RuntimeError("no room left")
    >>> try:
    ...     xagents_ray.train(
    ...         "a2c", env="CartPole-v1", max_steps=200, callbacks=[on_rollout],
    ...         run_dir="others", local=True, quiet=True)
    ... except xagents_ray.Broken as error:
    ...     print("no room left" in error.trace)
    True
    """

    def __init__(self, message: str, trace: str = "") -> None:
        super().__init__(printable(message))
        self.trace = trace
        if trace:
            self.__cause__ = RemoteTraceback(trace)


def check_finite(metrics: Mapping[str, float], env_steps: int) -> None:
    """Raise Diverged if a metric of a learning phase is not finite."""
    for name, value in metrics.items():
        if not math.isfinite(value):
            raise Diverged(
                f"{name} is {value} after {env_steps} env steps: lower --lr, and "
                "start from the --weights of a checkpoint or from scratch."
            )
