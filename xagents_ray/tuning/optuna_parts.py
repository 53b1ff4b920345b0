"""Components of an Optuna study: database, owner, pruner and distributions."""

import os
import re
import socket
import time
from typing import Any

import optuna
import psutil
from optuna import distributions
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from xagents_ray.core.errors import UserError
from xagents_ray.tuning.plan import TuneConfig
from xagents_ray.tuning.space import Space

_SECRET = re.compile("passw|pwd|secret|token|odbc_connect", re.IGNORECASE)
"""Arguments of database drivers that hold a password."""
_OWNER = "sweep"
_BEAT_SECONDS = 10.0
_SILENT_SECONDS = 60.0


def open_study(name: str, url: str) -> optuna.Study:
    """Open or create a study in a database; UserError if that fails."""
    try:
        return optuna.create_study(
            study_name=name, storage=url, direction="maximize", load_if_exists=True
        )
    except ImportError as error:
        cause = error.__cause__ or error
        missing = cause.name if isinstance(cause, ImportError) else None
        raise UserError(
            f"--storage {without_password(url)} needs the package "
            f"{missing or 'of its driver'}: install it beside xagents-ray."
        ) from None
    except (
        SQLAlchemyError,
        optuna.exceptions.StorageInternalError,
        LookupError,  # braces in a path
        RuntimeError,  # tables of another version
        ValueError,  # a port that is not a number
    ) as error:
        raise UserError(
            f"--storage {without_password(url)} can't be opened "
            f"({first_line(error)}): give a URL such as sqlite:///study.db or "
            "postgresql://user@host/name."
        ) from None


def make_pruner(
    config: TuneConfig, points: tuple[int, ...]
) -> optuna.pruners.BasePruner:
    """Return the pruner that --scheduler selects, which ends bad trials early."""
    if config.scheduler == "median":
        steps = config.warmup_steps
        return optuna.pruners.MedianPruner(
            n_startup_trials=config.warmup_trials,
            n_warmup_steps=config.trial_steps // 10 if steps is None else steps,
        )
    if config.scheduler == "asha":
        return optuna.pruners.SuccessiveHalvingPruner(
            min_resource=points[0], reduction_factor=3
        )
    return optuna.pruners.NopPruner()


def distribution_of(space: Space) -> distributions.BaseDistribution:
    """Return a search space as an Optuna distribution."""
    if space.kind == "categorical":
        return distributions.CategoricalDistribution(space.values)
    low, high = space.values
    if space.kind == "int":
        return distributions.IntDistribution(low, high)
    return distributions.FloatDistribution(low, high, log=True)


def describe_values(distribution: distributions.BaseDistribution) -> str:
    """Return the values of a distribution in words."""
    if isinstance(distribution, distributions.CategoricalDistribution):
        return " ".join(map(str, distribution.choices))
    assert isinstance(
        distribution, distributions.IntDistribution | distributions.FloatDistribution
    )
    return f"{distribution.low} to {distribution.high}"


def without_password(url: str) -> str:
    """Return a database URL to display, without passwords."""
    try:
        found = make_url(url)
    except (SQLAlchemyError, ValueError):
        return f"{url.partition(':')[0]}:…"
    secrets = {name: "***" for name in found.query if _SECRET.search(name)}
    return found.update_query_dict(secrets).render_as_string()


def has_password(url: str) -> bool:
    """Return whether a database URL has a password, as its user or in its query."""
    try:
        found = make_url(url)
    except (SQLAlchemyError, ValueError):
        return "@" in url
    return bool(found.password) or any(map(_SECRET.search, found.query))


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or of its cause's."""
    cause = error.__cause__ or error
    return str(cause).strip().splitlines()[0].rstrip(".")


class Owner:
    """Ownership of a study by one process, recorded in the study.

    Raises:
        UserError: another process owns it.
    """

    def __init__(self, study: optuna.Study) -> None:
        self._study, self._beaten = study, 0.0
        owner = study.user_attrs.get(_OWNER)
        if owner is not None and _is_another(owner):
            raise UserError(
                f"Process {owner['pid']} on {owner['host']} is working on the study "
                f"{study.study_name}: wait for it or end it, or take another --study."
            )
        self.beat()

    def beat(self) -> None:
        """Refresh the ownership heartbeat if due."""
        now = time.time()
        if now - self._beaten > _BEAT_SECONDS:
            self._beaten = now
            self._study.set_user_attr(_OWNER, {**_this_process(), "seen": now})

    def release(self) -> None:
        """Release the study for other processes."""
        self._study.set_user_attr(_OWNER, None)


def _is_another(owner: dict[str, Any]) -> bool:
    """Return whether the owner is another process that is alive."""
    mine = _this_process()
    if owner["host"] != mine["host"]:  # its processes can't be inspected
        return bool(time.time() - owner["seen"] < _SILENT_SECONDS)
    is_mine = owner["pid"] == mine["pid"]
    return not is_mine and _started(owner["pid"]) == owner["started"]


def _this_process() -> dict[str, Any]:
    pid = os.getpid()
    return {"host": socket.gethostname(), "pid": pid, "started": _started(pid)}


def _started(pid: int) -> float | None:
    """Return the start time of a process on this machine; None if it is dead."""
    try:
        process = psutil.Process(pid)
        is_dead = process.status() == psutil.STATUS_ZOMBIE  # not reaped yet
        return None if is_dead else float(process.create_time())
    except psutil.Error:
        return None
