"""What DDPG, TD3 and SAC share, against hand-worked tables and slow loops."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from actor_and_critics_by_hand import (
    AGENTS,
    GAMMA,
    SPEC,
    assert_close,
    batch,
    config_of,
    cut,
    make,
    networks_of,
    scatter,
)
from learner_cases import deterministic
from learner_support import sampled
from naive import assert_same, random_arrays

from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.errors import UserError
from xagents_ray.learners.actor_and_critics import action_values, smooth_target_actions
from xagents_ray.learners.math import losses
from xagents_ray.learners.optimizer import update_targets


def test_squared_by_hand() -> None:
    assert float(losses.squared(tf.constant([1.0, -2.0, 3.0, 0.0]))) == 3.5


def test_polyak_by_hand() -> None:
    online = [tf.Variable([1.0, 2.0]), tf.Variable([[8.0]])]
    target = [tf.Variable([3.0, 2.0]), tf.Variable([[0.0]])]
    pairs = [(SimpleNamespace(weights=target), SimpleNamespace(weights=online))]
    expected = [[2.5, 2.0], [[2.0]]], [[2.125, 2.0], [[3.5]]]
    for each in expected:
        update_targets(pairs, 0.25)
        for variable, numbers in zip(target, each, strict=True):
            np.testing.assert_array_equal(variable, numbers)
    update_targets(pairs, 1.0)
    np.testing.assert_array_equal(target[0], [1.0, 2.0])
    np.testing.assert_array_equal(online[1], [[8.0]])


def test_smooth_target_actions_by_hand() -> None:
    # action, standard normal, scale 0.5, clip 0.75
    table = [
        (0.0, 1.0, 0.5),
        (0.0, 2.0, 0.75),  # the noise is clipped
        (0.0, -9.0, -0.75),
        (0.5, 1.5, 1.0),  # the action is
        (-1.0, -0.1, -1.0),
        (1.0, -0.5, 0.75),
    ]
    actions, normal, expected = np.array(table, np.float32).T.reshape(3, 3, 2)
    got = smooth_target_actions(tf.constant(actions), tf.constant(normal), 0.5, 0.75)
    np.testing.assert_allclose(got, expected)


def test_action_values_read_the_action_last() -> None:
    def critic(x: Any) -> Any:
        return tf.reduce_sum(x * [1.0, 10.0, 100.0], axis=-1, keepdims=True)

    got = action_values(
        critic, tf.constant([[1.0, 2.0], [0.0, 3.0]]), tf.constant([[4.0], [5]])
    )
    np.testing.assert_array_equal(got, [421.0, 530.0])


def test_a_target_begins_as_a_copy() -> None:
    target, model = make("ddpg").setup.targets[0]
    for one, other in zip(model.weights, target.weights, strict=True):
        np.testing.assert_array_equal(one, other)
    model.weights[0].assign_add(tf.ones_like(model.weights[0]))
    assert (model.weights[0].numpy() != target.weights[0].numpy()).all()


def everything(learner: Any) -> dict[str, Any]:
    return {k: v for k, v in learner.state.arrays().items() if k != "count/version"}


@pytest.mark.parametrize("name", AGENTS)
def test_phases_and_resumption_change_nothing(name: str) -> None:
    """Six batches at once, or in phases of one to three with a resumption."""
    case = batch(6)
    learner, resumed = make(name, lr=0.01), make(name, lr=0.01)
    begin = learner.state.arrays()
    with deterministic():
        learner.update(sampled(case), 0)
        expected = everything(learner)
        learner.state.restore(begin)
        learner.update(sampled(cut(case, 0, 1)), 0)
        learner.update(sampled(cut(case, 1, 3)), 0)
        scatter(resumed)
        resumed.state.restore(learner.state.arrays())
        resumed.update(sampled(cut(case, 3, 6)), 0)
    assert_same(expected, everything(resumed))


@pytest.mark.parametrize("name", AGENTS)
def test_metrics_are_means_over_a_phase(name: str) -> None:
    """The policy's over its own updates: TD3 has two of four."""
    learner, case = make(name, lr=0.01), batch(4)
    begin = learner.state.arrays()
    together = learner.update(sampled(case), 0)
    learner.state.restore(begin)
    apart = [learner.update(sampled(cut(case, i, i + 1)), 0) for i in range(4)]
    assert together.pop("updates") == 4
    for key, mean in together.items():
        values = [m[key] for m in apart if key in m]
        is_delayed = name == "td3" and key.startswith("policy")
        assert len(values) == (2 if is_delayed else 4)
        assert mean == pytest.approx(np.mean(values), rel=1e-5)


@pytest.mark.parametrize("name", AGENTS)
def test_stop_ends_a_phase(name: str) -> None:
    learner = make(name)
    before, counts = networks_of(learner), learner.state.arrays()
    learner.stop()
    assert set(learner.update(sampled(batch(2)), 0).values()) == {0}
    assert_close(networks_of(learner), before)
    after = learner.state.arrays()
    assert after.get("count/updates") == counts.get("count/updates")


@pytest.mark.parametrize("name", AGENTS)
def test_load_makes_targets_equal(name: str) -> None:
    """Of the model that is loaded; the others stay as they are."""
    learner = make(name)
    layouts = find_algorithm(name).layouts(config_of(name), SPEC)
    for model, layout in zip(find_algorithm(name).models, layouts, strict=True):
        before = networks_of(learner)
        arrays = random_arrays(layout, 5)
        learner.load({f"{model.name}/{key}": x for key, x in arrays.items()})
        for key, array in networks_of(learner).items():
            owner, _, own = key.partition("/")
            loaded = owner in (model.name, f"{model.name}-target")
            np.testing.assert_array_equal(array, arrays[own] if loaded else before[key])
    with pytest.raises(UserError, match="critic/dense-0/kernel has shape"):
        learner.load({"critic/dense-0/kernel": np.zeros((1, 1), np.float32)})


@pytest.mark.parametrize("name", AGENTS)
def test_models_begin_with_different_weights(name: str) -> None:
    kernels = {
        key.partition("/")[0]: array[0, 0]
        for key, array in networks_of(make(name)).items()
        if key.endswith("dense-0/kernel")
    }
    models = [model.name for model in find_algorithm(name).models]
    followed = models[1:] if name == "sac" else models
    assert sorted(kernels) == sorted([*models, *(f"{m}-target" for m in followed)])
    assert len({kernels[model] for model in models}) == len(models)
    for model in followed:
        assert kernels[model] == kernels[f"{model}-target"]


@pytest.mark.parametrize("name", AGENTS)
def test_terminated_transitions_have_no_next_value(name: str) -> None:
    """Whatever the targets say; a transition that continues has one."""
    learner, found = make(name), []
    begin = learner.state.arrays()
    for terminated in (True, False):
        for scale in (0.0, 100.0):
            learner.state.restore(begin)
            for key, variable in learner.state.variables.items():
                if "-target/" in key:
                    variable.assign(scale * variable)
            case = batch(1)
            case.discounts[:] = 0 if terminated else GAMMA
            found.append(learner.update(sampled(case), 0)["value_loss"])
    assert found[0] == found[1]
    assert found[2] != found[3]
