"""A trained policy from Python: what it takes, what it gives, and its episodes."""

import json
import os
import pickle
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import yaml
from gymnasium.envs.classic_control import CartPoleEnv
from policies import KINDS, cases, policy_of
from processes import python

import xagents_ray
from xagents_ray import Policy, UserError
from xagents_ray.storage.run_directory import _digest

EARLIER = Path(__file__).parents[1] / "data" / "earlier"
RUNS = sorted(EARLIER.glob("trained/*/*/*"))
DQN = str(EARLIER / "trained" / "dqn" / "CartPole-v1" / "before")
SEED = 5

pytestmark = pytest.mark.usefixtures("short_atari")


def of(run: Path) -> str:
    return run.parts[-3]


def returns_by_hand(policy: Policy, n_envs: int, deterministic: bool) -> list[float]:
    """Return the first episode's return of each environment, with SyncVectorEnv."""
    envs = gym.vector.SyncVectorEnv([policy.make_env] * n_envs)
    observations, _ = envs.reset(seed=SEED)
    returns, going, state = np.zeros(n_envs), np.ones(n_envs, bool), None
    starts = np.ones(n_envs, bool)
    while going.any():
        actions, state = policy.predict(observations, state, starts, deterministic)
        observations, rewards, terminated, truncated, _ = envs.step(actions)
        returns[going] += rewards[going]
        starts = terminated | truncated
        going &= ~starts
    envs.close()
    return [float(each) for each in returns]


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("run", RUNS, ids=of)
def test_predict_is_what_evaluate_plays(run: Path, deterministic: bool) -> None:
    """Bit for bit: Pendulum's returns are sums over 200 steps of real numbers."""
    policy = xagents_ray.load(run, seed=SEED, vectorization="sync")
    played = policy.evaluate(3, n_envs=3, seed=SEED, deterministic=deterministic)
    assert returns_by_hand(policy, 3, deterministic) == played.returns
    assert len(set(played.returns)) > 1


@pytest.mark.parametrize("settings", [KINDS["image"], {"env": "policy/Colored-v0"}])
def test_predict_is_what_evaluate_plays_of_images(settings: dict[str, Any]) -> None:
    policy = policy_of("trpo", **settings)
    played = policy.evaluate(2, n_envs=2, seed=SEED)
    assert returns_by_hand(policy, 2, True) == played.returns


def test_noise_that_is_correlated_travels_as_the_state() -> None:
    policy = policy_of("ddpg", SEED, **KINDS["continuous"], noise="ou")
    played = policy.evaluate(2, n_envs=2, seed=SEED, deterministic=False)
    assert returns_by_hand(policy, 2, False) == played.returns
    observations = np.zeros((2, 3), np.float32)
    _, state = policy.predict(observations, deterministic=False)
    assert state is not None and state.shape == (2, 1) and state.all()
    _, after = policy.predict(observations, state, [True, False], False)
    assert after is not None and abs(after[0, 0]) < 1  # from 0, not from `state`
    assert policy.predict(observations, state)[1] is state
    mistakes: list[tuple[Any, Any, str]] = [
        (state[:1], None, r"shape is \(1, 1\), and \(2, 1\) is needed"),
        (np.ones((2, 3)), None, r"shape is \(2, 3\), and \(2, 1\) is needed"),
        (state, [True], "1 value for 2 observations: give one for each"),
    ]
    for wrong, starts, said in mistakes:
        with pytest.raises(UserError, match=said):
            policy.predict(observations, wrong, starts, False)


@pytest.mark.parametrize(
    ("agent", "trained"),
    [("ppo", {"n_steps": 4, "mini_batches": 16}), ("dqn", {"replay_shards": 4})],
)
def test_episodes_are_played_in_fewer_environments_than_training_needs(
    agent: str, trained: dict[str, Any]
) -> None:
    policy = policy_of(agent, SEED, env="CartPole-v1", n_envs=4, **trained)
    assert len(policy.evaluate(2, n_envs=1, seed=SEED).episodes) == 2


@pytest.mark.parametrize(("agent", "kind"), cases())
def test_one_observation_or_a_batch(agent: str, kind: str) -> None:
    policy = policy_of(agent, SEED, **KINDS[kind])
    space = policy.observation_space
    space.seed(SEED)
    batch = np.stack([space.sample() for _ in range(8)])
    actions, state = policy.predict(batch)
    assert state is None
    assert actions.shape == (8, *policy.action_space.shape)
    assert actions.dtype == policy.action_space.dtype
    for observation, action in zip(batch, actions, strict=True):
        single = policy.act(observation)
        assert single in policy.action_space
        assert np.allclose(single, action, atol=1e-5, rtol=1e-5)
    drawn, _ = policy.predict(batch, deterministic=False)
    assert all(each in policy.action_space for each in drawn)
    policy.set_random_seed(SEED)
    assert (policy.act(batch, deterministic=False) == drawn).all()


def test_actions_of_other_bounds_and_numbers() -> None:
    """They begin at 3; float64 bounds are no float32 numbers."""
    gym.register("policy/Shifted-v0", lambda **_: Shifted())
    gym.register("policy/Bounded-v0", lambda **_: Bounded())
    observation = np.array([0.5, -0.5], np.float32)
    policy = policy_of("a2c", SEED, env="policy/Shifted-v0")
    chosen = {int(policy.act(observation, False)) for _ in range(50)}
    assert chosen == {3, 4, 5}
    scaled = policy_of("ppo", SEED, env="policy/Bounded-v0")
    far = [np.full(2, x, np.float32) for x in (-99, 99)]
    drawn = [scaled.act(each, False) for each in far * 50]
    assert all(action in scaled.action_space for action in drawn)
    assert {-0.1, 0.1} <= {float(action[0]) for action in drawn}
    settings: dict[str, Any]
    for agent, settings in (("ppo", {"action_scaling": False}), ("td3", {})):
        policy = policy_of(agent, env="policy/Bounded-v0", **settings)
        actions = [policy.act(each) for each in far]
        assert all(action in policy.action_space for action in actions)
        assert actions[0].dtype == np.float64
        assert {abs(float(action[0])) for action in actions} <= {0.1}


@pytest.mark.parametrize("env", ["FrozenLake-v1", "Blackjack-v1"])
def test_observations_that_are_no_arrays(env: str) -> None:
    """A discrete space and a Tuple, as the environment has them and flattened."""
    policy = policy_of("dqn", env=env)
    own, flat = gym.make(env), policy.make_env()
    observation, _ = own.reset(seed=SEED)
    array, _ = flat.reset(seed=SEED)
    assert policy.act(observation) == policy.act(array) == policy.act([array, array])[1]
    own.close()
    flat.close()


def vectors(num_envs: int) -> Any:
    return gym.vector.SyncVectorEnv([Shifted] * num_envs)


def test_a_vector_environment_of_the_user() -> None:
    policy = policy_of("dqn", env=vectors, vectorization="auto")
    assert policy.act([[0.0, 0.0], [0.5, 0.5]]).shape == (2,)
    assert len(policy.evaluate(3).returns) == 3
    with pytest.raises(UserError, match="no single one: call it yourself"):
        policy.make_env()


class Shifted(gym.Env[Any, Any]):
    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space: gym.Space[Any] = gym.spaces.Discrete(3, start=3)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        assert action in self.action_space
        return np.zeros(2, np.float32), 0.0, True, False, {}


class Bounded(Shifted):
    action_space = gym.spaces.Box(-0.1, 0.1, (1,), np.float64)


def test_predict_refuses_nan() -> None:
    policy = policy_of("ppo", env="CartPole-v1")
    for observation in ([0, np.nan, 0, 0], np.full((3, 4), np.nan, np.float32)):
        with pytest.raises(
            UserError, match=r"of CartPole-v1 contains NaN.*: replace it"
        ):
            policy.predict(observation)


def test_what_predict_refuses() -> None:
    policy = policy_of("dqn", **KINDS["image"])
    assert policy.observation_space.shape == (4, 84, 84)
    with pytest.raises(UserError, match=r"shape \(4, 84, 84\).*make_env"):
        policy.predict(np.zeros((84, 84, 4), np.uint8))
    with pytest.raises(UserError, match=r"\(0, 4, 84, 84\)"):
        policy.predict(np.zeros((0, 4, 84, 84), np.uint8))
    with pytest.raises(UserError, match=r"uint8, from 0 to 255.*without scaling"):
        policy.predict(np.zeros((4, 84, 84), np.float32))


def test_masks_are_refused_where_they_would_be_ignored() -> None:
    policy = policy_of("dqn", env="CartPole-v1")
    for choose in (policy.predict, policy.act):
        with pytest.raises(UserError, match="leave action_masks out, or train with"):
            choose(np.zeros(4), action_masks=[1, 0])
        choose(np.zeros(4), action_masks=None)


@pytest.mark.parametrize("env", ["CartPole-v1", "Blackjack-v1"])
def test_predict_takes_the_observation_alone(env: str) -> None:
    policy, own = policy_of("dqn", env=env), gym.make(env)
    own.reset(seed=SEED)
    for returned in (own.reset(), own.step(0), policy.make_env().reset()):
        with pytest.raises(UserError, match=r"as in env\.reset\(\)\[0\]\.$"):
            policy.predict(returned)
    own.close()
    for wrong in (None, "left", [[0.0], [0.0, 1.0]]):
        with pytest.raises(
            UserError, match=r"array of numbers.* this one is .*make_env"
        ):
            policy.predict(wrong)


class Measured(Shifted):
    """Gives a Dict that has another one in it."""

    observation_space: gym.Space[Any] = gym.spaces.Dict(
        place=gym.spaces.Box(-1, 1, (2,), np.float32),
        more=gym.spaces.Dict(
            speed=gym.spaces.Box(-9, 9, (1,), np.float32), gear=gym.spaces.Discrete(3)
        ),
    )

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        super(Shifted, self).reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}


def measured(**changes: Any) -> dict[str, Any]:
    """Return an observation with some parts changed, and without those of None."""
    found = {
        "place": np.ones(2, np.float32),
        "speed": np.ones(1, np.float32),
        "gear": 1,
    }
    found = {k: v for k, v in {**found, **changes}.items() if v is not None}
    more = {k: found.pop(k) for k in ("speed", "gear") if k in found}
    return {**found, "more": more}


def test_parts_of_an_observation_are_cast_where_that_is_safe() -> None:
    policy = policy_of("dqn", env=Measured)
    expected = policy.act(measured())
    assert expected == policy.act(np.array([1, 1, 1, 0, 1, 0], np.float32))
    for name, part in (("place", np.ones(2)), ("place", [1, 1]), ("speed", [1.0])):
        assert policy.act(measured(**{name: part})) == expected
    assert policy.act(measured(clock=np.zeros(3))) == expected


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"place": None},
            r"observation\['place'\] is missing: pass all of place, more",
        ),
        ({"speed": None}, r"observation\['more'\]\['speed'\] is missing: pass all of "),
        ({"place": np.ones((5, 2))}, r"observation\['place'\] is array.* Box\(-1"),
        ({"speed": np.ones(1, complex)}, r"observation\['more'\]\['speed'\] is array"),
        ({"gear": 7}, r"observation\['more'\]\['gear'\] is 7, .*Discrete\(3\) there"),
    ],
)
def test_a_part_that_does_not_fit_is_named(change: Any, said: str) -> None:
    policy = policy_of("dqn", env=Measured)
    with pytest.raises(UserError, match=said):
        policy.predict(measured(**change))


def test_sources() -> None:
    shutil.copytree(DQN, "runs/dqn/CartPole-v1/mine")
    (checkpoint,) = Path("runs/dqn/CartPole-v1/mine/checkpoints").iterdir()
    steps = int(checkpoint.name.rpartition("-")[2])
    observations = np.random.default_rng(0).normal(size=(50, 4))
    actions = xagents_ray.load(DQN).act(observations)
    assert len(set(actions)) > 1
    cfg = f"{DQN}/model.cfg"
    shutil.copy(cfg, "mine.cfg")
    xagents_ray.load("last").save("new/policy.npz")
    weights = {"agent": "dqn", "env": "CartPole-v1", "model": cfg}
    for policy in (
        xagents_ray.load("last"),
        xagents_ray.load("new/policy.npz"),
        xagents_ray.load("last", agent="dqn", which=steps),
        xagents_ray.load("last", model="mine.cfg"),
        xagents_ray.load(checkpoint),
        xagents_ray.load("new/policy.npz", **weights),
        xagents_ray.load([Path("new/policy.npz")], **weights),
        pickle.loads(pickle.dumps(xagents_ray.load("last"))),
    ):
        assert (policy.agent, policy.env_id) == ("dqn", "CartPole-v1")
        assert (policy.act(observations) == actions).all()
    shutil.move("runs/dqn", "runs/seeds/three/dqn")  # as train --seeds has it
    assert (xagents_ray.load("last").act(observations) == actions).all()


def test_a_source_in_the_home_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    shutil.copytree(DQN, tmp_path / "home/runs/dqn/CartPole-v1/mine")
    policy = xagents_ray.load("~/runs/dqn/CartPole-v1/mine")
    assert xagents_ray.load("last", run_dir="~/runs").agent == policy.agent == "dqn"
    policy.save("~/policy.npz")
    weights = {"agent": "dqn", "env": "CartPole-v1", "model": f"{DQN}/model.cfg"}
    for source in ("~/policy.npz", [Path("~/policy.npz")]):
        assert xagents_ray.load(source, **weights).agent == "dqn"
    assert not Path("~").exists()


def test_one_weights_file_of_an_agent_with_two_models() -> None:
    policy = policy_of("td3", **KINDS["continuous"])
    policy.save("actor.npz")
    again = xagents_ray.load("actor.npz", agent="td3", env="Pendulum-v1")
    observations = np.random.default_rng(0).normal(size=(9, 3))
    assert (again.act(observations) == policy.act(observations)).all()


@pytest.mark.parametrize(
    ("source", "settings", "message"),
    [
        (None, {}, r"load takes a path, or last, and got a NoneType"),
        ("nowhere", {}, "load nowhere: there is no such directory; name a run's"),
        ("last", {}, "There is no run in runs: name its directory"),
        ("s3://bucket/runs/a", {}, "load s3://bucket/runs/a: URLs are not supported"),
        (["gs://a/b.npz"], {"agent": "ppo"}, "load gs://a/b.npz: URLs are not supp"),
        ("a.npz", {"agent": "ppo"}, "a.npz: no such weights file; give the path"),
        (DQN, {"agent": "ppo"}, "is a run of dqn: name that agent"),
        (DQN, {"env": "Pendulum-v1"}, 'env="Pendulum-v1" has other spaces than CartP'),
        (DQN, {"preprocess": True}, "preprocess comes from the run that run names"),
        (DQN, {"preproces": True}, "no setting 'preproces'; did you mean preprocess"),
        (DQN, {"seed": -1}, "seed must be ≥ 0"),
        (DQN, {"lr": 0.1}, "There is no setting 'lr'"),
    ],
)
def test_what_load_refuses(source: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        xagents_ray.load(source, **settings)


def test_the_flag_of_the_commands_samples_too() -> None:
    policy = policy_of("ppo", **KINDS["discrete"])
    for method in (policy.evaluate, policy.play):
        drawn = method(3, seed=SEED, sample=True)
        assert drawn == method(3, seed=SEED, deterministic=False)
        assert drawn != method(3, seed=SEED)


def test_evaluate_and_play_are_the_commands() -> None:
    result = xagents_ray.evaluate("dqn", run=DQN, episodes=3, seed=SEED)
    assert result == xagents_ray.load(DQN).evaluate(3, seed=SEED)
    played = xagents_ray.play("dqn", run=DQN, frame_dir="frames", seed=SEED)
    assert played.returns == xagents_ray.load(DQN).play(seed=SEED).returns
    assert len(list(Path("frames").iterdir())) == played.lengths[0] + 1
    random = xagents_ray.load(DQN).evaluate(3, seed=SEED, eval_epsilon=1.0)
    assert random.returns != result.returns
    with pytest.raises(UserError, match="no setting 'episode'; did you mean episodes"):
        xagents_ray.evaluate("dqn", run=DQN, episode=3)
    with pytest.raises(UserError, match="add sample"):
        xagents_ray.evaluate("dqn", run=DQN, epsilon_end=0.5)


class Short(CartPoleEnv):
    """CartPole whose episodes end after a few steps."""

    def __init__(self, steps: int = 3, render_mode: str | None = None) -> None:
        super().__init__(render_mode=render_mode)
        self.left, self.steps = 0, steps

    def reset(self, **settings: Any) -> Any:
        self.left = self.steps
        return super().reset(**settings)

    def step(self, action: Any) -> Any:
        self.left -= 1
        observation, reward, terminated, _, info = super().step(action)
        return observation, reward, terminated, self.left == 0, info


def test_a_run_acts_in_another_environment_of_the_same_spaces() -> None:
    own = xagents_ray.evaluate("dqn", run=DQN, episodes=2, seed=SEED)
    for settings, length in (({}, 3), ({"env_kwargs": {"steps": 4}}, 4)):
        settings = {"run": DQN, "env": Short, "seed": SEED, **settings}
        found = xagents_ray.evaluate("dqn", episodes=2, **settings)
        assert found.lengths == [length] * 2 and found.returns != own.returns
        assert xagents_ray.play("dqn", **settings).lengths == [length]
    policy = xagents_ray.load(DQN, env="CartPole-v0")
    assert policy.env_id == "CartPole-v0" and policy.make_env().spec is not None
    assert "Environment: CartPole-v0; the run was trained in CartPole-v1" in (
        policy.notes
    )
    assert not any("Environment" in note for note in xagents_ray.load(DQN).notes)


def test_another_environment_has_arguments_of_its_own(tmp_path: Path) -> None:
    """Those of the run's own environment are for that one; its wrappers stay."""
    run = tmp_path / "moved"
    shutil.copytree(DQN, run)
    stored = yaml.safe_load((run / "config.yaml").read_text())
    stored["env"] |= {"env": "gone:Away", "env_kwargs": ["size=3"]}
    stored["env"]["vectorization"] = "vector"
    data = yaml.safe_dump(stored).encode()
    (run / "config.yaml").write_bytes(_digest(data) + data)
    found = xagents_ray.evaluate("dqn", run=run, env=Short, episodes=1, seed=SEED)
    assert found.lengths == [3]
    with pytest.raises(UserError, match="module gone can't be imported"):
        xagents_ray.load(run)


def test_evaluate_shows_progress_on_a_terminal_only() -> None:
    """On the standard error, so that the JSON can be read."""
    words = ["evaluate", "dqn", "--run", DQN, "--episodes", "3", "--json"]
    shown, terminal = os.openpty()
    command = [sys.executable, "-m", "xagents_ray", *words]
    text = b""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=terminal) as running:
        os.close(terminal)
        with suppress(OSError):  # once the command has ended
            while part := os.read(shown, 4096):
                text += part
        done = json.loads(running.communicate()[0])
    os.close(shown)
    assert done["episodes"] == 3
    assert re.search(r"3/3\S* episodes, [1-9]\d* env steps", text.decode())
    assert python("-m", "xagents_ray", *words).stderr == ""


def test_a_policy_needs_neither_tensorflow_nor_ray() -> None:
    code = (
        "import sys, xagents_ray\n"
        f"policy = xagents_ray.load({DQN!r})\n"
        "policy.predict([0.0] * 4)\n"
        "policy.evaluate(1)\n"
        "print({'tensorflow', 'keras', 'ray', 'torch', 'onnx'} & set(sys.modules))"
    )
    done = python("-c", code)
    assert (done.stdout, done.stderr) == ("set()\n", "")


def test_runs() -> None:
    for name in ("first", "killed"):
        shutil.copytree(DQN, f"mine/dqn/CartPole-v1/{name}")
    Path("mine/dqn/CartPole-v1/killed/summary.json").unlink()
    shutil.copytree(RUNS[-1], "mine/deeper/edited")
    Path("mine/deeper/edited/config.yaml").write_text("agent: td3")
    Path("mine/wandb").mkdir()
    Path("mine/wandb/config.yaml").write_text("not: a run")
    table = xagents_ray.runs("mine").set_index("name")
    assert len(table) == 3
    first, killed = table.loc["first"], table.loc["killed"]
    assert (first.agent, first.env, first.directory) == (
        "dqn",
        "CartPole-v1",
        "mine/dqn/CartPole-v1/first",
    )
    assert killed.env_steps == 611 <= first.env_steps
    assert killed.isna().reason and first.reason
    assert first.mean_reward > 0 and first.seed == killed.seed
    assert table.loc["edited"].isna().agent
    assert xagents_ray.runs("mine/dqn/CartPole-v1").shape[0] == 2
    with pytest.raises(UserError, match="there is no such folder"):
        xagents_ray.runs("elsewhere")
