"""Rows of the table that `xagents-ray doctor` prints."""

from dataclasses import dataclass
from functools import partial

from xagents_ray.run.child import Outcome


@dataclass(frozen=True)
class Check:
    name: str  # what was checked
    found: str  # finding, in a few words
    # What to change, with the flag, in one sentence; "" if nothing.
    remedy: str = ""
    verdict: str = "ok"  # ok, warning, error, or - if not checked
    trace: str = ""  # traceback of the user's environment; "" if it raised nothing


error_check = partial(Check, verdict="error")
"""A row about a problem that would stop the run."""
warning_check = partial(Check, verdict="warning")
"""A row about a problem that would slow the run down or might stop it."""


def failed_call(name: str, found: str, flag: str, outcome: Outcome) -> Check:
    """Return the error for a call that raised, about a flag and its value."""
    if outcome.is_advice:
        return error_check(name, found, outcome.failure, trace=outcome.trace)
    return error_check(name, found, f"{flag}: fix this: {outcome.failure}.")


def hanging_env(name: str, env: str, doing: str, seconds: float) -> Check:
    """Return the error for an environment that timed out."""
    remedy = (
        f"{env} did not {doing} within {seconds:.0f} s: see what it waits for, perhaps "
        "a server or a lock."
    )
    return error_check(name, f"did not {doing}", remedy)


def format_bytes(count: float) -> str:
    """Format a number of bytes: 20 bytes, 3.1 MiB."""
    units = ("bytes", "KiB", "MiB", "GiB", "TiB")
    power = 0
    while power < len(units) - 1 and count >= 1024 ** (power + 1):
        power += 1
    value = count / 1024**power
    return f"{value:,.{int(value < 10 and power > 0)}f} {units[power]}"


def format_seconds(seconds: float) -> str:
    """Format a duration: 12 minutes, 3.1 s, 20 ms."""
    for unit, length in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.1f} s" if seconds >= 0.1 else f"{seconds * 1000:.0f} ms"
