"""Masks of allowed actions: where they come from, what they allow, and faults."""

from typing import Any

import gymnasium as gym
import masked_envs
import numpy as np
import pytest
from acting import run_of, setup_of, weights_of
from masked_envs import KEYS, LENGTH, Locks

from xagents_ray.actors.env_actor import EnvActor
from xagents_ray.actors.envs.action_masks import (
    MaskReader,
    VectorMasks,
    report_masks,
    sample_action,
)
from xagents_ray.actors.envs.make import make_envs
from xagents_ray.actors.evaluator import Evaluator
from xagents_ray.actors.policies.base import random_actions
from xagents_ray.core.errors import EnvironmentFault, UserError
from xagents_ray.core.spec import EnvSpec
from xagents_ray.settings.training import EnvConfig

AGENTS = ["a2c", "acer", "dqn", "ppo"]


def env(source: str = "info", parts: int = 1, **settings: Any) -> dict[str, Any]:
    arguments = (f'source="{source}"', f"parts={parts}")
    return {"env": "masked_envs:Locks", "env_kwargs": arguments, **settings}


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("source", ["info", "method", "key"])
def test_no_other_action_is_taken(agent: str, source: str) -> None:
    """The environment raises otherwise; at first, DQN's actions are random."""
    setup = setup_of(agent, 2, **env(source))
    actor = EnvActor(setup)
    assert actor.spec.observation_shape == (KEYS,)
    for env_steps in (0, 10**6):
        trajectory, _ = actor.rollout(weights_of(setup), 3 * LENGTH, env_steps)
    masks = trajectory.action_masks
    assert masks is not None and masks.shape == (3 * LENGTH + 1, 2, KEYS)
    taken = np.take_along_axis(masks[:-1], trajectory.actions[..., None], -1)
    assert taken.all()
    assert (masks.sum(-1)[:-1][trajectory.valid] == 2).all()
    assert (masks.sum(-1)[:-1][~trajectory.valid] == KEYS).all()  # after an end
    actor.close()


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_several_actions_have_a_mask_each(vectorization: str) -> None:
    setup = setup_of("ppo", 2, **env("info", 2, vectorization=vectorization))
    actor = EnvActor(setup)
    trajectory, _ = actor.rollout(weights_of(setup), 2 * LENGTH, 0)
    parts = np.split(trajectory.action_masks[:-1], 2, axis=-1)
    for part, actions in zip(
        parts, np.moveaxis(trajectory.actions, -1, 0), strict=True
    ):
        assert np.take_along_axis(part, actions[..., None], -1).all()
    actor.close()


def test_log_probs_are_those_of_allowed_actions() -> None:
    setup = setup_of("ppo", 2, **env())
    actor = EnvActor(setup)
    trajectory, _ = actor.rollout(weights_of(setup), LENGTH, 0)
    policy = setup.make_policy(actor.spec)
    policy.load(weights_of(setup))
    for t in range(LENGTH):
        logits = policy._forward(trajectory.observations[t])[0].astype(np.float64)
        weights = np.exp(logits) * trajectory.action_masks[t]
        chances = weights / weights.sum(-1, keepdims=True)
        expected = np.take_along_axis(chances, trajectory.actions[t, :, None], -1)
        found = np.exp(trajectory.log_probs[t])
        np.testing.assert_allclose(found, expected[:, 0], rtol=1e-5)
    actor.close()


def test_a_restored_actor_has_the_masks_of_its_observations() -> None:
    setup = setup_of("ppo", 2, **env())
    first, second = EnvActor(setup), EnvActor(setup)
    first.rollout(weights_of(setup), 4, 0)
    second.restore(first.state())
    expected, found = (
        each.rollout(weights_of(setup), 5, 0)[0] for each in (first, second)
    )
    np.testing.assert_array_equal(found.action_masks, expected.action_masks)
    np.testing.assert_array_equal(found.actions, expected.actions)
    first.close()
    second.close()


def test_evaluations_take_only_allowed_actions() -> None:
    setup = setup_of("ppo", 2, **env())
    evaluator = Evaluator(setup)
    for random_share in (0.0, 1.0):
        weights = weights_of(setup)
        played = evaluator.evaluate(weights, 6, seed=1, random_share=random_share)
        assert [each.length for each in played] == [LENGTH] * 6
    evaluator.close()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([1] * 9, "give 10 numbers, 1 where an action is allowed and else 0"),
        ([0.5] * 10, "give 10 numbers"),
        ("all", "give 10 numbers"),
        ([0] * 10, "allow an action until the episode ends"),
        (None, "give 10 numbers"),
    ],
)
def test_other_masks_are_faults(
    given: Any, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(masked_envs.Told, "masks", ([1] * 10, given))
    config = EnvConfig(env="masked_envs:Told")
    envs = make_envs(config, 1, 1)
    envs.try_reset()
    envs.reset(0)
    with pytest.raises(EnvironmentFault, match=said) as raised:
        envs.step(np.zeros(1, np.int32))
    assert "masked_envs.py, line" in str(raised.value)
    envs.close()


def test_a_note_tells_of_masks_unless_they_are_ignored() -> None:
    run = run_of("ppo", 1, **env())
    assert run.spec.has_action_masks
    assert any("--no-action-masks" in each for each in run.notes)
    ignoring = run_of("ppo", 1, **env("key", action_masks=False))
    spec = ignoring.spec
    assert not spec.has_action_masks
    assert not any("masks" in each for each in ignoring.notes)
    assert spec.observation_shape == (2 * KEYS,)  # the mask is an input like others


class Pictures(Locks):
    """Shows frames that are preprocessed."""

    def __init__(self) -> None:
        super().__init__()
        self.observation_space = gym.spaces.Box(0, 255, (90, 90, 3), np.uint8)

    def _shown(self) -> Any:
        return np.zeros((90, 90, 3), np.uint8), super()._shown()[1]


def test_masks_of_preprocessed_frames_are_read() -> None:
    pictures = {"env": f"{__name__}:Pictures", "preprocess": True}
    spec = run_of("dqn", 1, **pictures).spec
    assert spec.has_action_masks and spec.is_image
    assert not run_of("dqn", 1, **pictures, action_masks=False).spec.has_action_masks


def test_taxi_has_masks() -> None:
    assert run_of("dqn", 1, env="Taxi-v4").spec.has_action_masks
    assert not run_of("dqn", 1, env="CartPole-v1").spec.has_action_masks


def test_a_function_of_observations_is_given_the_mask_too() -> None:
    """As before masks were read, when it had to remove them."""
    settings = env("key", state_to_input=lambda seen: seen["observation"])
    envs = make_envs(EnvConfig(**settings), 2, 1)
    assert envs.reset(0).shape == (2, KEYS)
    assert envs.action_masks is not None
    assert envs.action_masks.sum(-1).tolist() == [2, 2]
    envs.close()


class OfState(Locks):
    """Its method takes a state, as some do that other code calls."""

    def action_masks(self, state: Any) -> Any:
        return self.mask()


def vector_of_state(num_envs: int) -> Any:
    return gym.vector.SyncVectorEnv([OfState] * num_envs)


@pytest.mark.parametrize("made", [OfState, vector_of_state])
def test_a_method_that_takes_arguments_is_refused(made: Any) -> None:
    said = r"action_masks\(\): .* missing .*'state' \(.*line \d+\); .*--no-action-masks"
    with pytest.raises(EnvironmentFault, match=said):
        make_envs(EnvConfig(env=made), 1, 1)
    make_envs(EnvConfig(env=made, action_masks=False), 1, 1).close()


@pytest.mark.parametrize("agent", ["ppo", "sac"])
def test_masks_of_continuous_actions_are_refused(agent: str) -> None:
    with pytest.raises(UserError, match="--no-action-masks"):
        run_of(agent, 1, env="masked_envs:ContinuousMask")


def test_random_actions_are_equally_likely_among_those_allowed() -> None:
    masks = np.zeros((3_000, 5), np.bool_)
    masks[:, [0, 2, 4]] = True
    uniform = np.random.default_rng(1).random(3_000)
    counts = np.bincount(random_actions(uniform, 5, masks), minlength=5)
    assert (counts[[1, 3]] == 0).all()
    assert (abs(counts[[0, 2, 4]] - 1_000) < 100).all()
    largest = np.full(1, np.nextafter(1, 0))
    assert random_actions(largest, 5, masks[:1])[0] == 4
    space = gym.spaces.MultiDiscrete([2, 3])
    mask = np.array([0, 1, 0, 0, 1], np.bool_)
    assert {tuple(sample_action(space, mask)) for _ in range(9)} == {(1, 2)}
    table = gym.spaces.MultiDiscrete([[2, 3], [2, 2]], start=[[0, 4], [0, 0]])
    found = sample_action(table, [0, 1, 0, 0, 1, 1, 0, 0, 1])
    assert found.tolist() == [[1, 6], [0, 1]] and found in table
    assert sample_action(gym.spaces.MultiBinary(2), [1, 0, 0, 1]).tolist() == [0, 1]


_PARTS = np.array([0, 1, 1]), [1, 0]


@pytest.mark.parametrize("masks", [_PARTS, [*_PARTS], [_PARTS], [0, 1, 1, 1, 0]])
def test_masks_of_parts_that_differ_in_size(masks: Any) -> None:
    found = _reader(3, 2).given(masks, np.zeros(1, np.bool_))
    assert found.tolist() == [[False, True, True, True, False]]


@pytest.mark.parametrize("masks", [([1, 1], [1, 1, 1]), None, 3, "ab", [[1, 1]]])
def test_other_masks_of_parts_are_faults(masks: Any) -> None:
    with pytest.raises(UserError, match="give"):
        _reader(3, 2).given(masks, np.zeros(1, np.bool_))


def test_masks_of_parts_in_batches() -> None:
    """As a vector environment with a Tuple of masks has them."""
    shown = gym.spaces.Box(0, 1, (2,))
    bits = gym.spaces.MultiBinary(3), gym.spaces.MultiBinary(2)
    space = gym.spaces.Dict(observation=shown, action_mask=gym.spaces.Tuple(bits))
    envs: Any = gym.vector.VectorEnv()
    envs.num_envs, envs.single_observation_space = 2, space
    masks = np.array([[0, 1, 1], [1, 1, 1]]), np.array([[1, 0], [0, 1]])
    observations = {"observation": np.zeros((2, 2)), "action_mask": masks}
    envs.reset = lambda **_: (observations, {})
    _, infos = VectorMasks(envs, None).reset()
    found = _reader(3, 2).read(infos, np.zeros(2, np.bool_))
    np.testing.assert_array_equal(found, np.concatenate(masks, axis=1))


def _reader(*sizes: int) -> MaskReader:
    spec = EnvSpec((2,), "float32", 1, sum(sizes), action_sizes=sizes)
    return MaskReader(spec, lambda value, remedy: UserError(f"{value}: {remedy}"))


class Ends(gym.Env[Any, Any]):
    """Its method has no mask after the end, as those that sb3-contrib reads may."""

    observation_space = gym.spaces.Box(0, 1, (2,))
    action_space = gym.spaces.Discrete(2)
    is_over = False

    def reset(self, **given: Any) -> Any:
        self.is_over = False
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        self.is_over = True
        return np.zeros(2, np.float32), 0.0, True, False, {}

    def action_masks(self) -> list[int]:
        assert not self.is_over
        return [1, 0]


def test_no_mask_is_asked_for_after_an_end() -> None:
    env = report_masks(Ends(), "Ends")
    assert env.reset()[1]["action_mask"] == [1, 0]
    assert env.step(0)[-1]["action_mask"] is None


def test_no_mask_is_asked_for_after_an_end_in_vectors() -> None:
    class Longer(Ends):
        def step(self, action: Any) -> Any:
            return np.zeros(2, np.float32), 0.0, False, False, {}

    envs = report_masks(gym.vector.SyncVectorEnv([Ends, Longer]), "Ends")
    assert envs.reset()[1]["action_mask"] == [[1, 0]] * 2
    *_, ended, _, infos = envs.step(np.zeros(2, np.int64))
    assert infos["action_mask"] == [None, [1, 0]]
    assert _reader(2).read(infos, ended).tolist() == [[True, True], [True, False]]
    infos = envs.step(np.zeros(2, np.int64))[-1]  # the first one is reset
    assert infos["action_mask"] == [[1, 0]] * 2


class EndingTogether(gym.vector.VectorEnv[Any, Any, Any]):
    """Its method gives what it is told, of all of its environments at once."""

    num_envs = 2
    single_observation_space = Ends.observation_space
    single_action_space = Ends.action_space
    masks: Any = ()

    def reset(self, **given: Any) -> Any:
        return np.zeros((2, 2), np.float32), {}

    def step(self, ended: Any) -> Any:
        none = np.zeros(2, np.bool_)
        return np.zeros((2, 2), np.float32), np.zeros(2), ended, none, {}

    def action_masks(self) -> Any:
        if self.masks is None:
            raise AssertionError("all have ended")
        return self.masks


@pytest.mark.parametrize(
    "masks",
    [
        [None, [1, 0]],
        [[7], np.array([1, 0])],
        (np.zeros(2, np.bool_), [True, False]),
        np.array([[2, 3], [1, 0]]),
        np.array([[np.nan, 0], [1, 0]]),
        np.array([None, [1, 0]], object),
    ],
)
def test_masks_after_an_end_in_vectors_are_not_read(masks: Any) -> None:
    made, given = EndingTogether(), repr(masks)
    envs, made.masks = report_masks(made, "Ends"), masks
    ended = np.array([True, False])
    infos = envs.step(ended)[-1]
    assert _reader(2).read(infos, ended).tolist() == [[True, True], [True, False]]
    assert repr(masks) == given
    made.masks = None
    assert envs.step(np.ones(2, np.bool_))[-1]["action_mask"] == [None] * 2


@pytest.mark.parametrize(
    ("masks", "ended"), [([[7], [1, 0]], [False, False]), ([[1, 0]], [True, False])]
)
def test_other_masks_of_vectors_are_faults(masks: Any, ended: Any) -> None:
    made = EndingTogether()
    envs, made.masks = report_masks(made, "Ends"), masks
    infos = envs.step(np.array(ended))[-1]
    with pytest.raises(UserError, match="give"):
        _reader(2).read(infos, np.array(ended))


def test_the_order_of_inputs_is_that_without_the_mask() -> None:
    box = gym.spaces.Box(0, 1, (2,))
    env = Ends()
    env.observation_space = gym.spaces.Dict(
        [("b", box), ("action_mask", box), ("a", box)]
    )
    assert [*report_masks(env, "Ends").observation_space] == ["b", "a"]
