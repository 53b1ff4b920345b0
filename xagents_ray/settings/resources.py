"""Settings for the resources of a run's processes."""

import sys
from dataclasses import dataclass

from xagents_ray.core.errors import UserError, shown
from xagents_ray.settings import from_python
from xagents_ray.settings.options import Checked, count, option


@dataclass(frozen=True, kw_only=True)
class ConnectionConfig(Checked):
    """Connection of a run or a sweep to Ray."""

    address: str | None = option(
        None,
        "Ray cluster to train on: host:port, or auto for this machine's; default: the "
        "environment variable RAY_ADDRESS; local starts an own Ray in spite of it",
        needs_ray=True,
        not_launched="names a cluster, as the files that are written do",
        common=True,
    )
    dashboard: bool = option(
        False,
        "If specified, Ray's dashboard is served on 127.0.0.1, and a link that "
        "opens it is printed",
        needs_ray=True,
    )
    worker_env: tuple[str, ...] | None = option(
        None,
        "Environment variables of workers and trials on Ray: NAME=VALUE, or NAME for "
        "the value here, which config.yaml doesn't hold; a dict from Python",
        known_as=("env_vars", "runtime_env"),
        takes="Mapping[str, str | None]",
        expected="NAME=VALUE, NAME, or from Python a dict",
        to_plain=from_python.variables,
        in_presets=False,
        needs_ray=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for each in self.worker_env or ():
            if not each.partition("=")[0].isidentifier():
                raise UserError(
                    f"--worker-env takes NAME=VALUE or NAME, got {shown(each)}: write "
                    "LICENSE=/opt/license, or LICENSE for the value here."
                )


AUTO_ACTORS = "auto"
"""Value of --n-actors with which the env actors follow the nodes of the cluster."""


@dataclass(frozen=True, kw_only=True)
class PlacementConfig(ConnectionConfig):
    """Placement and resources of a run's processes, and their failure limits."""

    local: bool = option(
        False,
        "If specified, everything runs in this process, without Ray",
        own_loop=True,
        not_launched="runs without Ray",
        common=True,
    )
    n_actors: int | str | None = count(
        None,
        "Number of env actors, which share the environments; default: the fewest with "
        "the shortest rounds on the free cores; with --policy-lag a learner that uses "
        "several cores has one of them. auto: one per core, as nodes join and leave",
        word=AUTO_ACTORS,
        takes=f'Literal["{AUTO_ACTORS}"]',
        expected="a whole number or auto",
        known_as=("num_actors", "num_workers", "n_workers", "num_env_runners"),
        needs_ray=True,
        common=True,
    )
    n_learners: int = count(
        1,
        "Number of learners on one machine, each of which computes a share of the rows "
        "of every update, on a GPU of its own if there are as many; they learn what "
        "one would",
        known_as=("num_learners",),
    )
    learner_gpus: float | None = option(
        None,
        "GPUs of each learner; default: 1 if there are any. Other processes use none",
        low=0,
        known_as=("num_gpus", "n_gpus", "gpus"),
        own_loop=True,
    )
    allow_slow_precision: bool = option(
        False,
        "If specified, --precision bfloat16 is allowed where it is slower than float32",
        own_loop=True,
    )
    learner_threads: int | None = count(
        None,
        "Threads of the learner; default: one for small networks, on which more "
        "would wait for each other; one for each of several medium ones; all cores "
        "for large ones",
        known_as=("torch_threads", "intra_op_threads"),
        own_loop=True,
    )
    jit: str = option(
        "auto",
        "Compile learning phases with XLA; auto does on a GPU, and on CPUs where the "
        "networks are small",
        choices=("auto", "on", "off"),
        known_as=("xla", "jit_compile"),
        own_loop=True,
    )
    inference: str = option(
        "auto",
        "Who computes the network that acts: actor, each env actor in NumPy; onnx, "
        "each env actor, its convolutions by ONNX Runtime; learner, the learner's "
        "process for the env actors of its machine, on its GPU if it has one. auto is "
        "learner for images with a GPU, and on Ray for your own Keras models that "
        "NumPy can't compute; else onnx where that is installed and faster",
        choices=("auto", "actor", "onnx", "learner"),
    )
    actor_cpus: float | None = option(
        None,
        "Cores that each env actor claims; default: an even share of the free ones "
        "that the learner leaves",
        low=1e-4,
        needs_ray=True,
    )
    actor_timeout: float | None = option(
        None,
        "Replace an env actor whose rollout takes longer; default: the largest of "
        "60, 3 times the longest and 10 median rollouts so far, and at least 600 "
        "before its first one has ended",
        low=0,
        exclusive=True,
        unit="seconds",
        needs_ray=True,
    )
    learner_timeout: float = option(
        1_800.0,
        "How long to wait for Ray to place and start a new learner, when the node of "
        "the previous one is lost, before the run ends",
        low=0,
        exclusive=True,
        unit="seconds",
        needs_ray=True,
    )
    max_actor_restarts: int = option(
        3,
        "How many times in a row an env actor is replaced, without a finished rollout, "
        "before it is given up; errors at the same line count until an episode ends",
        low=0,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        gpus = self.learner_gpus
        if gpus and not (1e-4 <= gpus <= 1 or float(gpus).is_integer()):
            raise UserError(
                f"--learner-gpus {gpus:g} can't be reserved: give a part of one GPU, "
                "0.0001 or more, or a whole number."
            )
        if self.n_learners > 1 and not float(gpus or 0).is_integer():
            raise UserError(
                f"--learner-gpus {gpus:g} is a part of a GPU, and each of --n-learners "
                f"{self.n_learners} needs one of its own: give 1 or 0."
            )
        if self.inference == "learner" and sys.platform != "linux":
            raise UserError(
                "--inference learner shares memory as only Linux does: leave it out."
            )

    @property
    def follows_nodes(self) -> bool:
        """Whether env actors come and go with the nodes of the cluster."""
        return self.n_actors == AUTO_ACTORS

    @property
    def actor_count(self) -> int | None:
        """Number of env actors, if it is a setting of the run."""
        return self.n_actors if isinstance(self.n_actors, int) else None
