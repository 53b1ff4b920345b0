"""The first updates of DDPG, worked out slowly in NumPy with finite differences."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from actor_and_critics_by_hand import (
    GAMMA,
    RAM,
    SPEC,
    actor_loss,
    assert_close,
    batch,
    descended,
    followed,
    make,
    networks_of,
    output,
    rows,
    scatter,
    value,
    values_of,
)
from learner_support import sampled

from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Transitions


def targets_of(arrays: dict[str, Any], case: Transitions, spec: EnvSpec) -> list[float]:
    targets = []
    for _, after, _, reward, terminated in rows(case, spec):
        action = output(arrays, "actor-target", after)
        rest = GAMMA * value(arrays, "critic-target", after, action)
        targets.append(reward if terminated else reward + rest)
    return targets


@pytest.mark.parametrize("agent", ["ddpg", "td3"])
@pytest.mark.parametrize("end", ["linear", "tanh", "sigmoid"])
def test_only_a_linear_end_of_an_actor_gets_a_tanh(
    agent: str, end: str, tmp_path: Path
) -> None:
    path, row = tmp_path / "own.cfg", find_algorithm(agent)
    path.write_text(f"[dense-0]\noutput=1\nactivation={end}\n", encoding="utf-8")
    config = row.config(actor_model=str(path), critic_model=str(path))
    actor, *critics = row.layouts(config, SPEC)
    assert actor.layers[0].activation == ("tanh" if end == "linear" else end)
    assert {critic.layers[0].activation for critic in critics} == {end}


@pytest.mark.parametrize("spec", [SPEC, RAM], ids=["float32", "uint8"])
def test_one_update(spec: EnvSpec) -> None:
    """The critic first, then the actor along it, then both targets."""
    learner, case = make("ddpg", spec), batch(1, spec=spec)
    before = scatter(learner)
    targets = targets_of(before, case, spec)

    def critic_loss(arrays: dict[str, Any]) -> float:
        errors = np.subtract(targets, values_of(arrays, "critic", case, spec))
        return float(np.square(errors).mean())

    critic, critic_norm = descended(before, ["critic"], critic_loss)
    both, actor_norm = descended(
        critic, ["actor"], lambda arrays: actor_loss(arrays, case, spec)
    )
    expected = {
        "value_loss": critic_loss(before),
        "q_value": np.mean(values_of(before, "critic", case, spec)),
        "value_grad_norm": critic_norm,
        "policy_loss": actor_loss(critic, case, spec),
        "policy_grad_norm": actor_norm,
        "updates": 1,
    }
    assert learner.update(sampled(case), 0) == pytest.approx(expected, rel=1e-4)
    assert_close(networks_of(learner), followed(both))
