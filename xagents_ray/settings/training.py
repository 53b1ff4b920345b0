"""Settings for environments, the length of training, and the pipeline."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xagents_ray.core.errors import UserError
from xagents_ray.settings import from_python
from xagents_ray.settings.options import Checked, count, option, options


@dataclass(frozen=True, kw_only=True)
class EnvConfig(Checked):
    """The environments."""

    env: str | None = option(
        None,
        "Gymnasium environment id, package.module:EnvId for one that importing "
        "the module registers, or package.module:factory for your own; from Python "
        "also a class, a function that makes one, or a Gymnasium EnvSpec",
        known_as=("env_id", "env_name", "environment", "env_maker", "make_env"),
        free_with="--run",
        takes="Callable[..., Any] | gymnasium.envs.registration.EnvSpec",
        expected="the id of an environment, package.module:factory, or from Python a "
        "class or a function that makes one",
        to_plain=from_python.environment,
        common=True,
    )
    env_kwargs: tuple[str, ...] | None = option(
        None,
        "Arguments of the environment, key=value …, or one JSON object; a dict from "
        "Python",
        known_as=("env_config", "env_args"),
        free_with="--run",
        takes="Mapping[str, Any]",
        expected="key=value, a JSON object, or from Python a dict",
        to_plain=from_python.arguments,
        common=True,
    )
    wrappers: tuple[str, ...] | None = option(
        None,
        "Wrappers of each environment, module:Class, the first one innermost; from "
        "Python also classes and functions of an environment",
        known_as=("wrapper", "wrapper_class", "env_wrappers"),
        takes="Sequence[Callable[..., Any]]",
        expected="module:Class of a wrapper, or from Python classes and functions of "
        "an environment",
        to_plain=from_python.wrappers,
    )
    state_to_input: str | None = option(
        None,
        "Function of an observation, module:function, that returns what the network "
        "reads; from Python also the function itself",
        takes="Callable[[Any], Any]",
        expected="module:function, or from Python a function of an observation",
        to_plain=from_python.state_to_input,
    )
    n_envs: int = count(
        1,
        "Number of environments to create",
        hp_type="categorical",
        known_as=("num_envs",),
        free_with="--run",
        common=True,
    )
    preprocess: bool = option(
        False,
        "If specified, observations are treated as Atari frames: every 4th "
        "frame, gray, 84x84; rewards are clipped for learning and reported raw",
        common=True,
    )
    max_frame: bool = option(
        False,
        "If specified, preprocessing takes the maximum of the last two frames",
        hp_type="categorical",
        needs=("preprocess",),
    )
    frame_stack: int = count(
        4,
        "Newest frames that one image observation shows",
        high=16,
        unit="frames",
        hp_type="categorical",
    )
    action_masks: bool = option(
        True,
        "Take only actions that the environment's masks allow, if it gives any: "
        'info["action_mask"], a method action_masks(), or the key action_mask of a '
        "Dict observation; --no-action-masks ignores them",
    )
    vectorization: str = option(
        "auto",
        "How environments are stepped together; auto picks the fastest right one",
        choices=("auto", "vector", "sync", "async", "envpool"),
        free_with="--run",
    )

    @property
    def objects(self) -> list[tuple[str, str]]:
        """Setting and name of each object that may have been passed from Python."""
        named = [("wrappers", name) for name in self.wrappers or ()]
        named += [("state_to_input", name) for name in (self.state_to_input,) if name]
        return [("env", str(self.env)), *named]

    @property
    def single_only(self) -> list[str]:
        """The flags in use that only work with environments made one by one."""
        given = {"--wrappers": self.wrappers, "--state-to-input": self.state_to_input}
        return [flag for flag, value in given.items() if value]

    @property
    def arguments(self) -> dict[str, Any]:
        """The values in `env_kwargs`, by name."""
        pairs = (each.partition("=") for each in self.env_kwargs or ())
        return {name: json.loads(value) for name, _, value in pairs}


_MONITORING = ("divergence_monitoring_steps",)


@dataclass(frozen=True, kw_only=True)
class TrainingConfig(Checked):
    """Stopping, learning-rate reduction on plateaus, and seeds."""

    target_reward: float | None = option(
        None,
        "Mean reward over a full reward buffer at which training is stopped",
        free_with="--resume",
        instead="a trial trains for --trial-steps, so that all can be compared",
        common=True,
    )
    max_steps: int | None = count(
        None,
        "Number of environment steps after which training is stopped",
        unit="env steps",
        known_as=("total_timesteps", "max_timesteps", "total_steps", "timesteps"),
        free_with="--resume",
        own_loop=True,
        instead="--trial-steps is how long a trial trains",
        common=True,
    )
    reward_buffer_size: int = count(
        100,
        "Size of the total reward buffer, used for calculating the mean reward",
        unit="episodes",
    )
    divergence_monitoring_steps: int | None = count(
        None,
        "Steps after which, plateau and early stopping are active",
        unit="env steps",
    )
    plateau_reduce_factor: float = option(
        0.9,
        "Factor multiplied by current learning rate when there is a plateau",
        low=0,
        high=1,
        exclusive=True,
        needs=_MONITORING,
    )
    plateau_reduce_patience: int = count(
        10,
        "Minimum non-improvements to reduce lr; the mean reward is checked once "
        "per --n-envs episodes",
        unit="checks",
        needs=_MONITORING,
    )
    early_stop_patience: int = count(
        3,
        "Minimum plateau reduces to stop training",
        unit="reduces",
        needs=_MONITORING,
    )
    seed: int | None = option(
        None,
        "Random seed; makes the run reproducible on this machine (on a GPU, by "
        "operations that are slower)",
        low=0,
        high=2**31 - 1,
        in_presets=False,
        own_loop=True,
        not_with_seeds="--seeds names the seeds: drop one of the two",
        common=True,
    )
    seeds: tuple[int, ...] | None = option(
        None,
        "Train once with each of these seeds and summarize the runs; with --local, as "
        "many at the same time as there are cores",
        low=0,
        high=2**31 - 1,
        in_presets=False,
        instead="--seed makes a sweep reproducible",
        common=True,
    )


_FREE_LAG = 100
"""Policy lag of algorithms that are asynchronous by default; rarely exceeded."""
_FREE_AHEAD = 2
"""Finished rollouts with which an asynchronous env actor waits for the learner."""


@dataclass(frozen=True, kw_only=True)
class PipelineConfig(Checked):
    """How far acting may run ahead of learning."""

    policy_lag: int = option(
        0,
        "Age of the weights that a rollout acts with, so that acting and learning "
        "overlap; with 0 they alternate",
        low=0,
        high=1_000,
        unit="weights versions",
    )
    asynchronous: bool = option(
        False,
        "If specified, each env actor runs at its own pace; on-policy, what "
        "is older than --policy-lag is dropped; a replay buffer takes rollouts of any "
        "age; not reproducible; on Ray the default of asynchronous agents, unless "
        "--policy-lag is given",
        needs_ray=True,
    )
    round_deadline: float | None = option(
        None,
        "Longest wait for the rollouts of a round; a late one counts for the next "
        "round if --policy-lag allows it; default: wait for all",
        low=0,
        exclusive=True,
        unit="seconds",
        needs_ray=True,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.asynchronous and self.policy_lag == 0:
            raise UserError(
                "--asynchronous lets env actors run ahead of the learner, which "
                "--policy-lag 0 forbids: set it to 1 or more."
            )
        if self.asynchronous and self.round_deadline is not None:
            raise UserError(
                "--round-deadline limits rounds, which --asynchronous doesn't have: "
                "drop one of the two."
            )

    @property
    def ahead(self) -> int:
        """Maximum number of finished rollouts by which an env actor runs ahead."""
        return (
            min(self.policy_lag, _FREE_AHEAD) if self.asynchronous else self.policy_lag
        )


def free_running(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings made asynchronous, unless they contain pipeline settings."""
    usual = {"asynchronous": True, "policy_lag": _FREE_LAG}
    said = given.keys() & {each.name for each in options(PipelineConfig)}
    return dict(given) if said else {**given, **usual}
