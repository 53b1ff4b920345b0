"""Statistics of normalizing wrappers: shared, kept with the run, frozen afterwards."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from acting import SEED, setup_of, weights_of
from far_envs import Far

import xagents_ray
from xagents_ray.actors.env_actor import EnvActor
from xagents_ray.actors.envs import make
from xagents_ray.actors.envs.notes import env_notes
from xagents_ray.actors.evaluator import Evaluator
from xagents_ray.core.moments import Moments, merge_all, moments_of
from xagents_ray.core.trajectory import Weights
from xagents_ray.settings.training import EnvConfig

OBSERVATIONS, REWARDS = gym.wrappers.NormalizeObservation, gym.wrappers.NormalizeReward
BOTH = (
    "gymnasium.wrappers:NormalizeObservation",
    "gymnasium.wrappers:NormalizeReward",
)
HERE = "test_wrapper_statistics"
EVALUATED = {"eval_every": 200, "eval_episodes": 2}


def vectors(num_envs: int) -> Any:
    inner = gym.vector.SyncVectorEnv([lambda: REWARDS(Far())] * num_envs)
    return gym.wrappers.vector.NormalizeObservation(inner)


def config_of(kind: str) -> EnvConfig:
    if kind == "own":
        return EnvConfig(env=f"{HERE}:vectors")
    return EnvConfig(env="far_envs:Far", wrappers=BOTH, vectorization=kind)


def arrays_of(statistics: dict[str, Moments]) -> dict[str, Any]:
    return {
        f"{name}/{part}": np.float64(value)
        for name, moments in statistics.items()
        for part, value in moments._asdict().items()
    }


@pytest.mark.parametrize("kind", ["sync", "async", "own"])
def test_environments_measure_what_is_new(kind: str) -> None:
    """All of them together; loaded statistics are used, and frozen they stay."""
    envs, other = (make.make_envs(config_of(kind), 3, 1) for _ in range(2))
    shapes = ((2,), ()) if kind == "own" else ((), (2,))
    assert envs.spec.wrappers == shapes
    name = f"wrapper-{shapes.index((2,))}"
    envs.reset(SEED)
    taken = []
    for steps in (7, 30):
        for _ in range(steps):
            envs.step(np.zeros(3, np.int32))
        taken.append(envs.statistics.take())
    assert envs.statistics.take() == {}
    assert [each[name].size for each in taken] == [3 * 8, 3 * 30]
    whole = merge_all(*taken)
    np.testing.assert_allclose(whole[name].mean, 1000, atol=2)
    np.testing.assert_allclose(np.sqrt(whole[name].variance), [1, 5], rtol=0.25)
    other.statistics.load(arrays_of(whole), frozen=True)
    expected = (1000 - whole[name].mean) / np.sqrt(whole[name].variance)
    rows = [other.reset(SEED + 1)]
    for _ in range(50):
        step = other.step(np.zeros(3, np.int32))
        rows.append(step.observations)
        of_rewards = whole[f"wrapper-{shapes.index(())}"]
        paid = step.raw_rewards[~step.ended & (step.raw_rewards > 0)]
        np.testing.assert_allclose(paid, 3 / np.sqrt(of_rewards.variance), rtol=1e-4)
    np.testing.assert_allclose(np.mean(rows, axis=(0, 1)), expected, atol=0.4)
    np.testing.assert_allclose(np.std(rows, axis=(0, 1)), 1, atol=0.3)
    assert other.statistics.take() == {}
    for each in (envs, other):
        each.close()


def test_moments_are_those_of_all_observations() -> None:
    envs = make.make_envs(config_of("sync"), 2, 1)
    envs.reset(SEED)
    for _ in range(30):
        envs.step(np.zeros(2, np.int32))
    found = envs.statistics.take()["wrapper-1"]
    within: Any = envs._envs
    seen = np.concatenate([env.unwrapped.seen for env in within.envs])
    expected = moments_of(seen)
    assert found.size == expected.size
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-6)
    np.testing.assert_allclose(found.variance, expected.variance, rtol=1e-3)
    envs.close()


def test_actors_report_them_and_act_with_newer_ones() -> None:
    """Within a version an actor goes on with its own; a new version brings all."""
    settings: dict[str, Any] = {"env": "far_envs:Far", "wrappers": BOTH, "n_steps": 8}
    setup = setup_of("ppo", 2, **settings)
    with closing(EnvActor(setup)) as actor:
        weights = weights_of(setup)
        reports = [actor.rollout(weights, 8, 0)[1] for _ in range(2)]
        sizes = [each.statistics["wrapper-1"].size for each in reports]
        assert sizes == [2 * 9, 2 * 8]
        far = {"wrapper-1": Moments(1e6, np.full(2, 900.0), np.full(2, 4.0))}
        newer = Weights(2, {**weights.arrays, **arrays_of(far)})
        rows = actor.rollout(newer, 8, 0)[0].observations[1:]
        np.testing.assert_allclose(rows.mean(axis=(0, 1)), 50, atol=3)
    with closing(Evaluator(replace(setup, n_envs=1))) as evaluator:
        evaluator.evaluate(newer, 2, SEED)
        assert "wrapper-1" not in evaluator._envs.statistics.take()


class Remembering(gym.ObservationWrapper[Any, Any, Any]):
    """Subtracts its own running mean."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self._told = {"mean": np.zeros(2), "count": 0}

    def observation(self, observation: Any) -> Any:
        told: Any = self._told
        told["count"] += 1
        told["mean"] = told["mean"] + (observation - told["mean"]) / told["count"]
        return np.float32(observation - told["mean"])


class Stacking(gym.ObservationWrapper[Any, Any, Any]):
    """Remembers within an episode only."""

    def reset(self, **given: Any) -> Any:
        self._rows: list[Any] = []
        return super().reset(**given)

    def observation(self, observation: Any) -> Any:
        self._rows.append(observation)
        return np.float32(np.mean(self._rows, axis=0))


class Curriculum(gym.Wrapper[Any, Any, Any, Any]):
    episodes = 0

    def reset(self, **given: Any) -> Any:
        self.episodes += 1
        return super().reset(**given)


@pytest.mark.parametrize(
    ("wrapper", "is_noted"),
    [
        (Remembering, True),
        (Curriculum, True),
        (Stacking, False),
        (OBSERVATIONS, False),
        (gym.wrappers.RecordEpisodeStatistics, False),
        (lambda env: Remembering(OBSERVATIONS(env)), True),
    ],
)
def test_a_note_names_other_wrappers_that_remember(
    wrapper: Any, is_noted: bool
) -> None:
    config = EnvConfig(env=Far, wrappers=wrapper)  # type: ignore[arg-type]
    notes = env_notes(config, make.check_env(config))
    assert len(notes) == is_noted
    words = ("get_state and set_state", "--normalize-observations", "wrapper ")
    assert all(word in note for note in notes for word in words)


class RememberingVector(gym.vector.VectorWrapper):
    """Counts the steps of all episodes."""

    steps = 0

    def step(self, actions: Any) -> Any:
        self.steps += 1
        return self.env.step(actions)


def remembering_vectors(num_envs: int) -> Any:
    makes = [lambda: Remembering(Far())] * num_envs
    return RememberingVector(gym.vector.SyncVectorEnv(makes))


class MaskedVectors(gym.vector.VectorWrapper):
    """Its infos have an entry of that name which is no mask."""

    def reset(self, **given: Any) -> Any:
        observations, infos = self.env.reset(**given)
        return observations, {**infos, "action_mask": ["none"]}

    def step(self, actions: Any) -> Any:
        *results, infos = self.env.step(actions)
        return *results, {**infos, "action_mask": ["none"]}


def masked_vectors(num_envs: int) -> Any:
    return MaskedVectors(RememberingVector(gym.make_vec("CartPole-v1", num_envs)))


def test_ignored_masks_hide_no_wrapper_that_remembers() -> None:
    config = EnvConfig(env=f"{HERE}:masked_vectors", action_masks=False)
    assert make.check_env(config).remembering == ("RememberingVector",)


@pytest.mark.parametrize(
    ("name", "noted"),
    [
        ("remembering_vectors", ["RememberingVector", "Remembering"]),
        ("vectors", []),
    ],
)
def test_notes_name_wrappers_of_vector_environments_too(
    name: str, noted: list[str]
) -> None:
    config = EnvConfig(env=f"{HERE}:{name}")
    assert list(make.check_env(config).remembering) == noted
    notes = env_notes(config, make.check_env(config))
    assert [each.split()[2] for each in notes] == noted


def mean_of(policy: xagents_ray.Policy) -> Any:
    return policy.make_env().get_wrapper_attr("obs_rms").mean


@pytest.mark.usefixtures("workers_import_support")
@pytest.mark.parametrize(
    ("agent", "settings"),
    [
        ("dqn", {"local": True}),  # it has not learned yet
        ("dqn", {"local": True, "buffer_initial_size": 64, **EVALUATED}),
        ("ppo", {"n_steps": 16, "n_envs": 4, "local": True, "policy_lag": 1}),
        pytest.param(
            "ppo", {"n_steps": 16, "n_envs": 4, "n_actors": 2}, marks=pytest.mark.slow
        ),
    ],
)
def test_runs_keep_them(
    agent: str, settings: dict[str, Any], train: Callable[..., dict[str, Any]]
) -> None:
    given = {"env": "far_envs:Far", "wrappers": BOTH}
    result = train(agent, max_steps=640, **given, **settings)
    policy = xagents_ray.load(result["directory"])
    np.testing.assert_allclose(mean_of(policy), 1000, atol=5)
    stored = policy._trained.weights.arrays["wrapper-1/mean"]
    assert stored.dtype == np.float64
    np.testing.assert_array_equal(mean_of(policy), stored)
    env, rows = policy.make_env(), []
    for seed in range(40):
        rows.append(env.reset(seed=seed)[0])
    np.testing.assert_allclose(np.mean(rows, axis=0), 0, atol=0.6)
    np.testing.assert_allclose(np.std(rows, axis=0), 1, atol=0.4)
    policy.save("saved.npz")
    again = xagents_ray.load(
        "saved.npz", agent=agent, env="far_envs:Far", wrappers=BOTH
    )
    np.testing.assert_array_equal(mean_of(again), mean_of(policy))


def test_resumed_runs_go_on_with_them(train: Callable[..., dict[str, Any]]) -> None:
    """As one that was not interrupted."""
    given = {"env": "CartPole-v1", "wrappers": BOTH, "n_steps": 32, "n_envs": 2}
    given |= {"local": True, "seed": 3, "run_dir": "resumed"}
    first = train("ppo", max_steps=256, **given)["directory"]
    train("ppo", resume=first, max_steps=512, local=True)
    whole = train("ppo", max_steps=512, **{**given, "run_dir": "whole"})["directory"]
    found, expected = (
        xagents_ray.load(str(Path(path)))._trained.weights.arrays
        for path in (first, whole)
    )
    assert found["wrapper-1/size"] > 500
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)
