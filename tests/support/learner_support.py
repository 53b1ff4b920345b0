"""Learners of single algorithms, and what the drivers give them."""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec

import numpy as np

from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.batches import Batch
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import (
    Replayed,
    Trajectory,
    Transitions,
    Weights,
    map_arrays,
    merge_trajectories,
)
from xagents_ray.learners.learner import Learner
from xagents_ray.networks.layout import Layout


def make_learner(
    agent: str,
    config: Any,
    spec: EnvSpec,
    *layouts: Layout,
    seed: int = 0,
    max_steps: int | None = None,
    compiled: bool = False,
    n_envs: int | None = None,
) -> Learner:
    """Return the learner of an algorithm; by default with its own networks."""
    row = find_algorithm(agent).adapted(config)
    layouts = layouts or row.layouts(config, spec)
    return Learner(row, config, spec, layouts, seed, max_steps, compiled, n_envs)


P = ParamSpec("P")


def reused(make: Callable[P, Learner]) -> Callable[P, Learner]:
    """Let a function return its newest learner, as it was, for the same arguments.

    Tracing takes a second, which is most of a test of one phase.
    """
    newest: list[tuple[str, Learner, dict[str, Any]]] = []

    @wraps(make)
    def again(*arguments: P.args, **named: P.kwargs) -> Learner:
        key = repr((arguments, named))
        if not newest or newest[0][0] != key:
            learner = make(*arguments, **named)
            newest[:] = [(key, learner, learner.state.arrays())]
        _, learner, start = newest[0]
        learner.state.restore(start)
        return learner

    return again


def publish(learner: Learner) -> Weights:
    """Return the weights to act with, under the next version."""
    return learner.policy_weights(learner.version + 1)


def fresh(*trajectories: Trajectory, sampled: Replayed | None = None) -> Batch:
    """Return the batch of a round."""
    return Batch(merge_trajectories(trajectories), sampled)


def replayed(trajectories: Sequence[Trajectory]) -> Replayed:
    """Return trajectories as batches that a replay gave."""
    joined = map_arrays(lambda *x: np.stack(x), *trajectories)
    return Replayed(*joined)._replace(values=None, weights_version=-1, first_env=0)


def random_transitions(
    spec: EnvSpec, batches: int, discount: float = 0.9
) -> Transitions:
    """Return K batches of six transitions of vectors of size 3, with priorities."""
    shape, rng = (batches, 6), np.random.default_rng(batches)
    actions: Any = rng.uniform(-1, 1, (*shape, 1)).astype(np.float32)
    if spec.is_discrete:
        actions = rng.integers(0, 2, shape, np.int32)
    return Transitions(
        observations=rng.normal(size=(*shape, 2, 3)).astype(np.float32),
        starts=np.zeros((*shape, 2), bool),
        actions=actions,
        rewards=3 * rng.normal(size=shape).astype(np.float32),
        discounts=np.full(shape, discount, np.float32),
        priorities=rng.uniform(0.1, 5, shape).astype(np.float32),
        rows=np.arange(2 * 6 * batches).reshape(*shape, 2),
    )


def sampled(transitions: Transitions) -> Batch:
    """Return the batch of what a replay drew."""
    return Batch(sampled=transitions)


def resumed_states(
    learner: Learner, other: Learner, first: Batch, then: Batch
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Let another learner continue from a learner's state; return the later states."""
    learner.update(first, 0)
    kept = learner.state.arrays()
    other.state.restore(kept)
    for each in (learner, other):
        each.update(then, 0)
    ends = learner.state.arrays(), other.state.arrays()
    assert any(not np.array_equal(kept[name], ends[0][name]) for name in kept)
    return ends


def assert_close(
    one: Mapping[str, Any], other: Mapping[str, Any], **tolerance: float
) -> None:
    """Check that these arrays are near those of the same names."""
    for name, array in one.items():
        np.testing.assert_allclose(array, other[name], err_msg=name, **tolerance)
