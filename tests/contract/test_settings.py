"""What settings that all algorithms share do to every one of them."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from learner_cases import (
    STEADY,
    Case,
    assert_equal,
    batch,
    cases,
    deterministic,
    slow_ones,
)
from learner_support import publish
from naive import assert_same

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.core.batches import Batch
from xagents_ray.core.moments import Statistics, moments_of
from xagents_ray.run.learner_access import make_learner
from xagents_ray.settings.config import Config

MEAN, DEVIATION, SCALE = 3.0, 5.0, 4.0
STATISTICS = {
    "observation": moments_of(
        np.repeat([[MEAN - DEVIATION], [MEAN + DEVIATION]], 4, 1)
    ),
    "return": moments_of(np.array([-SCALE, SCALE])),
}
# Each algorithm once, with the actions that it takes.
VECTORS = list({p.values[0].row.name: p for p in cases(["vector"])}.values())
# The learner does all this around its algorithm; there is one of each kind of data.
SOME = slow_ones(VECTORS, "(a2c|a3c|ddpg|impala|td3|trpo)-.*")


def run_of(case: Case, **settings: Any) -> RunSpec:
    """Return a run of a case with a --max-steps of 100."""
    config = Config.of(case.row.config, {"env": "E", "max_steps": 100, "jit": "off"})
    config = replace(config, algorithm=case.config(**settings))
    layouts = case.row.layouts(config.algorithm, case.spec)
    return RunSpec(case.row, config, case.spec, layouts, 0)


@pytest.mark.parametrize("case", SOME)
def test_a_normalising_learner_sees_normalised_batches(case: Case) -> None:
    """It learns from raw ones what a plain one learns from ones made by hand."""
    both = {"normalize_observations": True, "normalize_rewards": True}
    plain, normalising = case.learner(**STEADY), case.learner(**STEADY, **both)
    normalising.normalizer.take(STATISTICS)
    by_hand = batch(case, publish(plain), 2, 32)

    def raw(part: Any) -> Any:
        return part._replace(
            observations=(part.observations * DEVIATION + MEAN).astype(np.float32),
            rewards=part.rewards * np.float32(SCALE),
        )

    given = Batch(*(None if x is None else raw(x) for x in by_hand))
    with deterministic():
        before = publish(plain).arrays
        plain.update(by_hand, 0)
        normalising.update(given, 0)
    after = publish(plain).arrays
    other = publish(normalising).arrays
    assert other.keys() - after.keys() == {
        f"observation/{part}" for part in ("size", "mean", "variance")
    }
    for name, array in after.items():
        moved = np.abs(array - before[name]).max()
        tolerance = max(1e-6, 0.05 * float(moved))
        np.testing.assert_allclose(other[name], array, atol=tolerance, err_msg=name)
    np.testing.assert_allclose(other["observation/mean"], MEAN)


def learned(learner: Any, data: Any, before: Statistics, after: Statistics) -> Any:
    """Return the weights after a phase between two lots of statistics."""
    learner.normalizer.take(before)
    learner.update(data, 0)
    learner.normalizer.take(after)
    return publish(learner)


@pytest.mark.parametrize("case", SOME)
def test_each_phase_normalizes_with_the_statistics_of_its_own_data(case: Case) -> None:
    """But fresh rounds keep the observations' statistics that acted, if any did.

    All of it is in the state that a resumed run continues with.
    """
    run = run_of(case, normalize_observations=True, normalize_rewards=True)
    (learner, notes), (by_hand, _) = make_learner(run), make_learner(run)
    assert notes == []
    first = batch(case, publish(learner), 1, 8)
    publish(by_hand)
    with deterministic():
        weights = learner.learn(first, 10, STATISTICS, 2).weights
        expected = learned(by_hand, first, STATISTICS, {})
    assert_equal(weights, expected)
    np.testing.assert_allclose(weights.arrays["observation/mean"], MEAN)

    resumed, _ = make_learner(run)
    resumed.state.restore(learner.state.arrays())
    data = batch(case, weights, 1, 8, seed=1)
    observations = {"observation": moments_of(np.full((9, 4), 50.0))}
    rewards = {"return": moments_of(np.array([-90.0, 90.0]))}
    more = {**observations, **rewards}
    before, after = (rewards, observations) if case.row.on_policy else (more, {})
    with deterministic():
        one = learner.learn(data, 20, more, 3).weights
        two = resumed.learn(data, 20, more, 3).weights
        expected = learned(by_hand, data, before, after)
    assert_equal(one, expected)
    assert_equal(two, expected)
    assert_same(learner.state.arrays(), resumed.state.arrays())


@pytest.mark.parametrize("case", SOME)
def test_learning_rates_fall_to_zero_over_the_run(case: Case) -> None:
    """A phase whose first step is the last of --max-steps changes nothing."""
    run = run_of(case, lr_decay=True, max_kl=1e-9)
    learner, _ = make_learner(run)
    setup, rates = learner.setup, []
    optimized = {key.removesuffix("-optimizer") for key in setup.optimizers}
    if optimized == {"optimizer"}:  # of the one network that isn't a target
        targets = [target for target, _ in setup.targets]
        optimized = {k for k, model in setup.models.items() if model not in targets}
    for steps in (50, 100, 150):
        before = learner.state.arrays()
        data = batch(case, publish(learner), 1, 8)
        learner.learn(data, steps, {}, learner.version + 1)
        after = learner.state.arrays()
        rates += [after[n] for n in after if n.endswith("optimizer/1")][:1]
        moves = any(
            not np.array_equal(before[name], after[name])
            for name in before
            if name.endswith("kernel") and name.partition("/")[0] in optimized
        )
        assert moves == (steps < 150)
    np.testing.assert_allclose(rates, [3e-3, 1.5e-3, 0])
    # A plateau's reduction stays, whatever the decay does.
    assert learner.state.scale_lr(0.5) == 0
    learner.state.decay_lr(0.5)
    assert learner.state.scale_lr(1.0) == pytest.approx(0.75e-3)
