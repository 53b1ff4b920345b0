"""A short trial run of an env actor, for `xagents-ray doctor`."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from xagents_ray.actors.actor_setup import ActorSetup
from xagents_ray.actors.env_actor import EnvActor
from xagents_ray.actors.envs.interface import errors_name_line
from xagents_ray.actors.envs.vector import Envs
from xagents_ray.actors.policies.base import random_actions
from xagents_ray.actors.rollout import EpisodeCounter
from xagents_ray.core.errors import Diverged
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import (
    Array,
    BoolArray,
    Observations,
    Weights,
    arrays_of,
)

_MOST_STEPS = 5_000


@dataclass(frozen=True)
class StepBegan:
    """The start of a step that may hang; `activity` is an infinitive like `reset`."""

    activity: str


@dataclass(frozen=True)
class EnvsMade:
    """The time it took to create all environments of the env actor, in seconds."""

    seconds: float


@dataclass(frozen=True)
class SteppedAtRandom:
    """Results of stepping with random actions.

    Attributes:
        microseconds: median time of one env step, measured over vector steps.
        count: number of vector steps.
        low: smallest raw reward.
        high: largest raw reward.
        returns: returns of the completed episodes.
    """

    microseconds: float
    count: int
    low: float
    high: float
    returns: tuple[float, ...]


@dataclass(frozen=True)
class ActedWithPolicy:
    """Cost of rollouts with an untrained policy.

    Attributes:
        microseconds: median time of one env step, including acting and storing.
        row_bytes: bytes of one env step in a trajectory, each frame stored once.
    """

    microseconds: float
    row_bytes: float


TrialEvent: TypeAlias = StepBegan | EnvsMade | SteppedAtRandom | ActedWithPolicy


def try_env_actor(setup: ActorSetup, seconds: float) -> Iterator[TrialEvent]:
    """Create an env actor's environments, step them at random, then with a policy.

    The last two take about `seconds` each. Yield each step's start, then its result.

    Raises:
        Diverged: a reward or an observation is not finite.
        EnvironmentFault: the environment raised.
    """
    with errors_name_line(str(setup.config.env.env)):
        yield StepBegan("be made")
        began = time.perf_counter()
        envs = setup.make_envs()
        yield EnvsMade(time.perf_counter() - began)
        yield StepBegan("reset")
        envs.try_reset()
        setup = replace(setup, has_action_masks=envs.spec.has_action_masks)
        first = envs.reset(setup.seed)
        yield StepBegan("step")
        yield _step_at_random(envs, first, setup.seed, seconds)
        yield StepBegan("act")
        envs.close()
        yield _act(setup, seconds)


def _step_at_random(
    envs: Envs, first: Observations, seed: int, seconds: float
) -> SteppedAtRandom:
    generator = np.random.default_rng(seed)
    n_envs, low, high = len(arrays_of(first)[0]), np.inf, -np.inf
    counter = EpisodeCounter(n_envs)
    times: list[float] = []
    returns: list[float] = []
    until = time.perf_counter() + seconds
    _check("an observation", first)
    while len(times) < _MOST_STEPS and (not times or time.perf_counter() < until):
        actions = _random_actions(envs.spec, n_envs, generator, envs.action_masks)
        began = time.perf_counter()
        step = envs.step(actions)
        times.append(time.perf_counter() - began)
        _check("a reward", step.raw_rewards)
        _check("an observation", step.observations)
        if (rewards := step.raw_rewards[~counter.ended]).size:  # 0 if all reset
            low = min(low, float(rewards.min()))
            high = max(high, float(rewards.max()))
        returns += [episode.episode_return for episode in counter.add(0, step)]
    median = float(np.median(times)) / n_envs * 1e6
    return SteppedAtRandom(median, len(times), low, high, tuple(returns))


def _random_actions(
    spec: EnvSpec,
    n_envs: int,
    generator: np.random.Generator,
    masks: BoolArray | None,
) -> Array:
    """Return int32 [B, ...] actions, or float32 [B, A], normal where unbounded.

    Of discrete actions, only those that masks, bool [B, action_units], allow are drawn.
    """
    if masks is not None:
        ends = np.cumsum(spec.action_sizes)[:-1].astype(int)
        parts = np.split(masks, ends, axis=-1)
        drawn = [
            random_actions(generator.random(n_envs), part.shape[1], part)
            for part in parts
        ]
        return np.stack(drawn, axis=-1).reshape(n_envs, *spec.action_shape)
    if spec.is_discrete:
        sizes, size = spec.n_actions or spec.action_sizes, (n_envs, *spec.action_shape)
        return generator.integers(sizes, size=size, dtype=np.int32)
    low, high = np.asarray(spec.action_low), np.asarray(spec.action_high)
    shape = n_envs, len(low)
    bounded = np.array(spec.is_bounded)
    spread = generator.uniform(
        np.where(bounded, low, 0), np.where(bounded, high, 1), shape
    )
    free = np.clip(generator.standard_normal(shape), low, high)
    return np.where(bounded, spread, free).astype(np.float32)


def _check(what: str, rows: Observations) -> None:
    for numbers in arrays_of(rows):
        finite = np.isfinite(numbers)
        if not finite.all():
            raise Diverged(
                f"The environment gave {what} of {numbers[~finite][0]}: fix it, or "
                "look at what it returns for random actions."
            )


def _act(setup: ActorSetup, seconds: float) -> ActedWithPolicy:
    """Time rollouts with zero weights, whose actions are near uniform or mid-range."""
    actor = EnvActor(setup)
    row, config = setup.algorithm, setup.config.algorithm
    sizes = setup.layout.shapes | row.extras(row.models[0], config, actor.spec)
    weights = Weights(1, {k: np.zeros(v, np.float32) for k, v in sizes.items()})
    length, size = 1, 0.0
    times: list[float] = []
    until = time.perf_counter() + seconds
    while len(times) < 2 or time.perf_counter() < until:
        trajectory, report = actor.rollout(weights, length, 0)
        env_steps = length * setup.n_envs
        times.append(report.seconds / env_steps)
        arrays = [array for part in trajectory for array in arrays_of(part)]
        size = sum(x.nbytes for x in arrays if isinstance(x, np.ndarray)) / env_steps
        # A long rollout in slow environments would exceed the time limit.
        fit = seconds / 4 / max(report.seconds, 1e-9) * length
        length = max(length, min(config.batch_steps, int(fit)))
    actor.close()
    return ActedWithPolicy(float(np.median(times[1:])) * 1e6, size)
