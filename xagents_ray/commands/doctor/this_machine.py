"""Checks what every run on this machine requires, for `doctor` without an agent."""

import importlib.metadata
import netrc
import os
import platform
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from xagents_ray.commands.doctor import machine
from xagents_ray.commands.doctor.checks import (
    Check,
    error_check,
    format_bytes,
    format_seconds,
    warning_check,
)
from xagents_ray.core.process import available_cores
from xagents_ray.core.version import __version__
from xagents_ray.run.child import Child, Job, Outcome
from xagents_ray.settings.run import RunConfig

_RAY_SECONDS = 8.0
"""Time limit for the start of Ray on an idle machine."""
_PACKAGES = ("tensorflow", "keras", "ray", "gymnasium", "numpy")
_SHARED = Path("/dev/shm")
_LEAST_SHARED = 2**30
_LEAST_FREE = 2**30


def examine_machine() -> Iterator[Check]:
    """Yield what was found on this machine, in at most ten seconds if it is idle."""
    busy = max(1.0, os.getloadavg()[0] / available_cores())
    starting = Child.start(
        Job("xagents_ray.cluster.ray.one_start:seconds_of_one_start")
    )
    with starting:
        until = time.monotonic() + _RAY_SECONDS * busy
        yield _versions()
        yield from filter(None, (machine.check_tensorflow(), machine.check_bytecode()))
        yield _gpu()
        yield _memory()
        yield _disk()
        yield _shared_memory()
        yield _wandb()
        yield _ray(starting, until, _RAY_SECONDS * busy)


def _versions() -> Check:
    found = [f"xagents-ray {__version__}", f"Python {platform.python_version()}"]
    for name in _PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            found.append(f"{name} {importlib.metadata.version(name)}")
    return Check("versions", ", ".join(found))


def _gpu() -> Check:
    shown = machine.list_gpus()
    if not shown or machine.has_cuda():
        found = ", ".join(shown) or f"none: learners use {available_cores()} cores"
        return Check("GPU", found)
    return machine.check_gpu(shown, "TensorFlow is built without CUDA")


def _memory() -> Check:
    here = psutil.virtual_memory()
    free = f"{format_bytes(here.available)} of {format_bytes(here.total)} free"
    if here.available < _LEAST_FREE:
        why = "End other programs: TensorFlow and Ray need 1 GiB."
        return warning_check("memory", free, why)
    return Check("memory", f"{free}; {available_cores()} cores")


def _disk() -> Check:
    place = Path.cwd()
    free = f"{format_bytes(shutil.disk_usage(place).free)} free in {place}"
    if not os.access(place, os.W_OK):
        why = f"Runs are written to {RunConfig.run_dir} here: name another --run-dir."
        return warning_check("disk", f"{place} can't be written", why)
    return Check("disk", free)


def _shared_memory() -> Check:
    if not _SHARED.is_dir():
        return Check("shared memory", "not used on this system")
    free = shutil.disk_usage(_SHARED).free
    found = f"{format_bytes(free)} free in {_SHARED}"
    if free < _LEAST_SHARED:
        why = "Enlarge it (docker run --shm-size): Ray writes to disk what has no room."
        return warning_check("shared memory", found, why)
    return Check("shared memory", found)


def _wandb() -> Check:
    try:
        importlib.metadata.version("wandb")
    except importlib.metadata.PackageNotFoundError:
        return Check("W&B", "not installed; only --monitor-session needs it")
    if os.environ.get("WANDB_API_KEY"):
        return Check("W&B", "logged in by WANDB_API_KEY")
    known: object = None
    with suppress(OSError, netrc.NetrcParseError):
        known = netrc.netrc().authenticators("api.wandb.ai")
    found = "logged in" if known else "not logged in; only --monitor-session needs it"
    return Check("W&B", found)


def _ray(starting: Child, until: float, seconds: float) -> Check:
    try:
        outcome: Outcome = starting.receive(until)
    except TimeoutError:
        why = "Try again when the machine is idle, or use --local, which needs no Ray."
        return warning_check("Ray", f"not started within {seconds:.0f} s", why)
    if outcome.failure:
        why = f"Use --local until this is mended: {outcome.failure.rstrip('.')}."
        return error_check("Ray", "does not start", why)
    return Check("Ray", f"starts in {format_seconds(outcome.value)}")
