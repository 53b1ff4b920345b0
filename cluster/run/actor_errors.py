"""Errors of env actors: what their tracebacks say, and whether they always occur."""

import re
from collections.abc import Sequence
from pathlib import Path

from xagents_ray.cluster.ray.calls import RayCalls, remote_traceback
from xagents_ray.cluster.run.actor_slot import ActorSlot
from xagents_ray.core.errors import Broken, UserError

_USERS_ERROR = re.compile(
    rf"^{re.escape(UserError.__module__)}\.(?:UserError|EnvironmentFault): ", re.M
)


def users_error(trace: str) -> str:
    """Return the message of the user's mistake that a traceback ends with, or ""."""
    found = _USERS_ERROR.search(trace)
    return trace[found.end() :] if found else ""


def last_line(trace: str) -> str:
    """Return the last line of a traceback, without a period."""
    return trace.rstrip().rpartition("\n")[2].rstrip(".")


def error_line(trace: str) -> str:
    """Return the error at the end of a traceback, and the line that raised it."""
    frames = list(re.finditer(r'^ *File "(.+)", line (\d+)', trace, re.MULTILINE))
    if not frames:
        return trace.rpartition("\n")[2]
    kind = re.search(r"^[\w.]+", trace[frames[-1].end() :], re.MULTILINE)
    file, line = frames[-1].groups()
    return f"{Path(file).name}, line {line} ({kind[0] if kind else 'error'})"


def check_always_raises(
    calls: RayCalls, failed: ActorSlot, slots: Sequence[ActorSlot], trace: str
) -> None:
    """Raise Broken if two first starts failed alike, and none has succeeded.

    Args:
        calls: Ray calls that look at the starts.
        failed: the slot whose actor has failed to start.
        slots: the slots of all actors.
        trace: traceback of the failure.
    """
    line = error_line(trace)
    again = bool(failed.errors[line])
    others = [slot.started for slot in slots if slot is not failed]
    for started in calls.ready(others, 0):
        try:
            calls.value(started)
        except (UserError, calls.ray.exceptions.RayError) as error:
            again = again or error_line(remote_traceback(error)) == line
        else:
            return
    if again:
        raise Broken(
            f"No env actor can create its environments: {last_line(trace)} ({line}); "
            "the environment works in this process, so check what the others lack: "
            "files, environment variables, packages.",
            trace,
        )
