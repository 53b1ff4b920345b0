"""EnvPool: where `auto` takes it, and that it steps what Gymnasium steps."""

import importlib.util
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from acting import run_of, weights_of

from xagents_ray.actors.env_actor import ActorSetup, EnvActor
from xagents_ray.actors.envs.make import choose_vectorization, make_envs
from xagents_ray.core.trajectory import Trajectory
from xagents_ray.settings.training import EnvConfig

INSTALLED = importlib.util.find_spec("envpool") is not None
needs_envpool = pytest.mark.skipif(not INSTALLED, reason="needs the extra [envpool]")
box2d = pytest.mark.filterwarnings("ignore:builtin type:DeprecationWarning")  # SWIG
WALKER = {"env": "BipedalWalker-v3"}
POOL = {**WALKER, "vectorization": "envpool"}


def walker() -> Any:
    return gym.make("BipedalWalker-v3")


@pytest.mark.parametrize(
    "settings",
    [
        {"env": "CartPole-v1"},
        {"env": "PongNoFrameskip-v4", "preprocess": True},
        {"env": "CarRacing-v3", "preprocess": True},
        {**WALKER, "vectorization": "sync"},
        {"env": f"{__name__}:walker"},
        {"env": "NoSuchWalker-v3"},
    ],
    ids=lambda settings: settings["env"],
)
def test_others_are_left_as_they_are(settings: dict[str, Any]) -> None:
    config = EnvConfig(**settings)
    assert choose_vectorization(config) is config


@box2d
def test_auto_takes_it_where_it_is_installed() -> None:
    """And says so: a run's settings hold what was chosen."""
    run = run_of("ppo", 2, **WALKER)
    assert run.config.env.vectorization == ("envpool" if INSTALLED else "auto")
    assert any("--vectorization sync" in note for note in run.notes) == INSTALLED


@box2d
@needs_envpool
@pytest.mark.parametrize(
    ("env", "action"),
    [
        ("BipedalWalker-v3", np.array([0.3, -0.5, 0.2, 0.1], np.float32)),
        ("LunarLander-v3", np.int32(2)),
        ("LunarLanderContinuous-v3", np.array([0.6, -0.3], np.float32)),
    ],
)
def test_steps_are_distributed_like_gymnasiums(env: str, action: Any) -> None:
    """Terrains and first pushes have other random numbers."""
    count = 48
    config = {
        name: EnvConfig(env=env, vectorization=name) for name in ("sync", "envpool")
    }
    kinds = [make_envs(each, count, 1) for each in config.values()]
    assert kinds[0].spec == kinds[1].spec
    actions = np.array([action] * count)
    seen = [[np.array(envs.reset(100 * i))] for i, envs in enumerate(kinds)]
    rewards: list[list[Any]] = [[], []]
    for _ in range(25):
        for i, envs in enumerate(kinds):
            step = envs.step(actions)
            assert not step.ended.any()
            seen[i].append(np.array(step.observations))
            rewards[i].append(step.raw_rewards)
    for parts in (seen, rewards):
        one, other = (np.array(each, np.float64) for each in parts)
        error = np.sqrt((one.var(axis=1) + other.var(axis=1)) / count)
        apart = np.abs(one.mean(axis=1) - other.mean(axis=1))
        assert (apart < 5 * error + 1e-3).all()


@needs_envpool
def test_an_end_is_a_row_and_the_next_one_only_resets() -> None:
    envs = make_envs(EnvConfig(env="Pendulum-v1", vectorization="envpool"), 2, 1)
    before = np.array(envs.reset(3))
    for t in range(1, 402):
        step = envs.step(np.zeros((2, 1), np.float32))
        assert step.truncated.all() == step.ended.all() == (t in (200, 401))
        assert not step.terminated.any()
        assert (step.raw_rewards == 0).all() == (t == 201)
        # An episode's last observation is its own: the pendulum turned on.
        angles = [np.arctan2(x[:, 1], x[:, 0]) for x in (before, step.observations)]
        turned = np.angle(np.exp(1j * (angles[1] - angles[0])))
        follows = np.allclose(turned, 0.05 * step.observations[:, 2], atol=1e-3)
        assert follows == (t != 201)
        before = np.array(step.observations)


def rolled(envs: range, threads: int) -> tuple[Trajectory, EnvActor]:
    run = run_of("ppo", 3, **POOL)
    setup = ActorSetup.of(run, len(envs), envs.start, threads)
    actor = EnvActor(setup)
    for _ in range(2):
        trajectory, _ = actor.rollout(weights_of(setup), 60, 0)
    return trajectory, actor


@box2d
@needs_envpool
def test_neither_threads_nor_who_shares_an_actor_changes_anything() -> None:
    whole, actor = rolled(range(3), 2)
    parts = [rolled(envs, 1)[0] for envs in (range(1), range(1, 3))]
    for name in ("observations", "rewards", "terminated", "valid"):
        together = np.concatenate([getattr(part, name) for part in parts], axis=1)
        np.testing.assert_allclose(together, getattr(whole, name), rtol=1e-3, atol=1e-3)
    assert (whole.rewards[~whole.valid] == 0).all()
    state = actor.state()
    assert state["envs"] is None  # a resumed run drops its unfinished episodes
    again = EnvActor(actor._setup)
    assert again.restore(state) == state["unfinished"] > 0
