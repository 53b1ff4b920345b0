"""Trajectories, samples and weights; each frame is stored once.

To add a kind of data, add a field here and its type to `field_types`; all code
accesses and joins records by field names.

Row `t` of a trajectory holds the action taken on observation `t` and its results;
observation `t + 1` is in the next row. After an episode ends, the environment resets
on the following step (Gymnasium's NEXT_STEP), so the final observation has a regular
row; the step that only resets has `valid = False`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from xagents_ray.core.inference import ServerAddress
from xagents_ray.core.moments import Statistics
from xagents_ray.core.printed import NOTHING, Printed
from xagents_ray.core.spec import VECTOR, EnvSpec

__autograph__ = False

Array = npt.NDArray[Any]
BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.int64]


Observations: TypeAlias = Any
"""Observations: one array, or a dict of arrays if the spec `has_several_arrays`."""


class Trajectory(NamedTuple):
    """T steps of B environments, time-major, all under the same weights.

    In the learner's graph, the arrays are tensors, and fields that its algorithm does
    not read are None. Fields without a default are in every trajectory.
    """

    # [T + stack, B, *observation_shape]; the first stack - 1 rows are earlier frames,
    # the last row is the observation after step T - 1. A dict of such arrays by name
    # if the observation has several, `EnvSpec.arrays`; vectors then have as many rows.
    observations: Observations
    starts: BoolArray  # bool [T + stack, B], True at an episode's first observation
    # int32 [T, B] or [T, B, P], or float32 [T, B, A], as sampled by the policy.
    actions: Array
    rewards: FloatArray  # float32 [T, B], for learning (clipped on Atari)
    terminated: BoolArray  # bool [T, B], the next observation's value is 0
    truncated: BoolArray  # bool [T, B], the next observation's value counts
    valid: BoolArray  # bool [T, B], False for a step that only reset its environment
    # float32 [T, B], of the actions under the behavior policy, or None.
    log_probs: FloatArray | None = None
    values: FloatArray | None = None  # float32 [T + 1, B], by the behavior network
    weights_version: int = -1  # version of the behavior weights; -1 if unknown
    first_env: int = 0  # index of the first environment within the run
    # float32 [T, B, n], of all actions under the behavior policy, or None.
    probabilities: FloatArray | None = None
    info: Array | None = None  # float64 [T, B, info_size], for rewards of other goals
    # float32 [1, B, noise_units], noise on the network's weights in all steps, or None.
    network_noise: FloatArray | None = None
    # float32 [1, B, state_units], state of the recurrent layers before row 0, or None.
    recurrent_state: FloatArray | None = None
    # bool [T + 1, B, action_units], the actions that each observation allows, or None.
    action_masks: BoolArray | None = None
    # float32 [1, B], sampling priorities of replayed sequences, or None.
    priorities: FloatArray | None = None
    # int64 [1, B, 2], environment and number of replayed sequences, for PriorityUpdate.
    rows: IntArray | None = None

    @property
    def stack(self) -> int:
        """Number of frames per stack."""
        return len(self.starts) - len(self.rewards)


FRAME_FIELDS = ("observations", "starts")
"""Fields with a row for each frame instead of one for each step."""
NETWORK_NOISE, RECURRENT_STATE = "network_noise", "recurrent_state"
ONE_ROW_FIELDS = (NETWORK_NOISE, RECURRENT_STATE, "priorities", "rows")
"""Fields with one row for all steps."""
ACTION_MASKS = "action_masks"
LONGER_FIELDS = ("values", ACTION_MASKS)
"""Fields of a trajectory that also have a row for the observation after its steps."""


class Replayed(Trajectory):
    """K batches of trajectories from the replay: arrays are [K, T, B, ...].

    Those that have `rows` are sequences, drawn one by one from all environments.
    """


class Transitions(NamedTuple):
    """K batches of N transitions from the replay, frames unstacked."""

    # [K, N, F, *observation_shape]; the first `stack` frames are the observation, the
    # last `stack` the next observation. F is stack + 1, or 2 * stack for n > 1 steps.
    # A dict of such arrays if the observation has several.
    observations: Observations
    starts: BoolArray  # bool [K, N, F], True at an episode's first observation
    actions: Array  # int32 [K, N], or float32 [K, N, A]
    # float32 [K, N], discounted sum of the n steps' rewards for learning.
    rewards: FloatArray
    # float32 [K, N], discount of the next observation's value; 0 if terminated.
    discounts: FloatArray
    # float32 [K, N], sampling priorities; None if sampled uniformly.
    priorities: FloatArray | None = None
    # int64 [K, N, 2], environment and number of the first step, for PriorityUpdate.
    rows: IntArray | None = None
    # float32 [K, N], discounted sum of the log-densities of all actions but the first
    # under the behavior policy, or None.
    log_probs: FloatArray | None = None
    # bool [K, N, action_units], the actions that the next observation allows, or None.
    action_masks: BoolArray | None = None


def field_types(
    spec: EnvSpec, noise_units: int = 0, state_units: int = 0
) -> dict[str, Any]:
    """Return the dtype and shape of each field for one step, by name.

    Those of several observation arrays are a dict by the arrays' names.

    Args:
        spec: spec of the environments.
        noise_units: size of the noise on the acting network's weights; 0 for none.
        state_units: size of the state of its recurrent layers; 0 for none.
    """
    flags = "starts", "terminated", "truncated", "valid"
    numbers = "rewards", "log_probs", "values", "discounts", "priorities"
    one_array = spec.observation_dtype, spec.observation_shape
    return {
        "observations": spec.arrays if spec.has_several_arrays else one_array,
        "actions": ("int32" if spec.is_discrete else "float32", spec.action_shape),
        "probabilities": ("float32", (spec.n_actions,)),
        "info": ("float64", (spec.info_size,)),
        NETWORK_NOISE: ("float32", (noise_units,)),
        RECURRENT_STATE: ("float32", (state_units,)),
        ACTION_MASKS: ("bool", (spec.action_units,)),
        "weights_version": ("int64", ()),
        **dict.fromkeys(flags, ("bool", ())),
        **dict.fromkeys(numbers, ("float32", ())),
    }


_RecordT = TypeVar("_RecordT", Trajectory, Replayed, Transitions)


def required_fields(record: type[Trajectory] | type[Transitions]) -> tuple[str, ...]:
    """Return the names of the fields that every record of a kind has."""
    defaults = record._field_defaults
    return tuple(name for name in record._fields if name not in defaults)


def map_arrays(function: Callable[..., Any], *records: _RecordT) -> _RecordT:
    """Return a record with a function applied to the arrays or tensors of each field.

    The function gets one array per record; scalars are those of the first record.
    """
    first = records[0]
    arrays: dict[str, Any] = {
        name: map_array(function, *(getattr(record, name) for record in records))
        for name in first._fields
        if _has_rows(getattr(first, name))
    }
    return first._replace(**arrays)


def _has_rows(value: Any) -> bool:
    return isinstance(value, dict) or bool(getattr(value, "ndim", 0))


def map_array(function: Callable[..., Any], *values: Any) -> Any:
    """Return a function's result for arrays, or a dict of results for dicts of them."""
    if not isinstance(values[0], dict):
        return function(*values)
    return {name: function(*(each[name] for each in values)) for name in values[0]}


def arrays_of(observations: Observations) -> list[Array]:
    """Return the arrays of observations: the only one, or those of a dict."""
    is_dict = isinstance(observations, dict)
    return [*observations.values()] if is_dict else [observations]


def paired_arrays(*values: Observations) -> list[tuple[Array, ...]]:
    """Return the arrays of the same name in each of several observations."""
    if not isinstance(values[0], dict):
        return [values]
    return [tuple(each[name] for each in values) for name in values[0]]


def vectors_of(observations: Observations) -> Array:
    """Return the only array of observations, or that of the vectors in a dict."""
    vectors: Array = observations
    if isinstance(observations, dict):
        vectors = observations[VECTOR]
    return vectors


class PriorityUpdate(NamedTuple):
    """New errors of M transitions or sequences, which a learner reports to a replay."""

    rows: IntArray  # int64 [M, 2], as in Transitions or Replayed
    errors: FloatArray  # float32 [M], differences between predictions and targets


class Fill(NamedTuple):
    """The fill level of a replay."""

    size: int  # number of stored transitions or trajectories
    # Whether new data overwrites old data everywhere. With transitions of episodes
    # shorter than 30 steps, that happens below the capacity.
    is_full: bool
    # Sum of the sampling priorities; None if sampling is uniform.
    priority: float | None = None

    @property
    def sampled(self) -> float:
        """Weight of this shard when shards are sampled."""
        return self.size if self.priority is None else self.priority


class Weights(NamedTuple):
    """A network's arrays by name (`dense-0/kernel`), and their version.

    They are float32, except the float64 statistics of observations and wrappers.
    """

    version: int
    arrays: dict[str, Array]
    server: ServerAddress | None = None  # an inference server that has them


VERSION = "count/version"
"""Key of the newest weights' version in a learner's state."""


class PhaseOutputs(NamedTuple):
    """The results of one learning phase."""

    metrics: dict[str, float]  # means by name, and the number of `updates`
    weights: Weights  # policy weights after the phase
    # None unless the replay is prioritized.
    priorities: PriorityUpdate | None


class WeightsFile(NamedTuple):
    """The contents of a weights file, which another process may decode."""

    path: str  # as specified by the user, such as `best.tf`
    # Contents by suffix of the path; `""` for a single file.
    files: dict[str, bytes]


class Episode(NamedTuple):
    """An episode that ended in a rollout."""

    env: int  # index of its environment within the run
    row: int  # step of the rollout in which it ended
    episode_return: float  # sum of raw rewards
    length: int  # env steps
    # `is_success` or `success` of the final info; None without them.
    success: bool | None = None


def success_rate(episodes: Sequence[Episode]) -> float | None:
    """Return the share of episodes that reached their goals; None if unknown."""
    known = [each.success for each in episodes if each.success is not None]
    return sum(known) / len(known) if known else None


@dataclass(frozen=True)
class RolloutReport:
    """Summary of a rollout for the driver."""

    steps: IntArray  # int64 [T], env steps of all of the actor's environments by row
    episodes: tuple[Episode, ...]  # ended episodes, by row
    seconds: float  # duration of the rollout
    # Moments of normalized quantities.
    statistics: Statistics = field(default_factory=dict)
    weights_version: int = 0  # version of the behavior weights
    stepping: float = 0.0  # seconds spent in environment steps
    acting: float = 0.0  # seconds spent in the policy
    # Number of steps that only reset an environment; not counted as env steps.
    resets: int = 0
    computing: float = 0.0  # seconds of CPU time; the rest was spent waiting
    printed: Printed = NOTHING  # by the environments, if there is no terminal


def merge_trajectories(trajectories: Sequence[Trajectory]) -> Trajectory:
    """Concatenate the trajectories of a round by environment: [T, B1 + B2 + ...]."""
    if len(trajectories) == 1:
        return trajectories[0]
    merged = map_arrays(lambda *x: np.concatenate(x, axis=1), *trajectories)
    oldest = min(t.weights_version for t in trajectories)
    return merged._replace(weights_version=oldest)


def slice_envs(trajectory: Trajectory, first: int, end: int) -> Trajectory | None:
    """Return the part of a trajectory from environments first to end - 1, or None."""
    own, count = trajectory.first_env, trajectory.rewards.shape[1]
    low, high = max(first, own) - own, min(end, own + count) - own
    if low >= high:
        return None
    if (low, high) == (0, count):
        return trajectory
    columns = map_arrays(lambda x: x[:, low:high], trajectory)
    return columns._replace(first_env=own + low)
