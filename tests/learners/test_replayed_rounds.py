"""On-policy algorithms that replay trajectories: what they take from a replay."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from learner_support import (
    assert_close,
    fresh,
    make_learner,
    publish,
    replayed,
)
from linear import ENVS, LENGTH, SPECS, linear_layout, rollout

from xagents_ray import train
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.batches import Batch
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Trajectory, map_arrays
from xagents_ray.learners.impala import append_replayed
from xagents_ray.learners.learner import Learner
from xagents_ray.learners.padding import widen_rounds
from xagents_ray.learners.state import COUNT
from xagents_ray.learners.tensors import CORRECTED_BATCHES

RATIO = {"replay_ratio": 1.0}


def make(agent: str, spec: EnvSpec, compiled: bool = False, **settings: Any) -> Learner:
    config = find_algorithm(agent).config(lr=0.01, grad_norm=0.5, **settings)
    layout = linear_layout(spec, spec.action_units, 1)
    return make_learner(agent, config, spec, layout, compiled=compiled)


def rounds(learner: Learner, spec: EnvSpec) -> list[Trajectory]:
    """Return a round of the newest weights, and two that others acted in."""
    version = publish(learner).version
    return [rollout(spec, i)._replace(weights_version=version) for i in (1, 2, 3)]


def weights(learner: Learner) -> dict[str, Any]:
    return publish(learner).arrays


@pytest.mark.parametrize(
    ("agent", "spec"),
    [
        ("a2c", SPECS["frames"]),
        ("a3c", SPECS["continuous"]),
        ("impala", SPECS["discrete"]),
    ],
)
def test_replayed_trajectories_are_rounds_of_older_weights(
    agent: str, spec: EnvSpec
) -> None:
    """As A2C corrects these, one by one, after the round itself."""
    learner, plain = (make(agent, spec, **more) for more in (RATIO, {}))
    first, *old = rounds(learner, spec)
    metrics = learner.update(fresh(first, sampled=replayed(old)), 0)
    publish(plain)
    plain.update(fresh(first), 0)
    old_rounds = make("a2c", spec)
    old_rounds.state.restore(plain.state.arrays())
    for each in old:
        old_rounds.update(fresh(each._replace(weights_version=-1)), 0)
    assert metrics["updates"] == 3
    assert_close(weights(learner), weights(old_rounds), atol=1e-6)


@pytest.mark.parametrize(
    ("spec", "settings"),
    [(SPECS["continuous"], RATIO), (SPECS["frames"], {"replay_share": 0.6})],
)
def test_xla_computes_the_same(spec: EnvSpec, settings: Any) -> None:
    """Of three batches, which it fills up to four."""
    plain, compiled = (make("impala", spec, xla, **settings) for xla in (False, True))
    first, *old = rounds(plain, spec)
    publish(compiled)
    batch = fresh(first, sampled=replayed(old))
    expected = plain.update(batch, 0)
    assert compiled.update(batch, 0) == pytest.approx(expected, rel=1e-3, abs=1e-4)
    assert_close(weights(compiled), weights(plain), atol=1e-4)


@pytest.mark.parametrize("spec", [SPECS["continuous"], SPECS["frames"]])
def test_ppo_corrects_as_impala_does(spec: EnvSpec) -> None:
    """Where nothing is clipped yet, one update of PPO follows the same gradient."""
    same = {**RATIO, "n_steps": LENGTH, "entropy_coef": 0.1}
    once = {"ppo_epochs": 1, "mini_batches": 1, "clip_value": 0.0, "lam": 1.0}
    once |= {"normalize_advantages": False, "value_loss_coef": 1.0}
    impala = make("impala", spec, **same, value_loss_coef=0.5)
    first, *old = rounds(impala, spec)
    batch = fresh(first, sampled=replayed(old))
    impala.update(batch, 0)
    expected = weights(impala)
    for compiled in (False, True):
        ppo = make("ppo", spec, compiled, **same, **once)
        publish(ppo)
        assert ppo.update(batch, 0)["updates"] == 3
        assert_close(weights(ppo), expected, atol=1e-5)


def numbered(k: int, t: int, b: int) -> Trajectory:
    """Return K batches whose rewards say where they come from: 100 k + 10 t + b."""
    k_, t_, b_ = np.ogrid[:k, :t, :b]
    rewards = (100 * k_ + 10 * t_ + b_).astype(np.float32)
    ones = np.ones((k, t, b), bool)
    observations = np.repeat(rewards[..., None], 2, axis=-1)
    versions: Any = np.arange(k)
    return Trajectory(
        observations=observations,
        starts=ones,
        actions=rewards,
        rewards=rewards,
        terminated=~ones,
        truncated=~ones,
        valid=ones,
        log_probs=rewards,
        weights_version=versions,
    )


def constant(batches: Trajectory) -> Trajectory:
    """Return them as tensors."""
    return map_arrays(tf.constant, batches)


@pytest.mark.parametrize(
    ("part", "count", "columns"),
    [
        (0.5, 2, [0, 1, 100]),  # half as many replayed trajectories as fresh ones
        (1.0, 2, [0, 1, 100, 101]),
        (1.5, 3, [0, 1, 100, 101, 200]),
        (1.5, 1, [0, 1]),  # while the replay fills, and the others are copies
    ],
)
def test_a_share_is_side_by_side(part: float, count: int, columns: list[int]) -> None:
    batch = append_replayed(constant(numbered(4, 3, 2)), part, count, 2, 8)
    assert batch.weights_version.shape == (1,)
    valid = batch.valid.numpy()[0]
    assert valid.shape == batch.rewards.shape[1:] == (3, 2 * (1 + int(np.ceil(part))))
    rewards = batch.rewards.numpy()[0]
    for t in range(3):
        assert rewards[t][valid[t]].tolist() == [c + 10 * t for c in columns]
    np.testing.assert_array_equal(batch.observations[0, ..., 1], rewards)
    # Of a round that lacks some, with copies beside it.
    wide = widen_rounds(numbered(4, 3, 2), (1, 5))
    assert wide.rewards.shape == (4, 3, 5)
    batch = append_replayed(constant(wide), part, count, 2, 8)
    same = batch.rewards.numpy()[batch.valid.numpy()]
    assert same.tolist() == rewards[valid].tolist()


@pytest.mark.parametrize(("width", "part"), [(1, 0.25), (2, 0.25), (4, 0.111111)])
def test_a_share_of_less_than_one_is_that_of_many_updates(
    width: int, part: float
) -> None:
    """An environment's share of 0.2 is one replayed trajectory in every fourth."""
    batches = constant(numbered(2, 3, width))
    parts = (append_replayed(batches, part, 2, width, n) for n in range(100))
    replayed = [int(each.valid.numpy()[0, 0].sum()) - width for each in parts]
    assert set(replayed) == {0, 1}
    assert sum(replayed) == pytest.approx(100 * width * part, abs=1)


@pytest.mark.parametrize("part", [0.333333, 1.5])
def test_a_share_is_of_all_environments_in_turn(part: float) -> None:
    width, count = 8, 1 + int(np.ceil(part))
    batches = constant(numbered(count, 3, width))
    parts = (append_replayed(batches, part, count, width, n) for n in range(48))
    replayed = np.sum([each.valid.numpy()[0, 0] for each in parts], axis=0)[width:]
    assert replayed.sum() == pytest.approx(48 * width * part, abs=1)
    assert replayed.max() - replayed.min() <= 1


def test_a_share_is_one_update_of_all() -> None:
    """The same as one round of all environments."""
    spec = SPECS["discrete"]
    shared, plain = (
        make("impala", spec, **more) for more in ({"replay_share": 0.5}, {})
    )
    first, old, _ = rounds(shared, spec)
    publish(plain)
    metrics = shared.update(fresh(first, sampled=replayed([old])), 0)
    assert metrics == pytest.approx(plain.update(fresh(first, old), 0), rel=1e-5)
    assert_close(weights(shared), weights(plain), atol=1e-6)


def test_a_rollout_of_one_actor_replays_its_environments() -> None:
    """An update of its own takes its own trajectories of the whole replay's."""
    spec = SPECS["discrete"]
    t = rollout(spec)
    alone = map_arrays(lambda x: x[:, :1], t)._replace(first_env=2)
    held = replayed([rollout(spec, 2)])
    got = CORRECTED_BATCHES.of(Batch(alone, held))
    assert got.rewards.shape == (2, LENGTH, 1) and ENVS == 3
    np.testing.assert_array_equal(got.rewards[1], held.rewards[0][:, 2:])
    assert got.weights_version.tolist() == [t.weights_version, -1]


@pytest.mark.parametrize("agent", ["a2c", "impala", "ppo"])
def test_replayed_trajectories_may_be_alone(agent: str) -> None:
    """They are learned from as beside a round that has no valid steps."""
    spec = SPECS["discrete"]
    alone = make(agent, spec, **RATIO, n_steps=LENGTH, online_learning=False)
    beside = make(agent, spec, **RATIO, n_steps=LENGTH)
    first, *old = rounds(alone, spec)
    publish(beside)
    if agent == "ppo":  # each batch has its own shuffles, the empty round too
        alone.state.assign({f"{COUNT}phases": np.array(1, np.int64)})
    before = alone.policy_weights(alone.version).arrays
    metrics = alone.update(Batch(None, replayed(old)), 0)
    nothing = first._replace(valid=np.zeros_like(first.valid))
    beside.update(fresh(nothing, sampled=replayed(old)), 0)
    assert metrics["updates"] == 2 * (4 * 4 if agent == "ppo" else 1)
    after = weights(alone)
    assert_close(after, weights(beside), atol=1e-6)
    assert all(np.abs(after[name] - x).max() > 1e-4 for name, x in before.items())


@pytest.mark.parametrize("agent", ["a2c", "acer"])
def test_a_run_that_learns_from_its_replay_alone(agent: str) -> None:
    settings: dict[str, Any] = {"env": "CartPole-v1", "n_envs": 2, "n_steps": 5}
    settings |= {"replay_ratio": 3.0, "online_learning": False, "seed": 1}
    settings |= {"buffer_initial_size": 30, "local": True, "quiet": True, "jit": "off"}
    before = train(agent, **settings, max_steps=80, tensorboard=False)
    assert before.updates == 0  # there are about 16 trajectories
    later = train(agent, **settings, max_steps=400, tensorboard=False)
    rounds = (later.env_steps - 150) / 10
    assert 2 * rounds < later.updates < 4.5 * rounds


@pytest.mark.parametrize(
    ("agent", "env", "settings"),
    [
        pytest.param(
            "ppo", "Pendulum-v1", {**RATIO, "n_steps": 5}, marks=pytest.mark.slow
        ),
        (
            "impala",
            "several:binary",
            {"replay_share": 0.5, "n_steps": 5, "noisy": "factorised"},
        ),
    ],
)
def test_runs_resume(agent: str, env: str, settings: Any) -> None:
    """With the replay in the checkpoint, they continue as if they had not ended."""
    run = {"local": True, "quiet": True, "tensorboard": False, "jit": "off"}
    new = {"env": env, "n_envs": 2, "seed": 1, "buffer_initial_size": 10}
    new |= {**settings, "checkpoint_replay": True}
    whole = train(agent, **new, **run, max_steps=600, name="whole")
    part = train(agent, **new, **run, max_steps=300, name="part")
    rest = train(agent, resume=part.directory, max_steps=600, **run)
    assert (*part.episodes, *rest.episodes) == whole.episodes
    assert whole.updates == rest.updates
    if "replay_ratio" in settings:
        assert whole.updates > 1.5 * whole.env_steps / 10
