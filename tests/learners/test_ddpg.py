"""The first updates of DDPG, worked out slowly in NumPy with finite differences."""

from typing import Any

import numpy as np
import pytest
from actor_critic_by_hand import (
    GAMMA,
    RAM,
    SPEC,
    assert_close,
    batch,
    cut,
    descended,
    followed,
    make,
    networks_of,
    output,
    rows,
    scatter,
    value,
)
from learner_support import sampled

from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Transitions


def targets_of(arrays: dict[str, Any], case: Transitions, spec: EnvSpec) -> list[float]:
    targets = []
    for _, after, _, reward, terminated in rows(case, spec):
        action = output(arrays, "actor-target", after)
        rest = GAMMA * value(arrays, "critic-target", after, action)
        targets.append(reward if terminated else reward + rest)
    return targets


@pytest.mark.parametrize("spec", [SPEC, RAM], ids=["float32", "uint8"])
def test_one_update(spec: EnvSpec) -> None:
    """The critic first, then the actor along it, then both targets."""
    learner, case = make("ddpg", spec), batch(1, spec=spec)
    before = scatter(learner)
    targets = targets_of(before, case, spec)

    def values(arrays: dict[str, Any]) -> list[float]:
        return [value(arrays, "critic", now, a) for now, _, a, *_ in rows(case, spec)]

    def critic_loss(arrays: dict[str, Any]) -> float:
        errors = zip(targets, values(arrays), strict=True)
        return sum((y - q) ** 2 for y, q in errors) / 8

    def actor_loss(arrays: dict[str, Any]) -> float:
        total = 0.0
        for now, *_ in rows(case, spec):
            total -= value(arrays, "critic", now, output(arrays, "actor", now))
        return total / 8

    judged, critic_norm = descended(before, ["critic"], critic_loss)
    acted, actor_norm = descended(judged, ["actor"], actor_loss)
    metrics = learner.update(sampled(case), 0)
    assert metrics == pytest.approx(
        {
            "value_loss": critic_loss(before),
            "q_value": np.mean(values(before)),
            "value_grad_norm": critic_norm,
            "policy_loss": actor_loss(judged),
            "policy_grad_norm": actor_norm,
            "updates": 1,
        },
        rel=1e-4,
    )
    assert_close(networks_of(learner), followed(acted))


def test_metrics_are_means_over_a_phase() -> None:
    learner, case = make("ddpg", lr=0.01), batch(3)
    begin = learner.state.arrays()
    together = learner.update(sampled(case), 0)
    learner.state.restore(begin)
    apart = [learner.update(sampled(cut(case, i, i + 1)), 0) for i in range(3)]
    assert together.pop("updates") == 3
    for name, mean in together.items():
        assert mean == pytest.approx(np.mean([m[name] for m in apart]), rel=1e-5)


def test_stop_ends_a_phase() -> None:
    learner = make("ddpg")
    before = networks_of(learner)
    learner.stop()
    assert set(learner.update(sampled(batch(2)), 0).values()) == {0}
    assert_close(networks_of(learner), before)
