"""Environments of every kind behind `Envs`, the real ones, and those of EnvPool."""

import dataclasses
import functools
import importlib.util
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from acting import run_of, setup_of, weights_of
from stepping import Stepping

from xagents_ray.actors.actor_setup import ActorSetup
from xagents_ray.actors.env_actor import EnvActor
from xagents_ray.actors.envs import atari
from xagents_ray.actors.envs.make import (
    choose_vectorization,
    make_envs,
    make_one,
    probe,
)
from xagents_ray.actors.envs.notes import env_notes
from xagents_ray.actors.envs.specs import action_facts
from xagents_ray.actors.envs.vector import Envs
from xagents_ray.core.errors import Diverged, UserError
from xagents_ray.core.trajectory import Trajectory
from xagents_ray.settings.training import EnvConfig

PONG = {"env": "PongNoFrameskip-v4", "preprocess": True}
SHAPES: list[tuple[dict[str, Any], tuple[int, ...], str, int]] = [
    ({"env": "CartPole-v1"}, (4,), "float32", 2),
    ({"env": "CartPole-v1", "vectorization": "sync"}, (4,), "float32", 2),
    ({"env": "CartPole-v1", "vectorization": "vector"}, (4,), "float32", 2),
    ({"env": "Acrobot-v1", "vectorization": "async"}, (6,), "float32", 3),
    ({"env": "LunarLander-v3"}, (8,), "float32", 4),
    ({"env": "BipedalWalker-v3"}, (24,), "float32", 0),
    (PONG, (84, 84), "uint8", 6),
    ({"env": "ALE/Pong-v5", "preprocess": True}, (84, 84), "uint8", 6),
    ({**PONG, "vectorization": "sync"}, (84, 84), "uint8", 6),
    ({"env": "PongNoFrameskip-v4"}, (210, 160, 3), "uint8", 6),
    ({"env": "CarRacing-v3", "preprocess": True}, (84, 84), "uint8", 0),
    ({"env": f"{__name__}:Odd"}, (6,), "float32", 3),
]


class Odd(Stepping):
    """Shows its action in a float64 matrix; they are numbered from 5; rewards 10."""

    observation_space = gymnasium.spaces.Box(-1, 1, (2, 3), np.float64)
    action_space: Any = gymnasium.spaces.Discrete(3, start=5)
    length, action = 10**9, 0.0

    def observe(self) -> Any:
        return np.full((2, 3), self.action)

    def reward(self, action: Any) -> float:
        assert action in self.action_space
        self.action = float(np.ravel(action)[0])
        return 10.0


class Wide(Odd):
    """Takes float64 actions, whose bounds float32 rounds outwards."""

    action_space = gymnasium.spaces.Box(-0.1, 0.1, (2,), np.float64)


def own_vectors(num_envs: int, mode: Any) -> gymnasium.vector.VectorEnv[Any, Any, Any]:
    """Return CartPoles in a vector form that says how it resets; None says nothing."""
    modes = gymnasium.vector.AutoresetMode
    envs = gymnasium.vector.SyncVectorEnv(
        [lambda: gymnasium.make("CartPole-v1").unwrapped] * num_envs,
        autoreset_mode=mode or modes.NEXT_STEP,
    )
    if mode is None:
        del envs.metadata["autoreset_mode"]
    return envs


@pytest.fixture
def own_id(request: Any) -> Iterator[str]:
    """Register CartPole with an own vector form of the mode asked for."""
    gymnasium.register(
        "OwnVectors-v0",
        entry_point="gymnasium.envs.classic_control:CartPoleEnv",
        vector_entry_point=functools.partial(own_vectors, mode=request.param),
    )
    yield "OwnVectors-v0"
    del gymnasium.registry["OwnVectors-v0"]


def envs_of(count: int = 2, **settings: Any) -> Envs:
    return make_envs(EnvConfig(**settings), count, 1)


@pytest.mark.parametrize("vectorization", ["auto", "vector", "sync", "async"])
def test_an_outdated_version_is_a_note(vectorization: str) -> None:
    """Gymnasium warns of it in color, for each environment; warnings are errors."""
    old = EnvConfig(env="CartPole-v0", vectorization=vectorization)
    make_envs(old, 2, 1).close()
    make_one(old, "rgb_array").close()
    assert env_notes(old) == (
        "CartPole-v0 is outdated; its newest version is CartPole-v1",
    )


@pytest.mark.parametrize(
    "env", ["CartPole-v1", "PongNoFrameskip-v4", "ALE/Pong-v5", f"{__name__}:Odd"]
)
def test_others_have_no_notes(env: str) -> None:
    assert env_notes(EnvConfig(env=env)) == ()


@pytest.mark.filterwarnings("ignore:builtin type:DeprecationWarning")  # Box2D's SWIG
@pytest.mark.parametrize(("settings", "shape", "dtype", "actions"), SHAPES)
def test_shapes(
    settings: dict[str, Any], shape: tuple[int, ...], dtype: str, actions: int
) -> None:
    envs = envs_of(**settings)
    assert envs.spec.observation_shape == shape
    assert envs.spec.observation_dtype == dtype
    assert envs.spec.n_actions == actions
    first = envs.reset(0)
    assert (first.shape, first.dtype) == ((2, *shape), dtype)
    units = envs.spec.action_units
    chosen = np.zeros(2, np.int32) if actions else np.zeros((2, units), np.float32)
    step = envs.step(chosen)
    assert step.observations.shape == (2, *shape)
    assert step.observations.dtype == dtype
    for values, kind in (
        (step.rewards, np.float32),
        (step.raw_rewards, np.float64),
        (step.terminated, np.bool_),
        (step.truncated, np.bool_),
    ):
        assert (values.shape, values.dtype) == ((2,), kind)
    envs.close()


def test_actions_that_do_not_start_at_0() -> None:
    envs = envs_of(env=f"{__name__}:Odd")
    envs.reset(0)
    step = envs.step(np.array([0, 2], np.int32))
    np.testing.assert_array_equal(step.observations[:, 0], [5, 7])
    np.testing.assert_array_equal(step.rewards, [10, 10])


def test_actions_of_another_dtype_stay_within_their_bounds() -> None:
    envs = envs_of(env=f"{__name__}:Wide")
    assert float(np.float32(0.1)) > 0.1
    low, high = envs.spec.action_low, envs.spec.action_high
    envs.reset(0)
    step = envs.step(np.array([low, high], np.float32))
    np.testing.assert_allclose(step.observations[:, 0], [-0.1, 0.1])


SEEDED: list[dict[str, Any]] = [
    {"env": "Acrobot-v1"},
    {"env": "CartPole-v1", "vectorization": "sync"},
    {"env": "ALE/Breakout-v5", "preprocess": True},
    {"env": "BreakoutNoFrameskip-v4", "preprocess": True, "vectorization": "sync"},
]


@pytest.mark.parametrize("settings", SEEDED)
def test_environment_i_has_seed_plus_i(settings: dict[str, Any]) -> None:
    """Across resets too: three together are three alone."""
    together = envs_of(3, **settings)
    alone = [envs_of(1, **settings) for _ in range(3)]
    rng = np.random.default_rng(0)
    first = together.reset(10)
    np.testing.assert_array_equal(
        first, np.concatenate([env.reset(10 + i) for i, env in enumerate(alone)])
    )
    ended = 0
    for _ in range(300):
        actions = rng.integers(together.spec.n_actions, size=3, dtype=np.int32)
        step = together.step(actions)
        apart = [env.step(actions[i : i + 1]) for i, env in enumerate(alone)]
        ended += int(step.ended.sum())
        for name in {*step._fields} - {"infos"}:
            of_each = [getattr(s, name) for s in apart]
            if of_each[0] is None:  # whether goals were reached, where there are none
                assert getattr(step, name) is None
                continue
            expected = np.concatenate(of_each)
            np.testing.assert_array_equal(getattr(step, name), expected)
    assert ended > 0 or "Acrobot" in settings["env"]


def test_rewards_are_clipped_for_learning_and_lives_end_bootstrapping() -> None:
    envs = envs_of(4, env="ALE/SpaceInvaders-v5", preprocess=True)
    envs.reset(0)
    rng = np.random.default_rng(0)
    raw: set[float] = set()
    lost = 0
    for _ in range(700):
        step = envs.step(rng.integers(6, size=4, dtype=np.int32))
        np.testing.assert_array_equal(step.rewards, np.sign(step.raw_rewards))
        raw.update(step.raw_rewards.tolist())
        lost += int((step.terminated & ~step.ended).sum())
    assert max(raw) > 1
    assert lost >= 4


def test_sync_frames_equal_the_vector_form_in_all_but_the_first_no_ops() -> None:
    """The same picture of the same game: grey, 84x84, every 4th frame, maximum."""
    seen = []
    for vectorization in ("sync", "vector"):
        settings = {**PONG, "max_frame": True, "vectorization": vectorization}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(atari, "NOOPS", 1)
            envs = envs_of(1, **settings)
            frames = [envs.reset(0)]
            frames += [envs.step(np.zeros(1, np.int32)).observations for _ in range(60)]
        seen.append(np.concatenate(frames).astype(int))
    assert np.abs(seen[0][1:] - seen[1][1:]).max() <= 1


@pytest.mark.parametrize("own_id", ["SameStep", "Disabled"], indirect=True)
@pytest.mark.parametrize("vectorization", ["auto", "vector"])
def test_vector_forms_that_reset_at_other_times_are_refused(
    own_id: str, vectorization: str
) -> None:
    with pytest.raises(UserError, match=r"autoreset_mode AutoresetMode\.[SD]") as error:
        envs_of(env=own_id, vectorization=vectorization)
    assert str(error.value).count(". ") == 0
    envs = envs_of(env=own_id, vectorization="sync")  # the remedy that it names
    assert envs.reset(1).shape == (2, 4)
    envs.close()


@pytest.mark.filterwarnings("ignore:.*is missing AutoresetMode:UserWarning")
@pytest.mark.parametrize("own_id", ["NextStep", None], indirect=True)
def test_own_vector_forms_that_reset_on_the_next_step(own_id: str) -> None:
    envs = envs_of(env=own_id, vectorization="vector")
    envs.reset(1)
    pushed = [envs.step(np.ones(2, np.int64)) for _ in range(30)]
    ends = next(t for t, step in enumerate(pushed) if step.ended[0])
    assert pushed[ends + 1].rewards[0] == 0  # it only reset
    envs.close()


def test_a_frame_skip_beside_preprocessing_is_refused() -> None:
    config = EnvConfig(env="ALE/Pong-v5", env_kwargs=("frameskip=2",), preprocess=True)
    with pytest.raises(UserError, match="leave frameskip out of --env-kwargs"):
        make_envs(config, 1, 1)


@pytest.mark.parametrize("frameskip", [4, (2, 5)])
def test_a_factory_that_skips_frames_is_refused_beside_preprocessing(
    frameskip: Any,
) -> None:
    """Each action would be repeated 4 times as often."""

    def game() -> Any:
        return gymnasium.make("ALE/Pong-v5", frameskip=frameskip)

    config = EnvConfig(env=game, preprocess=True)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=r"repeats it for .*: make it with frameskip=1"):
        make_envs(config, 1, 1)


def test_emulator_settings_of_a_spec_are_kept_by_preprocessing() -> None:
    """ALE's vector environment lacks some, such as `mode`."""
    spec = gymnasium.spec("ALE/Pong-v5")
    changed = dataclasses.replace(spec, kwargs={**spec.kwargs, "difficulty": 1})
    envs = make_envs(EnvConfig(env=changed, preprocess=True), 1, 1)  # type: ignore[arg-type]
    within: Any = envs._envs
    assert within.envs[0].unwrapped._game_difficulty == 1
    envs.close()


class Huge(Stepping):
    def reward(self, action: Any) -> float:
        return -1e300


def test_a_reward_that_float32_can_not_hold_is_not_called_infinite() -> None:
    actor = EnvActor(setup_of("ppo", 2, env="test_environments:Huge", n_steps=8))
    words = r"gave a reward of -1e\+300, which float32 can't hold: fix it"
    with pytest.raises(Diverged, match=words):
        actor.rollout(weights_of(actor._setup), 8, 0)
    actor.close()


def vectors(num_envs: int) -> Any:
    return gymnasium.make_vec("CartPole-v1", num_envs)


@pytest.mark.parametrize("env", ["CartPole-v1", "test_environments:vectors"])
def test_a_number_of_environments_is_no_argument(env: str) -> None:
    config = EnvConfig(env=env, env_kwargs=("num_envs=2",), vectorization="vector")
    with pytest.raises(UserError, match="is what --n-envs sets"):
        make_envs(config, 2, 1)


def test_the_largest_number_is_no_bound_of_actions() -> None:
    """Old environments write unbounded spaces so."""
    largest = np.finfo(np.float32).max
    space = gymnasium.spaces.Box(np.float32([-largest, -3]), np.float32([largest, 3]))
    facts = action_facts(space, "env")
    assert facts["action_low"] == (-np.inf, -3)
    assert facts["action_high"] == (np.inf, 3)


INSTALLED = importlib.util.find_spec("envpool") is not None
needs_envpool = pytest.mark.skipif(not INSTALLED, reason="needs the extra [envpool]")
box2d = pytest.mark.filterwarnings("ignore:builtin type:DeprecationWarning")  # SWIG
WALKER = {"env": "BipedalWalker-v3"}
POOL = {**WALKER, "vectorization": "envpool"}


def walker() -> Any:
    return gymnasium.make("BipedalWalker-v3")


def test_the_extra_envpool() -> None:
    """It works where it is installed, and is named where it is not."""
    settings = {"env": "CartPole-v1", "vectorization": "envpool"}
    if not INSTALLED:
        with pytest.raises(UserError, match=r"xagents-ray\[envpool\]"):
            probe(EnvConfig(**settings))  # type: ignore[arg-type]
    else:
        assert envs_of(**settings).reset(0).shape == (2, 4)


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
def test_where_envpool_lacks_one_auto_stays(settings: dict[str, Any]) -> None:
    config = EnvConfig(**settings)
    assert choose_vectorization(config) is config


@box2d
def test_auto_takes_envpool_where_it_is_installed() -> None:
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
