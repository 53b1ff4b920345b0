"""Rewards of goal environments for relabeled goals."""

import dis
from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np

from xagents_ray.actors.envs import interface, wrapping
from xagents_ray.actors.envs.make import make_single
from xagents_ray.core.errors import UserError
from xagents_ray.core.objects import install_definitions
from xagents_ray.core.spec import EnvSpec, Goals
from xagents_ray.core.trajectory import Array, BoolArray, FloatArray
from xagents_ray.settings.config import Config
from xagents_ray.settings.training import EnvConfig

_TRIED_STEPS = 20


class GoalRewards:
    """Computes rewards and terminations for goals with an environment's functions.

    `compute_reward` and, if defined, `compute_terminated` are called with arrays [N, G]
    if they accept these, else once per row. Their `info` is empty.

    Args:
        config: settings of the environment; one instance is created.
    Raises:
        UserError: the environment can't be created, or has no `compute_reward`.
    """

    def __init__(self, config: EnvConfig) -> None:
        self._env = env = make_single(config, None)
        if not env.has_wrapper_attr("compute_reward"):
            place = interface.method_line(env, "step")
            remedy = "add compute_reward(achieved_goal, desired_goal, info) to it"
            what = "--her needs its rewards for other goals"
            raise interface.env_fault(str(config.env), what, place, remedy)
        space: Any = wrapping.space_before_flattening(env)
        goals = [np.float32(space["desired_goal"].sample()) for _ in range(2)]
        two, same = np.stack(goals), np.stack(goals[:1] * 2)
        self._reward = _by_rows(env.get_wrapper_attr("compute_reward"), two, same)
        self._terminated = None
        if env.has_wrapper_attr("compute_terminated"):
            ends = env.get_wrapper_attr("compute_terminated")
            self._terminated = _by_rows(ends, two, same)

    def __call__(
        self, achieved: FloatArray, desired: FloatArray
    ) -> tuple[FloatArray, BoolArray | None]:
        """Return rewards, float32 [N], and terminations, bool [N], for goals [N, G].

        The terminations are None without `compute_terminated`.
        """
        rewards = self._reward(achieved, desired).astype(np.float32)
        if self._terminated is None:
            return rewards, None
        return rewards, self._terminated(achieved, desired).astype(np.bool_)

    def differing(self, goals: Goals) -> tuple[float, float] | None:
        """Return the environment's and the computed reward of a step where they differ.

        It is the first of some random steps; return None if they agree in all of these.
        """
        env, (achieved, desired) = self._env, goals.slices
        env.action_space.seed(0)
        before, _ = env.reset(seed=0)
        for _ in range(_TRIED_STEPS):
            after, reward, *ends, _ = env.step(env.action_space.sample())
            pair = after[None, achieved], before[None, desired]
            computed = self(*map(np.float32, pair))[0].item()
            if not np.isclose(float(reward), computed, rtol=1e-3, atol=1e-4):
                return float(reward), computed
            before = env.reset()[0] if any(ends) else after
        return None

    def close(self) -> None:
        self._env.close()


def goal_rewards(config: Config) -> GoalRewards | None:
    """Return the `GoalRewards` of a run; None if its replay doesn't relabel goals."""
    return GoalRewards(config.env) if config.algorithm.relabels_goals else None


def check_goal_rewards(
    config: Config, spec: EnvSpec, definitions: tuple[bytes, ...] = ()
) -> tuple[str, ...]:
    """Return notes for the user; raise UserError if --her can't compute rewards.

    `definitions` are those of `registry.export_definitions`.
    """
    if not config.algorithm.relabels_goals:
        return ()
    install_definitions(definitions)
    env_id = str(config.env.env)
    if spec.goals is None:
        raise UserError(
            f"--her is for goal environments, whose observations are a Dict of "
            "observation, achieved_goal and desired_goal (vectors of one size), and "
            f"{env_id} is not one: leave it out."
        )
    with interface.errors_name_line(env_id), closing(GoalRewards(config.env)) as found:
        differing = found.differing(spec.goals)
    if differing is None:
        return ()
    stepped, computed = differing
    return (
        f"A step of {env_id} gave {stepped:g} and its compute_reward {computed:g} for "
        "the same goals: --her learns from both. Let a wrapper that changes rewards "
        "change compute_reward too",
    )


def _by_rows(
    function: Callable[..., Any], achieved: FloatArray, desired: FloatArray
) -> Callable[[FloatArray, FloatArray], Array]:
    """Return a vectorized form of a function that may accept only single rows.

    The function is tried on the two given rows, unless it is constant.
    """

    def at_once(achieved: FloatArray, desired: FloatArray) -> Array:
        return np.asarray(function(achieved, desired, {}))

    def by_rows(achieved: FloatArray, desired: FloatArray) -> Array:
        rows = zip(achieved, desired, strict=True)
        return np.array([function(*row, {}) for row in rows])

    def repeated(achieved: FloatArray, desired: FloatArray) -> Array:
        return np.repeat(function(achieved, desired, {}), len(achieved))

    if _is_constant(function):
        return repeated
    expected = by_rows(achieved, desired)
    try:
        found = at_once(achieved, desired)
    except Exception:  # raised by user code that expects one row
        return by_rows
    fits = found.shape == expected.shape and np.allclose(found, expected)
    return at_once if fits else by_rows


_READING_NOTHING = {"RESUME", "LOAD_CONST", "LOAD_SMALL_INT", "RETURN_VALUE"}
_READING_NOTHING |= {"RETURN_CONST", "NOP"}


def _is_constant(function: Callable[..., Any]) -> bool:
    """Return whether a function returns a constant and reads no argument.

    For example, `compute_terminated` of Gymnasium-Robotics is `return False`.
    """
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    if code is None:
        return False
    return {each.opname for each in dis.get_instructions(code)} <= _READING_NOTHING
