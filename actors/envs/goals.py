"""Rewards of goal environments for relabeled goals."""

from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from xagents_ray.actors.envs import indices, interface, named_inputs
from xagents_ray.actors.envs.action_masks import KEY, MaskReader, sample_action
from xagents_ray.actors.envs.goal_functions import Infos, texts_in, vectorized
from xagents_ray.actors.envs.make import make_single
from xagents_ray.actors.envs.specs import spec_of
from xagents_ray.actors.envs.step_info import (
    InfoCoder,
    ReadInfo,
    find_fields,
    of_one_env,
)
from xagents_ray.core.errors import UserError
from xagents_ray.core.objects import install_definitions
from xagents_ray.core.spec import VECTOR, EnvSpec, InfoField
from xagents_ray.core.trajectory import Array, BoolArray, FloatArray
from xagents_ray.settings.config import Config
from xagents_ray.settings.training import EnvConfig

_TRIED_STEPS = 20


class _GoalSteps(NamedTuple):
    """N steps of a goal environment."""

    achieved: FloatArray  # float32 [N, G], after each step
    desired: FloatArray  # float32 [N, G], before each step
    rewards: list[float]
    infos: list[dict[Any, Any]]


class GoalRewards:
    """Computes rewards and terminations for goals with an environment's functions.

    `compute_reward` and, if defined, `compute_terminated` are called with arrays [N, G]
    if they accept these, else once per row. They get the stored entries of `info`: one
    dict for a row, and N dicts for arrays, or one if nothing is read.

    Args:
        config: settings of the environment; one instance is created.
        info: entries of `info` that are stored; None to find those that the functions
            read.
        shard: index of the replay shard that asks for rewards.
    Attributes:
        info: entries of `info` that are stored.
    Raises:
        UserError: the environment can't be created, or has no `compute_reward`, or
            reads entries that can't be stored, or its masks are malformed.
    """

    def __init__(
        self,
        config: EnvConfig,
        info: tuple[InfoField, ...] | None = (),
        shard: int = 0,
    ) -> None:
        self._id, self._config = str(config.env), config
        index = indices.goal_rewards_index(config, shard)
        self._env = make_single(config, None, index)
        try:
            functions = self._find_functions()
            self.info = self._find_info(functions) if info is None else info
            place = interface.method_line(self._env, "step")
            self._coder = InfoCoder(self.info, self._id, place)
            achieved, desired, infos = self._sample_rows()
            self._reward, *ends = (
                vectorized(each, achieved, desired, infos, self.info)
                for each in functions
            )
        except BaseException:
            self.close()
            raise
        self._terminated = ends[0] if ends else None

    def __call__(
        self, achieved: FloatArray, desired: FloatArray, info: Array | None = None
    ) -> tuple[FloatArray, BoolArray | None]:
        """Return rewards, float32 [N], and terminations, bool [N], for goals [N, G].

        The terminations are None without `compute_terminated`.

        Args:
            achieved: float32 [N, G], achieved goals.
            desired: float32 [N, G], desired goals.
            info: float64 [N, info_size], stored infos of the steps; None if nothing
                reads them.
        """
        stored = np.zeros((1, 0)) if info is None else info
        infos = self._coder.decode(stored)
        if info is None:
            infos *= len(achieved)
        rewards = self._reward(achieved, desired, infos).astype(np.float32)
        if self._terminated is None:
            return rewards, None
        return rewards, self._terminated(achieved, desired, infos).astype(np.bool_)

    def differing(self) -> tuple[float, float] | None:
        """Return the environment's and the computed reward of a step where they differ.

        It is the first of some random steps; return None if they agree in all of these.
        """
        steps = self._sample_steps(_TRIED_STEPS)
        info = self._coder.encode(steps.infos) if self.info else None
        computed, _ = self(steps.achieved, steps.desired, info)
        for stepped, found in zip(steps.rewards, computed.tolist(), strict=True):
            if not np.isclose(stepped, found, rtol=1e-3, atol=1e-4):
                return stepped, found
        return None

    def close(self) -> None:
        self._env.close()

    def _find_functions(self) -> list[Callable[..., Any]]:
        """Return `compute_reward` and, if the environment has it, the other one."""
        env = self._env
        if not env.has_wrapper_attr("compute_reward"):
            place = interface.method_line(env, "step")
            remedy = "add compute_reward(achieved_goal, desired_goal, info) to it"
            what = "--her needs its rewards for other goals"
            raise interface.env_fault(self._id, what, place, remedy)
        names = "compute_reward", "compute_terminated"
        return [env.get_wrapper_attr(x) for x in names if env.has_wrapper_attr(x)]

    def _find_info(
        self, functions: Sequence[Callable[..., Any]]
    ) -> tuple[InfoField, ...]:
        """Return the entries of `info` that the functions read.

        They are those read for some random steps, and for the goals achieved there, and
        those that the functions' code names, if they can be stored.
        """
        steps, read, named = self._sample_steps(_TRIED_STEPS), set[Any](), set[Any]()
        for function in functions:
            own = set[Any]()
            infos = [ReadInfo(info, own.add) for info in steps.infos]
            call = vectorized(function, steps.achieved, steps.desired, infos, own)
            own.clear()  # calls in another form may have read more
            for desired in (steps.desired, steps.achieved):
                call(steps.achieved, desired, infos)
            read, named = read | own, named | texts_in(function)
        place = interface.method_line(self._env, "step")
        fields = find_fields(steps.infos, read, self._id, place)
        present = {key for info in steps.infos for key in info}
        for key in sorted(named & present - read):
            with suppress(UserError):
                fields += find_fields(steps.infos, {key}, self._id, place)
        return fields

    def _sample_steps(self, count: int) -> _GoalSteps:
        """Return random steps, the same ones in each call."""
        env, goal_steps = self._env, list[tuple[Any, ...]]()
        space = named_inputs.space_before_arrays(env)
        spec = spec_of(env.observation_space, env.action_space, self._config, "", space)
        assert spec.goals is not None

        def vectors_of(observation: Any) -> Array:
            if isinstance(observation, dict):
                arrays = named_inputs.join_vectors(observation, spec.inputs)
                observation = arrays[VECTOR]
            return np.asarray(observation, np.float32)

        achieved, desired = spec.goals.slices
        env.action_space.seed(0)
        observation, info = env.reset(seed=0)
        is_masked = self._config.action_masks and spec.is_discrete and KEY in info
        masks = MaskReader(spec, self._mask_fault) if is_masked else None
        before, none_ended = vectors_of(observation), np.zeros(1, np.bool_)
        for _ in range(count):
            allowed = masks and masks.read(of_one_env(info), none_ended)[0]
            action = sample_action(env.action_space, allowed)
            observation, reward, *ends, info = env.step(action)
            after = vectors_of(observation)
            pair = after[achieved], before[desired]
            goal_steps.append((*pair, float(reward), dict(info)))
            if any(ends):
                observation, info = env.reset()
            before = vectors_of(observation) if any(ends) else after
        reached, wanted, rewards, infos = zip(*goal_steps, strict=True)
        return _GoalSteps(np.stack(reached), np.stack(wanted), [*rewards], [*infos])

    def _mask_fault(self, mask: Any, remedy: str) -> UserError:
        """Return the error for a mask, with the line of `step`."""
        place = interface.method_line(self._env, "step")
        what = f"info[{KEY!r}] is {mask!r:.80}"
        return interface.env_fault(self._id, what, place, remedy)

    def _sample_rows(self) -> tuple[FloatArray, FloatArray, Infos]:
        """Return two achieved goals, one desired goal twice, and two infos."""
        space: Any = named_inputs.space_before_arrays(self._env)
        goals = [np.float32(space["desired_goal"].sample()) for _ in range(2)]
        infos: Infos = [{}, {}]
        if self.info:
            infos = self._coder.decode(self._coder.encode(self._sample_steps(2).infos))
        return np.stack(goals), np.stack(goals[:1] * 2), infos


def goal_rewards(config: Config, spec: EnvSpec, shard: int = 0) -> GoalRewards | None:
    """Return the `GoalRewards` of a replay shard; None if it relabels no goals."""
    if not config.algorithm.relabels_goals:
        return None
    return GoalRewards(config.env, spec.info, shard)


def check_goal_rewards(
    config: Config, spec: EnvSpec, definitions: tuple[bytes, ...] = ()
) -> tuple[EnvSpec, tuple[str, ...]]:
    """Return the spec with the entries of `info` to store, and notes for the user.

    `definitions` are those of `registry.export_definitions`.

    Raises:
        UserError: --her can't compute rewards.
    """
    if not config.algorithm.relabels_goals:
        return spec, ()
    install_definitions(definitions)
    env_id = str(config.env.env)
    if spec.goals is None:
        raise UserError(
            "--her is for goal environments, whose observations are a Dict of "
            "observation, achieved_goal and desired_goal (vectors of one size), and "
            f"{env_id} is not one: leave it out."
        )
    with (
        interface.errors_name_line(env_id),
        closing(GoalRewards(config.env, None)) as found,
    ):
        spec = replace(spec, info=found.info)
        differing = found.differing()
    if differing is None:
        return spec, ()
    stepped, computed = differing
    note = (
        f"A step of {env_id} gave {stepped:g} and its compute_reward {computed:g} for "
        "the same goals: --her learns from both. Let a wrapper that changes rewards "
        "change compute_reward too"
    )
    return spec, (note,)
