"""When a run ends."""

from collections import deque

import numpy as np
import pytest

from xagents_ray.actors.env_actor import ActorSetup, EnvActor
from xagents_ray.algorithms.ppo import PPOConfig
from xagents_ray.algorithms.table import find
from xagents_ray.core.trajectory import RolloutReport, Weights
from xagents_ray.run.prepare import prepare
from xagents_ray.run.progress import Progress
from xagents_ray.settings.config import Config
from xagents_ray.settings.training import TrainingConfig
from xagents_ray.storage.weights import shapes


def rounds(
    max_steps: int, n_envs: int, n_steps: int, resets: int
) -> tuple[Progress, int]:
    """Collect rounds until the run ends, with as many resets in each."""
    progress = Progress(deque(maxlen=100), n_envs * n_steps)
    config, count = TrainingConfig(max_steps=max_steps), 0
    while progress.out_of_steps(config) is None:
        steps = np.full(n_steps, n_envs)
        steps[-1] -= resets
        progress.collected([RolloutReport(steps, (), 0.1, resets=resets)], config)
        count += 1
    return progress, count


@pytest.mark.parametrize("max_steps", [16_384, 16_380, 16_353])
def test_a_round_that_is_due_only_for_resets_is_not_begun(max_steps: int) -> None:
    """TRPO with 16 environments made 24,530 env steps of 16,384."""
    progress, count = rounds(max_steps, 16, 512, resets=16)
    assert (progress.env_steps, count) == (16_352, 2)
    reason = progress.out_of_steps(TrainingConfig(max_steps=max_steps))
    assert reason == "Maximum steps reached, 32 resets included"


@pytest.mark.parametrize(
    ("max_steps", "n_envs", "n_steps", "resets", "expected"),
    [
        (16_352, 16, 512, 16, 2),  # just enough
        (16_500, 16, 512, 16, 3),  # more than two rounds hold
        (12_000, 16, 512, 16, 2),  # nearer to one round, but not because of resets
        (16_384, 16, 512, 2_100, 3),  # a quarter of the rows: a third round is nearer
        (100_000, 8, 32, 5, 399),  # a long run of many rounds
    ],
)
def test_other_budgets_are_used_up(
    max_steps: int, n_envs: int, n_steps: int, resets: int, expected: int
) -> None:
    progress, count = rounds(max_steps, n_envs, n_steps, resets)
    assert progress.env_steps >= max_steps
    assert count == expected


def test_a_resumed_run_knows_its_resets() -> None:
    progress, _ = rounds(16_384, 16, 512, resets=16)
    again = Progress(deque(maxlen=100), progress.round_rows)
    again.restore(progress.state())
    assert again.over(TrainingConfig(max_steps=16_384)) is not None
    assert again.over(TrainingConfig(max_steps=20_000)) is None
    old = progress.state()
    del old["resets"]
    again.restore(old)
    assert again.resets == 0


def test_a_rollout_counts_its_resets() -> None:
    config = Config.of(PPOConfig, {"env": "CartPole-v1", "n_envs": 2, "max_steps": 1})
    ppo = find("ppo")
    layout = ppo.layout(None, prepare(ppo, config).spec)
    actor = EnvActor(ActorSetup("ppo", config, layout, 1, 0, 2, 1))
    arrays = {name: np.zeros(s, np.float32) for name, s in shapes(layout).items()}
    trajectory, report = actor.rollout(Weights(1, arrays), 100, 0)
    actor.close()
    assert report.resets == np.count_nonzero(~trajectory.valid) > 2
    assert report.resets + report.steps.sum() == 200
