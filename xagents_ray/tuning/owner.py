"""One process at a time is at work on a study, and says so in it."""

import os
import socket
import time
from typing import Any

import optuna
import psutil

from xagents_ray.core.errors import UserError

_OWNER = "sweep"
_BEAT_SECONDS = 10.0
_SILENT_SECONDS = 60.0


class Owner:
    """This process, at work on a study.

    Raises:
        UserError: another one is.
    """

    def __init__(self, study: optuna.Study) -> None:
        self._study, self._beaten = study, 0.0
        owner = study.user_attrs.get(_OWNER)
        if owner is not None and _is_another(owner):
            raise UserError(
                f"Process {owner['pid']} on {owner['host']} is at work on the study "
                f"{study.study_name}: wait for it or end it, or take another --study."
            )
        self.beat()

    def beat(self) -> None:
        """Say that it still is, when it is time to."""
        now = time.time()
        if now - self._beaten > _BEAT_SECONDS:
            self._beaten = now
            self._study.set_user_attr(_OWNER, {**_this_process(), "seen": now})

    def release(self) -> None:
        """Say that nobody is."""
        self._study.set_user_attr(_OWNER, None)


def _is_another(owner: dict[str, Any]) -> bool:
    """Return whether this is another process that is alive."""
    mine = _this_process()
    if owner["host"] != mine["host"]:  # whose processes can't be seen
        return bool(time.time() - owner["seen"] < _SILENT_SECONDS)
    is_mine = owner["pid"] == mine["pid"]
    return not is_mine and _started(owner["pid"]) == owner["started"]


def _this_process() -> dict[str, Any]:
    pid = os.getpid()
    return {"host": socket.gethostname(), "pid": pid, "started": _started(pid)}


def _started(pid: int) -> float | None:
    """Return when a process of this machine began; None when there is none."""
    try:
        process = psutil.Process(pid)
        is_dead = process.status() == psutil.STATUS_ZOMBIE  # and nobody has waited
        return None if is_dead else float(process.create_time())
    except psutil.Error:
        return None
