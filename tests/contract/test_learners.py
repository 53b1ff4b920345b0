"""What every row of the table of algorithms must do with its batches."""

import itertools
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from learner_cases import (
    ACTIONS,
    STEADY,
    Case,
    assert_equal,
    assert_finite,
    batch,
    best_actions,
    cases,
    deterministic,
    differ,
    score,
    slow_ones,
    trajectory,
)
from learner_support import fresh, publish

from xagents_ray.algorithms.definition import Algorithm
from xagents_ray.algorithms.table import all_algorithms, find_algorithm
from xagents_ray.core.batches import Batch
from xagents_ray.core.errors import UserError
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Trajectory, Weights, map_arrays
from xagents_ray.learners.padding import pad_batches


class Life(NamedTuple):
    """What a learner did with a fixed batch, then with others, then when stopped."""

    case: Case
    learner: Any
    metrics: list[dict[str, float]]
    weights: list[Weights]
    learned: Weights
    stopped: dict[str, float]
    after_stop: Weights


def replay_of(row: Algorithm) -> Any:
    """Return the class of the replay that it learns from by default."""
    return row.replay if row.config().replay else None


PHASES, UPDATES, KEPT = 20, 50, 3
SIZES = ((1, 8), (2, 32), (5, 12))
RAM = cases(["ram"], actions=["discrete"])
RAINBOW = Case(
    find_algorithm("dqn"),
    EnvSpec((4,), "float32", 1, 3),
    {
        "double": True,
        "dueling": True,
        "noisy": "factorised",
        "distributional": True,
        "atoms": 11,
        "v_min": -1.0,
        "v_max": 2.0,
    },
)
NOISY = [
    pytest.param(
        Case(find_algorithm(agent), EnvSpec((4,), "float32", 1, 3), {"noisy": noise}),
        id=f"{agent}-discrete-vector-noisy",
    )
    for agent, noise in (("acer", "factorised"), ("trpo", "independent"))
]
STATE_DEPENDENT = pytest.param(
    Case(
        find_algorithm("ppo"),
        EnvSpec((4,), "float32", 1, **ACTIONS["continuous"]),
        {"sde_frequency": 4, "init_log_std": -2.0},
    ),
    id="ppo-continuous-vector-sde",
)
# A3C has the losses of A2C; DQN and PPO learn from images, as all others do.
LIVES = [
    *slow_ones(cases(["vector", "rgb"], actions=["discrete"]), "a3c-.*|(?!dqn).*-rgb"),
    *slow_ones(
        cases(["vector", "grey"], actions=["continuous"]), "a3c-.*|(?!ppo).*-grey"
    ),
    pytest.param(RAINBOW, id="dqn-discrete-vector-rainbow"),
    *slow_ones(NOISY, "trpo-.*"),
    STATE_DEPENDENT,
    # Numbers of type uint8 go another way for each kind of replay.
    *{replay_of(case.values[0].row): case for case in reversed(RAM)}.values(),
]


def learns_fresh(row: Algorithm) -> bool:
    """Return whether fixed rounds would take a policy too far from the one that acted.

    Only a replay or a clipped ratio prevents that.
    """
    return replay_of(row) is None and "clip_norm" not in row.config.__dataclass_fields__


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
        learned = publish(learner)
        for k, n in SIZES:
            learner.update(batch(case, publish(learner), k, n), 100)
        learner.update(batch(case, weights[0]), 100)  # which are older than others
        weights.append(publish(learner))
        learner.stop()
        stopped = learner.update(fixed, 200)
        after = publish(learner)
        return Life(case, learner, metrics, weights, learned, stopped, after)


def test_a_fixed_batch_is_learned(life: Life) -> None:
    """The loss falls, and every metric is a number."""
    row, metrics = life.case.row, life.metrics
    passes = (
        replay_of(row) is not None or "mini_batches" in row.config.__dataclass_fields__
    )
    for each in metrics:
        assert_finite(each, life.learned)
        assert each["updates"] >= (4 if passes else 1)
    found = [m.get("value_loss", m.get("loss")) for m in metrics]
    losses = [loss for loss in found if loss is not None]
    has_critic = any("value" in model.heads for model in row.models)
    assert len(losses) == len(metrics) or not (has_critic or replay_of(row))
    assert not losses or np.mean(losses[-3:]) < 0.9 * losses[0]


def test_rewarded_actions_become_more_frequent(life: Life) -> None:
    """On other observations of the same kind."""
    best = 1.0 if life.case.spec.is_discrete else 0.0
    before, after = (score(life.case, w) for w in (life.weights[0], life.learned))
    assert best - after < 0.9 * (best - before)


def test_batches_of_all_sizes_and_lags_take_one_trace(life: Life) -> None:
    assert life.learner._phase.experimental_get_tracing_count() == 1


@pytest.mark.parametrize(
    "case",
    [
        *slow_ones(
            [
                *cases(["vector"]),
                pytest.param(RAINBOW, id="dqn-discrete-rainbow"),
                *NOISY,
            ],
            ".*",
        ),
        STATE_DEPENDENT,
    ],
)
def test_xla_computes_the_same(case: Case) -> None:
    """Of three batches, which it fills up to four; from the same random numbers."""
    plain, compiled = (case.learner(3, xla, **STEADY) for xla in (False, True))
    given = batch(case, publish(plain), k=3)
    publish(compiled)
    expected = plain.update(given, 100)
    assert compiled.update(given, 100) == pytest.approx(expected, rel=1e-3, abs=1e-4)
    weights, others = publish(plain).arrays, publish(compiled).arrays
    for name, array in weights.items():
        np.testing.assert_allclose(others[name], array, atol=1e-3, err_msg=name)
    assert replay_of(case.row) is None or _program(compiled, given, 2) == _program(
        compiled, given, 3
    )


def _program(learner: Any, given: Batch, batches: int) -> str:
    """Return what XLA would compile for so many batches."""
    reader = learner.algorithm.data
    data = pad_batches(reader.of(given))
    tensors = reader.tensors(data)
    facts = tf.constant([100, 1, batches, data.rewards.shape[-1], 0], tf.int64)
    text: str = learner._phase.experimental_get_compiler_ir(tensors, facts)("hlo")
    return text


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
    assert life.stopped == {"updates": 0}
    assert_finite(life.stopped, life.after_stop)
    assert_equal(life.weights[-1], life.after_stop)


def test_weights_act(life: Life) -> None:
    """What is published has the names and shapes that the acting policy needs."""
    rolled = trajectory(life.case, life.learned, 2, 3, 0)
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
@pytest.mark.parametrize("row", all_algorithms().values(), ids=list(all_algorithms()))
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


def copied(t: Trajectory) -> Trajectory:
    """Return a rollout with arrays of its own."""
    return map_arrays(np.copy, t)


def with_resets(case: Case, weights: Weights, length: int) -> Trajectory:
    """Return a rollout in which episodes end and the next row only resets."""
    rolled = copied(trajectory(case, weights, length, 3, 5))
    rolled.terminated[:], rolled.starts[:] = False, False
    rolled.valid[0, 1] = False  # the episode before ended with the rollout before
    rolled.starts[case.spec.stack, 1] = True
    for kind, env, t in (
        ("terminated", 0, 2),
        ("truncated", 1, 3),
        ("terminated", 2, 4),
    ):
        getattr(rolled, kind)[t, env] = True
        rolled.valid[t + 1, env] = False
        rolled.starts[t + 1 + case.spec.stack, env] = True
    return rolled


@pytest.mark.parametrize(
    "case",
    slow_ones(
        cases(["vector", "grey"], on_policy=[True], actions=["discrete"]),
        "a3c-.*|(a2c|impala|trpo)-.*-grey",
    ),
)
def test_rows_that_only_reset_weigh_nothing(case: Case) -> None:
    """With the newest weights, and with older ones."""
    learner = case.learner()
    start = learner.state.arrays()
    weights = publish(learner)
    rolled = with_resets(case, weights, 9)
    changed, invalid = copied(rolled), ~rolled.valid
    rest = np.zeros_like(invalid)  # a truncated step needs the next row's value
    rest[1:] = rolled.truncated[:-1]
    newest = changed.observations[case.spec.stack - 1 : -1]
    newest[invalid & ~rest] = np.flip(newest, axis=0)[invalid & ~rest]
    changed.actions[invalid] = best_actions(case.spec, newest)[invalid]
    changed.rewards[invalid] = 100
    if changed.log_probs is not None:
        changed.log_probs[invalid] = -7
    if changed.probabilities is not None:
        changed.probabilities[invalid] = (0, 0.9, 0.1)
    if changed.values is not None:
        changed.values[:-1][invalid & ~rest] = 50

    def learned(lag: int, each: Trajectory) -> Weights:
        learner.state.restore(start)
        while publish(learner).version < each.weights_version + lag:
            pass
        return learn(learner, each)

    # The same contents in rows that count are two lessons.
    every = np.ones_like(invalid)
    for lag in (0, 1):
        with deterministic():
            assert_equal(learned(lag, rolled), learned(lag, changed))
        lessons = (each._replace(valid=every) for each in (rolled, changed))
        assert differ(*(learned(lag, each) for each in lessons))


def learn(learner: Any, rolled: Trajectory) -> Weights:
    learner.update(fresh(rolled), 0)
    return publish(learner)


@pytest.mark.parametrize(
    "case",
    slow_ones(cases(["vector"], on_policy=[True]), "a3c-.*|.*-continuous-.*"),
)
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
    learned = []
    with deterministic():
        learner = case.learner()
        start = learner.state.arrays()
        for each in ([rolled], parts):
            learner.state.restore(start)
            learner.update(fresh(*each), 0)
            learned.append(publish(learner))
    assert_equal(*learned)
