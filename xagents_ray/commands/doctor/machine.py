"""Checks of the machine or cluster for `xagents-ray doctor`, one row each."""

import importlib.metadata
import importlib.util
import os
import platform
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING

import psutil

from xagents_ray.actors.diagnosis import ActedWithPolicy
from xagents_ray.algorithms.definition import Algorithm
from xagents_ray.algorithms.presets import find_preset
from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.commands.doctor.checks import (
    Check,
    error_check,
    failed_call,
    format_bytes,
    warning_check,
)
from xagents_ray.core.errors import UserError, pluralize
from xagents_ray.core.installation import is_complete
from xagents_ray.core.process import available_cores
from xagents_ray.run.child import Child, Outcome
from xagents_ray.run.prepare import replay_entry_bytes
from xagents_ray.settings.config import Config
from xagents_ray.settings.resources import PlacementConfig

if TYPE_CHECKING:
    from xagents_ray.cluster.run.preflight import ClusterFacts

CONNECT_SECONDS = 10.0
_SPARE_BYTES = 2**30
"""Memory reserved for TensorFlow, Ray and the environments."""
_SMI_SECONDS = 5
_NOWHERE = PlacementConfig()
_STATE_COPIES = 3
"""Copies of each weight: itself and Adam's two moments; ignores target networks."""


def transition_bytes(run: RunSpec, acted: ActedWithPolicy | None) -> Check | None:
    """Return the size of a transition, each frame counted once; None if unknown."""
    config, parts = run.config.algorithm, []
    if config.replay is not None:
        held, (one, _) = replay_entry_bytes(run), config.replay.entries
        parts.append(f"{held:,.0f} bytes per {one} in the replay")
    if acted is not None:
        steps = config.batch_steps * run.config.env.n_envs
        parts.append(f"{acted.row_bytes:,.0f} bytes per env step in flight")
        parts.append(f"{format_bytes(acted.row_bytes * steps)} in a round of {steps:,}")
    return Check("transition", ", ".join(parts)) if parts else None


def check_memory(run: RunSpec, cluster: "ClusterFacts | None") -> Check:
    """Compare the replay buffer with the memory of this machine or the cluster."""
    if cluster is not None:
        free = cluster.memory
        has = f"{format_bytes(free)} on the cluster's largest node"
    else:
        here = psutil.virtual_memory()
        free, has = (
            here.available,
            f"{format_bytes(here.available)} of {format_bytes(here.total)} free",
        )
    config = run.config.algorithm.replay
    found, needed, remedy = f"no replay buffer; {has}", 0.0, "End other programs"
    if config is not None:
        each = replay_entry_bytes(run)
        needed = each * config.buffer_max_size
        most = max(1, int((free - _SPARE_BYTES) / each))
        zeros = 10 ** max(0, len(str(most)) - 2)
        remedy = f"Lower --buffer-max-size to {most // zeros * zeros} or less"
        entries = pluralize(config.buffer_max_size, *config.entries)
        found = f"{entries} take {format_bytes(needed)}; {has}"
    if needed > free:
        why = "the replay buffer does not fit into memory"
        return error_check("memory", found, f"{remedy}: {why}.")
    if needed + _SPARE_BYTES > free:
        return warning_check(
            "memory", found, f"{remedy}: TensorFlow and Ray need 1 GiB too."
        )
    return Check("memory", found)


def check_disk(config: Config, run: RunSpec | None) -> Check:
    """Compare the free disk space with the size of the checkpoints."""
    path = Path(config.run.run_dir).absolute()
    place = next(p for p in (path, *path.parents) if os.path.exists(p))
    if not place.is_dir() or not os.access(place, os.W_OK):
        return error_check(
            "disk",
            f"{place} can't be written",
            "Name a directory that can be written with --run-dir.",
        )
    free = shutil.disk_usage(place).free
    found = f"{format_bytes(free)} free for --run-dir {config.run.run_dir}"
    if run is None:
        return Check("disk", found)
    weights = sum(layout.n_weights for layout in run.layouts)
    kept = config.run.keep_checkpoints + 2  # plus the best one and the one in progress
    needed = weights * 4 * _STATE_COPIES * kept
    found = f"{found}; checkpoints take {format_bytes(needed)}"
    replay = config.algorithm.replay
    if config.run.checkpoint_replay and replay is not None:
        held = 2 * replay_entry_bytes(run) * replay.buffer_max_size
        needed += int(held)
        found = f"{found}, with the replay {format_bytes(held)} more"
    if needed > free:
        return warning_check(
            "disk",
            found,
            "Free some room or name another --run-dir, or lower --keep-checkpoints or "
            "leave --checkpoint-replay out: without room, the run goes unsaved.",
        )
    return Check("disk", found)


def check_preset(algorithm: Algorithm, config: Config) -> Check:
    """Return whether there is a preset for the environment."""
    env, used = str(config.env.env), config.run.preset or config.run.config
    if used is not None:
        return Check("preset", "used" if used == "auto" else f"{used} is used")
    known = find_preset(algorithm.name, env)
    if known is None:
        return Check("preset", f"none for {algorithm.name} on {env}")
    result = f"{known.expected}; {known.source}"
    return Check("preset", f"add --preset for that of {known.env} ({result})")


def ray_here() -> Check:
    """Return the installed version of Ray."""
    try:
        version = importlib.metadata.version("ray")
    except importlib.metadata.PackageNotFoundError:
        return error_check("Ray", "not installed", "Use --local, or pip install ray.")
    python = platform.python_version()
    return Check("Ray", f"{version} on Python {python}; starting it was not tried")


def check_tensorflow() -> Check | None:
    """Return an error if TensorFlow is missing; None if it is installed."""
    if is_complete():
        return None
    return error_check(
        "TensorFlow",
        "not installed, as xagents-ray-actor leaves it out",
        "Nodes that only act need none; to train from here, pip install xagents-ray.",
    )


def check_bytecode() -> Check | None:
    """Return a warning if TensorFlow has no bytecode; None if it has."""
    found = importlib.util.find_spec("tensorflow")
    if found is None or found.origin is None:
        return None
    if Path(importlib.util.cache_from_source(found.origin)).exists():
        return None
    return warning_check(
        "TensorFlow",
        "no bytecode: each process takes 10 s longer to import it",
        "Install with uv pip install --compile-bytecode, or run python -m compileall "
        f"-q {shlex.quote(str(Path(found.origin).parent))}.",
    )


def list_gpus() -> Sequence[str]:
    """Return the names of this machine's NVIDIA GPUs from the driver."""
    command = ["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_SMI_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return [path.name for path in sorted(Path("/dev").glob("nvidia[0-9]*"))]
    return done.stdout.strip().splitlines()


def has_cuda() -> bool:
    """Return whether TensorFlow was built with CUDA, without importing it."""
    found = importlib.util.find_spec("tensorflow")
    if found is None or found.origin is None:
        return False
    path = Path(found.origin).parent / "python" / "platform" / "build_info.py"
    try:
        text = path.read_text("utf-8")
    except OSError:
        return True  # unknown: ask TensorFlow itself
    return re.search(r"""['"]is_cuda_build['"], True\b""", text) is not None


def check_gpu(
    shown: Sequence[str],
    usable: Sequence[str] | str,
    placement: PlacementConfig = _NOWHERE,
) -> Check:
    """Compare the driver's GPUs with TensorFlow's, and those with the learners.

    Args:
        shown: names of the driver's GPUs.
        usable: names of TensorFlow's, or the reason for having none.
        placement: settings of the run, if there is one.
    """
    learners = placement.n_learners
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
    note = "" if hidden is None else f"; CUDA_VISIBLE_DEVICES={hidden}"
    if not shown:
        cores = max(1, available_cores() // learners)
        using = "the learner uses" if learners == 1 else f"{learners} learners use"
        each = "" if learners == 1 else " each"
        number = pluralize(cores, "core")
        return Check("GPU", f"none: {using} {number}{each}{note}")
    found = f"{', '.join(shown)}{note}"
    if isinstance(usable, str):
        return warning_check("GPU", f"{found}; {usable}", _GPU_REMEDY)
    if not usable:
        remedy = _GPU_REMEDY if hidden is None else f"Unset {note[2:]}: it hides GPUs."
        return warning_check("GPU", f"{found}; TensorFlow sees none", remedy)
    if 1 < learners > len(usable) and placement.learner_gpus != 0:
        return error_check(
            "GPU",
            f"{found}; TensorFlow sees {len(usable)}, for {learners} learners",
            "Lower --n-learners, or add --learner-gpus 0 to learn on cores.",
        )
    return Check("GPU", f"{found}; TensorFlow sees {len(usable)}")


_GPU_REMEDY = (
    "Install TensorFlow with its CUDA libraries, pip install 'xagents-ray[gpu]', or "
    "the learner runs on the cores."
)


def check_joining(
    named: str, connecting: Child, until: float
) -> tuple[Check, "ClusterFacts | None"]:
    """Return whether the cluster can be joined, and its facts if so.

    Args:
        named: flag or variable with the cluster's address: `--address host:port`.
        connecting: child process that runs `cluster.run.preflight.inspect_cluster`.
        until: time to give up, in seconds of time.monotonic().
    """
    try:
        outcome: Outcome = connecting.receive(until)
    except TimeoutError:
        waited = f"{CONNECT_SECONDS:.0f} s"
        remedy = f"Check {named}: nothing answered in {waited}."
        return error_check("cluster", "no answer", remedy), None
    if outcome.failure:
        return failed_call("cluster", "can't be joined", named, outcome), None
    found = outcome.value
    text = (
        f"{pluralize(found.nodes, 'node')}, {found.free_cpus} of {found.cpus} CPUs and "
        f"{found.free_gpus} of {found.gpus} GPUs free; Ray {found.ray}, Python "
        f"{found.python}"
    )
    return Check("cluster", text), found


def check_token(cluster: "ClusterFacts | None") -> Check | None:
    """Return whether the cluster requires a token; None if unknown."""
    if cluster is None:
        return None
    if cluster.requires_token and cluster.exposed_token:
        return warning_check("token", "others can read it", cluster.exposed_token)
    if cluster.requires_token:
        return Check("token", "the cluster requires one")
    return warning_check(
        "token",
        "the cluster requires none",
        "Start the cluster with RAY_AUTH_MODE=token: whoever reaches its ports runs "
        "code on its nodes.",
    )


def check_ray_folder(cluster: "ClusterFacts | None") -> Check | None:
    """Return a warning if other users can write to Ray's folder; None otherwise."""
    if cluster is None or not cluster.exposed_folder:
        return None
    return warning_check(
        "Ray's folder", "others can write to it", cluster.exposed_folder
    )


def object_store(run: RunSpec, cluster: "ClusterFacts | None") -> Check:
    """Compare the size of the object store with the data in flight."""
    measure = resolve_name("xagents_ray.cluster.run.preflight:object_store_bytes")
    try:
        needed, room = measure(run, cluster)
    except UserError as refused:
        return error_check("object store", "no room", str(refused))
    if room >= needed:
        return Check("object store", f"{format_bytes(needed)} for data in flight")
    found = f"{format_bytes(room)} of {format_bytes(needed)} needed for data in flight"
    remedy = (
        "Enlarge /dev/shm (docker run --shm-size) or the cluster's object stores, "
        "or lower --n-envs: Ray writes to disk what does not fit."
    )
    return warning_check("object store", found, remedy)
