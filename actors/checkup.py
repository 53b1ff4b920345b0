"""A short trial of what an env actor does, for `xagents-ray doctor`."""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from xagents_ray.actors.env_actor import ActorSetup, EnvActor, count_games
from xagents_ray.actors.envs.definitions import register
from xagents_ray.actors.envs.make import make_envs
from xagents_ray.actors.envs.vector import Envs
from xagents_ray.algorithms.table import find
from xagents_ray.core.errors import Diverged
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Array, Weights
from xagents_ray.storage.weights import shapes

_MOST_STEPS = 5_000


@dataclass(frozen=True)
class Steps:
    """What steps with random actions showed.

    Attributes:
        microseconds: median of one env step, in a vector step of all environments.
        count: vector steps.
        low: smallest raw reward.
        high: largest raw reward.
        returns: of the games that ended.
    """

    microseconds: float
    count: int
    low: float
    high: float
    returns: tuple[float, ...]


@dataclass(frozen=True)
class Acting:
    """What rollouts with a policy that knows nothing showed.

    Attributes:
        microseconds: median of one env step, acting and storing included.
        row_bytes: of one env step in a trajectory, every frame once.
    """

    microseconds: float
    row_bytes: float


def examine(
    setup: ActorSetup, seconds: float
) -> Iterator[str | float | Steps | Acting]:
    """Make what an env actor has, step it at random, then act in it.

    Args:
        setup: of the env actor.
        seconds: for the steps, and again for the acting.
    Yields:
        What is being done, as in `reset`, before it may hang; and what it showed:
        the seconds of making the environments, Steps and Acting.
    Raises:
        Diverged: a reward or an observation is no finite number.
        Exception: of the environment.
    """
    register(setup.definitions)
    yield "be made"
    began = time.perf_counter()
    envs = make_envs(setup.config.env, setup.n_envs, setup.env_threads)
    yield time.perf_counter() - began
    yield "reset"
    first = envs.reset(setup.seed)
    yield "step"
    yield _random_steps(envs, first, setup.seed, seconds)
    yield "act"
    envs.close()
    yield _act(setup, seconds)


def _random_steps(envs: Envs, first: Array, seed: int, seconds: float) -> Steps:
    generator = np.random.default_rng(seed)
    n_envs, low, high = len(first), np.inf, -np.inf
    times: list[float] = []
    resets, totals = np.zeros(n_envs, np.bool_), np.zeros(n_envs)
    lengths, returns = np.zeros(n_envs, np.int64), []
    until = time.perf_counter() + seconds
    _check("an observation", first)
    while len(times) < _MOST_STEPS and (not times or time.perf_counter() < until):
        actions = _random_actions(envs.spec, n_envs, generator)
        began = time.perf_counter()
        step = envs.step(actions)
        times.append(time.perf_counter() - began)
        _check("a reward", step.raw_rewards)
        _check("an observation", step.observations)
        low = min(low, float(step.raw_rewards.min()))
        high = max(high, float(step.raw_rewards.max()))
        returns += [game[1] for game in count_games(step, resets, totals, lengths)]
        resets = step.ended
    median = float(np.median(times)) / n_envs * 1e6
    return Steps(median, len(times), low, high, tuple(returns))


def _random_actions(
    spec: EnvSpec, n_envs: int, generator: np.random.Generator
) -> Array:
    """Return int32 [B], or float32 [B, A] within bounds, normal without them."""
    if spec.is_discrete:
        return generator.integers(spec.n_actions, size=n_envs, dtype=np.int32)
    low, high = np.asarray(spec.action_low), np.asarray(spec.action_high)
    shape = n_envs, len(low)
    bounded = np.isfinite(low) & np.isfinite(high)
    spread = generator.uniform(
        np.where(bounded, low, 0), np.where(bounded, high, 1), shape
    )
    free = np.clip(generator.standard_normal(shape), low, high)
    return np.where(bounded, spread, free).astype(np.float32)


def _check(what: str, numbers: Array) -> None:
    finite = np.isfinite(numbers)
    if not finite.all():
        raise Diverged(
            f"The environment gave {what} of {numbers[~finite][0]}: mend it, or look "
            "at what it returns for random actions."
        )


def _act(setup: ActorSetup, seconds: float) -> Acting:
    """Roll out with weights of zero: all actions are as likely, or near the middle."""
    actor = EnvActor(setup)
    row, config = find(setup.agent), setup.config.algorithm
    sizes = shapes(setup.layout) | row.extras(row.models[0], config, actor.spec)
    weights = Weights(1, {k: np.zeros(v, np.float32) for k, v in sizes.items()})
    length, size = 1, 0.0
    times: list[float] = []
    until = time.perf_counter() + seconds
    while len(times) < 2 or time.perf_counter() < until:
        trajectory, report = actor.rollout(weights, length, 0)
        env_steps = length * setup.n_envs
        times.append(report.seconds / env_steps)
        arrays = (part for part in trajectory if isinstance(part, np.ndarray))
        size = sum(array.nbytes for array in arrays) / env_steps
        # A long rollout of slow environments would not end in time.
        fit = seconds / 4 / max(report.seconds, 1e-9) * length
        length = max(length, min(config.batch_steps, int(fit)))
    actor.close()
    return Acting(float(np.median(times[1:])) * 1e6, size)
