"""What every row of the table of algorithms must do with its batches."""

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from learner_support import fresh, make_learner, publish, replayed, sampled
from tensorflow.python.framework.config import disable_op_determinism

from xagents_ray.algorithms.row import Algorithm
from xagents_ray.algorithms.table import ALGORITHMS
from xagents_ray.core.batch import Batch
from xagents_ray.core.errors import UserError
from xagents_ray.core.resolve import resolve
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import (
    Trajectory,
    Transitions,
    Weights,
    stack_frames,
)

OBSERVATIONS = {
    "vector": ((4,), "float32", 1),
    "ram": ((8,), "uint8", 1),
    "grey": ((36, 36), "uint8", 3),
    "rgb": ((36, 40, 3), "uint8", 2),
}
ACTIONS: dict[str, dict[str, Any]] = {
    "discrete": {"n_actions": 3},
    "continuous": {
        "n_actions": 0,
        "action_low": (-1.0, -1.0),
        "action_high": (1.0, 1.0),
    },
}
# Constant rates, few passes, and clipping that lets a fixed batch be learnt.
SETTINGS = {
    "lr": 3e-3,
    "gamma": 0.9,
    "ppo_epochs": 2,
    "mini_batches": 3,
    "clip_norm": 10.0,
    "entropy_coef": 0.0,
    "epsilon_end": 0.0,
    "target_sync_steps": 1,
    "max_kl": 0.02,
}


@contextlib.contextmanager
def deterministic() -> Iterator[None]:
    """TensorFlow as `--seed` sets it up; other tests want it as it was."""
    tf.config.experimental.enable_op_determinism()
    try:
        yield
    finally:
        disable_op_determinism()


class Case(NamedTuple):
    row: Algorithm
    spec: EnvSpec

    def config(self, **settings: Any) -> Any:
        names = self.row.config.__dataclass_fields__
        values = {**SETTINGS, **settings}
        return self.row.config(**{k: v for k, v in values.items() if k in names})

    def learner(self, seed: int = 0, **settings: Any) -> Any:
        config = self.config(**settings)
        return make_learner(self.row.name, config, self.spec, seed=seed)

    def policy(self, weights: Weights) -> Any:
        layout = self.row.layout(None, self.spec)
        policy = resolve(self.row.policy)(self.config(), self.spec, layout)
        policy.load(weights)
        return policy


def cases(names: Any, on_policy: Any = (False, True), actions: Any = ACTIONS) -> Any:
    """Return a pytest parameter for every row of the table that takes these."""
    made = []
    for row in ALGORITHMS.values():
        kinds = {"discrete": row.discrete, "continuous": row.continuous}
        for kind in actions:
            for name in names:
                shape, dtype, stack = OBSERVATIONS[name]
                takes = len(shape) == 1 or not any(m.reads_actions for m in row.models)
                if takes and kinds[kind] and row.on_policy in on_policy:
                    spec = EnvSpec(shape, dtype, stack, **ACTIONS[kind])
                    label = f"{row.name}-{kind}-{name}"
                    made.append(pytest.param(Case(row, spec), id=label))
    return made


def random_observations(spec: EnvSpec, rng: Any, *shape: int) -> Any:
    """Return noise; frames are bright or dark besides, so that they can be told."""
    full = (*shape, *spec.observation_shape)
    if spec.is_image:
        level = rng.choice([50, 200], (*shape, *[1] * len(spec.observation_shape)))
        return (level + rng.integers(-50, 50, full)).astype(np.uint8)
    if spec.observation_dtype == "uint8":
        return rng.integers(0, 256, full, np.uint8)
    return rng.normal(size=full).astype(np.float32)


def best_actions(spec: EnvSpec, observations: Any) -> Any:
    """Return the actions that are rewarded, from the newest frame's first number."""
    flat = observations.reshape(*observations.shape[: -len(spec.observation_shape)], -1)
    high = flat[..., 0] > (127 if spec.observation_dtype == "uint8" else 0)
    if spec.is_discrete:
        return np.where(high, 2, 0).astype(np.int32)
    return np.stack([np.where(high, 0.8, -0.8)] * 2, axis=-1).astype(np.float32)


def rewards_of(spec: EnvSpec, observations: Any, actions: Any) -> Any:
    best = best_actions(spec, observations)
    if spec.is_discrete:
        return (actions == best).astype(np.float32)
    return -np.abs(actions - best).mean(-1).astype(np.float32)


def trajectory(case: Case, weights: Weights, length: int, envs: int, seed: int) -> Any:
    """Return a rollout of the case's policy; every step terminates, as lives do."""
    spec, rng = case.spec, np.random.default_rng(seed)
    observations = random_observations(spec, rng, length + spec.stack, envs)
    starts = rng.random((length + spec.stack, envs)) < 0.2
    policy = case.policy(weights)
    noise = policy.noise(
        [np.random.default_rng([seed, i]) for i in range(envs)], length
    )

    def seen(t: int) -> Any:
        if not spec.is_image:
            return observations[t]
        return stack_frames(
            observations[t : t + spec.stack], starts[t : t + spec.stack]
        )

    chosen = [policy.act(seen(t), noise[t], 0) for t in range(length)]
    actions = np.stack([c.stored for c in chosen])
    shape = (length, envs)
    newest = observations[spec.stack - 1 : -1]
    log_probs = values = probabilities = None
    if chosen[0].probabilities is not None:
        probabilities = np.stack([c.probabilities for c in chosen])
    if chosen[0].log_probs is not None:
        log_probs = np.stack([c.log_probs for c in chosen])
    if chosen[0].values is not None:
        values = np.stack([*(c.values for c in chosen), policy.values(seen(length))])
    return Trajectory(
        observations,
        starts,
        actions,
        rewards_of(spec, newest, actions),
        np.ones(shape, bool),
        np.zeros(shape, bool),
        np.ones(shape, bool),
        log_probs,
        values,
        weights.version,
        0,
        probabilities,
    )


def batch(
    case: Case, weights: Weights, k: int = 4, n: int = 32, seed: int = 0
) -> Batch:
    """Return k batches of n transitions, or k trajectories of n / 4 steps.

    Where rounds are learnt from and replayed, the last k - 1 are replayed.
    """
    spec, rng = case.spec, np.random.default_rng(seed)
    if case.row.on_policy:
        rolled = [trajectory(case, weights, n // 4, 3, seed * k + i) for i in range(k)]
        if case.row.replay is None or k == 1:
            return fresh(*rolled)
        return fresh(rolled[0], sampled=replayed(rolled[1:]))
    observations = random_observations(spec, rng, k, n, spec.stack + 1)
    starts = rng.random((k, n, spec.stack + 1)) < 0.2
    starts[..., -1] = False
    if spec.is_discrete:
        actions = rng.integers(0, spec.n_actions, (k, n), np.int32)
    else:
        actions = rng.normal(size=(k, n, spec.action_units)).astype(np.float32)
    rewards = rewards_of(spec, observations[:, :, -2], actions)
    ends = np.ones((k, n), bool)
    return sampled(Transitions(observations, starts, actions, rewards, ends))


def assert_equal(one: Weights, other: Weights) -> None:
    assert one.arrays.keys() == other.arrays.keys()
    for name, array in one.arrays.items():
        np.testing.assert_array_equal(array, other.arrays[name])


def differ(one: Weights, other: Weights) -> bool:
    return any(
        not np.array_equal(array, other.arrays[name])
        for name, array in one.arrays.items()
        if name.endswith("kernel")
    )


def assert_finite(metrics: dict[str, float], weights: Weights) -> None:
    assert all(np.isfinite(value) for value in metrics.values()), metrics
    assert all(np.isfinite(array).all() for array in weights.arrays.values())


def score(case: Case, weights: Weights) -> float:
    """Return the mean reward of the policy on the batch's kind of observations."""
    rolled = trajectory(case, weights, 32, 8, 99)
    observations = rolled.observations[case.spec.stack - 1 : -1]
    policy = case.policy(weights)
    noise = policy.noise([np.random.default_rng(i) for i in range(8)], 32)
    reward = []
    for t in range(32):
        seen = rolled.observations[t]
        if case.spec.is_image:
            window = slice(t, t + case.spec.stack)
            seen = stack_frames(rolled.observations[window], rolled.starts[window])
        actions = policy.act(seen, noise[t], 10**9).stored
        reward.append(rewards_of(case.spec, observations[t], actions))
    return float(np.mean(reward))


class Life(NamedTuple):
    """What a learner did with a fixed batch, then with others, then when stopped."""

    case: Case
    learner: Any
    metrics: list[dict[str, float]]
    weights: list[Weights]
    learnt: Weights
    stopped: dict[str, float]
    after_stop: Weights


PHASES, UPDATES, KEPT = 20, 50, 3
SIZES = ((1, 8), (2, 32), (5, 12))


LIVES = [
    *cases(["vector", "rgb"], actions=["discrete"]),
    *cases(["vector", "grey"], actions=["continuous"]),
    # Numbers of type uint8 go another way for each kind of replay.
    *{
        case.values[0].row.replay: case for case in cases(["ram"], actions=["discrete"])
    }.values(),
]


def learns_fresh(row: Algorithm) -> bool:
    """Return whether fixed rounds would take a policy too far from the one that acted.

    Only a replay or a clipped ratio prevents that.
    """
    return row.replay is None and "clip_norm" not in row.config.__dataclass_fields__


def seeded(case: Case) -> Any:
    """Return the learner of a life."""
    gently = learns_fresh(case.row) and case.spec.is_image
    return case.learner(seed=3, **({"lr": 1e-3} if gently else {}))


def next_batch(case: Case, learner: Any, fixed: Any, step: int) -> Any:
    """Return what a life's learner learns from at a step."""
    if learns_fresh(case.row):
        return batch(case, publish(learner), seed=step)
    return fixed


@pytest.fixture(scope="module", params=LIVES)
def life(request: Any) -> Life:
    """Tracing takes a second, so all that one learner can show is asked of one."""
    with deterministic():
        case: Case = request.param
        learner = seeded(case)
        weights = [publish(learner)]
        fixed, metrics = batch(case, weights[0]), list[dict[str, float]]()
        fewest = 0 if case.spec.is_image else UPDATES
        while len(metrics) < PHASES or sum(m["updates"] for m in metrics) < fewest:
            step = len(metrics)
            fixed = next_batch(case, learner, fixed, step)
            metrics.append(learner.update(fixed, step))
            if step < KEPT:
                weights.append(publish(learner))
        learnt = publish(learner)
        for k, n in SIZES:
            learner.update(batch(case, publish(learner), k, n), 100)
        learner.update(batch(case, weights[0]), 100)  # which are older than others
        weights.append(publish(learner))
        learner.stop()
        stopped = learner.update(fixed, 200)
        after = publish(learner)
        return Life(case, learner, metrics, weights, learnt, stopped, after)


def test_a_fixed_batch_is_learnt(life: Life) -> None:
    """The loss falls, and every metric is a number."""
    row, metrics = life.case.row, life.metrics
    passes = row.replay is not None or "mini_batches" in row.config.__dataclass_fields__
    for each in metrics:
        assert_finite(each, life.learnt)
        assert each["updates"] >= (4 if passes else 1)
    losses = [m[name] for m in metrics for name in ("loss", "value_loss") if name in m]
    has_critic = any("value" in model.heads for model in row.models)
    assert len(losses) == len(metrics) or not (has_critic or row.replay)
    assert not losses or np.mean(losses[-3:]) < 0.9 * losses[0]


def test_rewarded_actions_become_more_frequent(life: Life) -> None:
    """On other observations of the same kind."""
    best = 1.0 if life.case.spec.is_discrete else 0.0
    before, after = (score(life.case, w) for w in (life.weights[0], life.learnt))
    assert best - after < 0.9 * (best - before)


def test_batches_of_all_sizes_and_lags_take_one_trace(life: Life) -> None:
    assert life.learner._phase.experimental_get_tracing_count() == 1


def test_versions_only_grow(life: Life) -> None:
    versions = [w.version for w in (*life.weights, life.after_stop)]
    assert versions == sorted(set(versions))


def test_every_update_changes_the_weights(life: Life) -> None:
    """And leaves those given out before as they were."""
    for one, other in itertools.pairwise(life.weights):
        assert differ(one, other)
    for weights in life.weights:
        assert all(array.dtype == np.float32 for array in weights.arrays.values())


def test_stop_ends_an_update(life: Life) -> None:
    assert life.stopped["updates"] == 0
    assert_finite(life.stopped, life.after_stop)
    assert_equal(life.weights[-1], life.after_stop)


def test_weights_act(life: Life) -> None:
    """What is published has the names and shapes that the acting policy needs."""
    rolled = trajectory(life.case, life.learnt, 2, 3, 0)
    assert rolled.actions.shape[:2] == (2, 3)


def test_the_seed_decides_the_weights(life: Life) -> None:
    """Batches as Ray's object store gives them: read-only."""
    case, first = life.case, life.weights[0]
    with deterministic():
        assert differ(first, publish(case.learner(seed=4)))
        same = seeded(case)
        assert_equal(first, publish(same))
        fixed = batch(case, first)
        for step in range(KEPT):
            fixed = next_batch(case, same, fixed, step)
            freeze(fixed)
            same.update(fixed, step)
        assert_equal(life.weights[KEPT], publish(same))


def freeze(fixed: Batch) -> None:
    for part in fixed:
        for array in part or ():
            if isinstance(array, np.ndarray):
                array.flags.writeable = False


@pytest.mark.parametrize("kind", list(ACTIONS))
@pytest.mark.parametrize("row", ALGORITHMS.values(), ids=list(ALGORITHMS))
def test_wrong_action_spaces_are_refused(row: Algorithm, kind: str) -> None:
    spec = EnvSpec((4,), "float32", 1, **ACTIONS[kind])
    if row.discrete if kind == "discrete" else row.continuous:
        row.check_spaces(spec)
        return
    with pytest.raises(UserError) as error:
        row.check_spaces(spec)
    message = str(error.value)
    assert message.startswith(f"{row.name} can't take the {kind} actions")
    assert "; use " in message and message.count(".") == 1 and message[-1] == "."


# On-policy learners: rows that only reset weigh nothing.


def with_resets(case: Case, weights: Weights, length: int) -> Trajectory:
    """Return a rollout in which episodes end and the next row only resets."""
    rolled = trajectory(case, weights, length, 3, 5)
    terminated, truncated, valid, starts = (
        x.copy()
        for x in (rolled.terminated, rolled.truncated, rolled.valid, rolled.starts)
    )
    terminated[:], starts[:] = False, False
    valid[0, 1] = False  # the episode before ended with the rollout before
    starts[case.spec.stack, 1] = True
    for env, t, flags in ((0, 2, terminated), (1, 3, truncated), (2, 4, terminated)):
        flags[t, env] = True
        valid[t + 1, env] = False
        starts[t + 1 + case.spec.stack, env] = True
    return rolled._replace(
        terminated=terminated, truncated=truncated, valid=valid, starts=starts
    )


@pytest.mark.parametrize("lag", [0, 1])
@pytest.mark.parametrize(
    "case", cases(["vector", "grey"], on_policy=[True], actions=["discrete"])
)
def test_rows_that_only_reset_weigh_nothing(case: Case, lag: int) -> None:
    weights = publish(case.learner())
    rolled = with_resets(case, weights, 9)
    invalid = ~rolled.valid
    observations, actions, rewards, log_probs, values, probabilities = (
        None if x is None else x.copy()
        for x in (
            rolled.observations,
            rolled.actions,
            rolled.rewards,
            rolled.log_probs,
            rolled.values,
            rolled.probabilities,
        )
    )
    rest = np.zeros_like(invalid)  # a truncated step needs the next row's value
    rest[1:] = rolled.truncated[:-1]
    newest = observations[case.spec.stack - 1 : -1]
    newest[invalid & ~rest] = np.flip(newest, axis=0)[invalid & ~rest]
    actions[invalid] = best_actions(case.spec, newest)[invalid]
    rewards[invalid] = 100
    if log_probs is not None:
        log_probs[invalid] = -7
    if probabilities is not None:
        probabilities[invalid] = (0, 0.9, 0.1)
    if values is not None:
        values[:-1][invalid & ~rest] = 50
    changed = rolled._replace(
        observations=observations,
        actions=actions,
        rewards=rewards,
        log_probs=log_probs,
        values=values,
        probabilities=probabilities,
    )
    pairs = [(case.learner(), each) for each in (rolled, changed)]
    for learner, each in pairs:
        while publish(learner).version < each.weights_version + lag:
            pass
    with deterministic():
        learnt = [learn(*pair) for pair in pairs]
    assert_equal(*learnt)
    # The same contents in rows that count are two lessons.
    every = np.ones_like(invalid)
    learnt = [learn(learner, each._replace(valid=every)) for learner, each in pairs]
    assert differ(*learnt)


def learn(learner: Any, rolled: Trajectory) -> Weights:
    learner.update(fresh(rolled), 0)
    return publish(learner)


@pytest.mark.parametrize("case", cases(["vector"], on_policy=[True]))
def test_rounds_with_few_valid_rows(case: Case) -> None:
    """Fewer than minibatches, none at all: the weights stay numbers."""
    learner = case.learner()
    rolled = trajectory(case, publish(learner), 2, 2, 0)
    before = Weights(0, learner.state.arrays())  # of critics too
    for held in (2, 1, 0):
        valid = np.zeros((2, 2), bool)
        valid.flat[:held] = True
        metrics = learner.update(fresh(rolled._replace(valid=valid)), 0)
        after = Weights(0, learner.state.arrays())
        assert_finite(metrics, after)
        assert differ(before, after) == (held > 0)
        before = after


@pytest.mark.parametrize(
    "case", cases(["vector"], on_policy=[True], actions=["discrete"])
)
def test_trajectories_are_merged_by_environment(case: Case) -> None:
    """Two actors' trajectories are one actor's with all environments."""
    weights = publish(case.learner())
    rolled = trajectory(case, weights, 8, 3, 1)
    parts = []
    for cut in (slice(0, 2), slice(2, 3)):
        whole = rolled._asdict().items()
        own = {n: a[:, cut] for n, a in whole if isinstance(a, np.ndarray)}
        parts.append(rolled._replace(**own, first_env=cut.start))
    learnt = []
    for each in ([rolled], parts):
        with deterministic():
            learner = case.learner()
            learner.update(fresh(*each), 0)
            learnt.append(publish(learner))
    assert_equal(*learnt)
