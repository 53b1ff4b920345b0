"""Rounds that lack late or lost env actors take few shapes."""

from typing import Any

import numpy as np
import pytest
from learner_cases import Case, trajectory
from learner_support import assert_close, fresh, make_learner, publish
from linear import ENVS, SPECS, rollout

from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.spec import EnvSpec
from xagents_ray.learners.padding import round_widths, widen_rounds
from xagents_ray.learners.tensors import ROLLOUT


def test_widths_are_few() -> None:
    assert round_widths(16, has_replay=False) == (1, 4, 16, 32)
    assert round_widths(50, has_replay=False) == (4, 13, 50, 100)
    assert round_widths(16, has_replay=True) == (16, 32)


def test_a_whole_round_stays_as_it_is() -> None:
    made = ROLLOUT.of(fresh(rollout(SPECS["frames"])))
    for sizes in ((1, ENVS, 2 * ENVS), (1, 2), ()):
        assert widen_rounds(made, sizes) is made


def test_the_others_are_copies_that_do_not_count() -> None:
    made = ROLLOUT.of(fresh(rollout(SPECS["frames"])))
    wide = widen_rounds(made, (2, 8, 16))
    assert wide.weights_version == made.weights_version
    for name in set(ROLLOUT.fields) - {"weights_version"}:
        array, own = getattr(wide, name), getattr(made, name)
        assert array.shape == (len(own), 8, *own.shape[2:]) and array.dtype == own.dtype
        if own is not made.valid:
            np.testing.assert_array_equal(array, np.concatenate([own] * 3, 1)[:, :8])
    np.testing.assert_array_equal(wide.valid[:, :ENVS], made.valid)
    assert made.valid.any() and not wide.valid[:, ENVS:].any()


@pytest.mark.parametrize(("agent", "tolerance"), [("ppo", 1e-4), ("trpo", 5e-3)])
def test_it_learns_what_it_learns_without_them(agent: str, tolerance: float) -> None:
    """From all rows at once: minibatches and curvature would be those of others.

    TRPO's conjugate gradients amplify rounding: the same rows in another order give
    weights that differ by 1e-3, in a step of 0.6.
    """
    case = Case(find_algorithm(agent), EnvSpec((4,), "float32", 1, 3))
    learner = case.learner(mini_batches=1, fvp_n_steps=1)
    given = fresh(trajectory(case, publish(learner), 8, 3, 1))
    before, learned = learner.state.arrays(), []
    for sizes in ((), (7,)):
        learner.state.restore(before)
        learner._widths = sizes
        learned.append((learner.update(given, 0), learner.state.arrays()))
    (metrics, arrays), (others, wide) = learned
    assert others == pytest.approx(metrics, rel=tolerance, abs=1e-5)
    assert_close(wide, arrays, atol=tolerance)


def test_a_run_compiles_four_programs_at_most() -> None:
    spec = SPECS["discrete"]
    config = find_algorithm("a2c").config()
    learner = make_learner("a2c", config, spec, compiled=True, n_envs=16)
    phase, shapes = learner.traced, set()

    def noted(*tensors: Any) -> Any:
        shapes.add(tuple(tuple(x.shape) for x in tensors))
        return phase(*tensors)

    learner.__dict__["traced"] = noted
    whole = [rollout(spec, seed) for seed in range(6)]
    for width in range(1, 19):
        columns = np.arange(width)
        t = fresh(*whole).fresh
        assert t is not None
        arrays = t._asdict().items()
        own = {k: x[:, columns] for k, x in arrays if isinstance(x, np.ndarray)}
        assert learner.update(fresh(t._replace(**own)), 0)["updates"] == 1
    assert len(shapes) == 4
    assert learner._phase.experimental_get_tracing_count() == 1
