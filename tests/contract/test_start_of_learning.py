"""Learning starts, whatever the lengths of the episodes."""

import pytest

from xagents_ray import train
from xagents_ray.algorithms.table import all_algorithms

OFF_POLICY = [
    n for n, row in all_algorithms().items() if not row.on_policy and row.discrete
]


@pytest.mark.parametrize("agent", OFF_POLICY)
def test_a_replay_that_must_be_full_fills(agent: str) -> None:
    """CartPole's first episodes have about 22 steps: many rows only reset."""
    result = train(
        agent,
        env="CartPole-v1",
        n_envs=2,
        local=True,
        quiet=True,
        max_steps=3000,
        buffer_max_size=1000,
        buffer_initial_size=1000,
    )
    assert result.updates > 0
