"""When a run ends, and which mean reward is its best."""

import json
from collections import deque
from pathlib import Path

import numpy as np
import pytest
from fake_driver import report

from xagents_ray.actors.actor_setup import ActorSetup
from xagents_ray.actors.env_actor import EnvActor
from xagents_ray.algorithms.ppo import PPOConfig
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.trajectory import RolloutReport, Weights
from xagents_ray.run.prepare import prepare_run
from xagents_ray.settings.config import Config
from xagents_ray.settings.training import TrainingConfig
from xagents_ray.storage.history import History
from xagents_ray.watch.progress import Progress


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


@pytest.mark.parametrize(
    ("max_steps", "resets"),
    [(16_384, 16), (16_380, 16), (16_353, 16), (16_384, 81)],
)
def test_a_round_that_is_due_only_for_resets_is_not_begun(
    max_steps: int, resets: int
) -> None:
    """TRPO with 16 environments made 24,530 env steps of 16,384."""
    progress, count = rounds(max_steps, 16, 512, resets)
    assert (progress.env_steps, count) == (16_384 - 2 * resets, 2)
    reason = progress.out_of_steps(TrainingConfig(max_steps=max_steps))
    assert reason == f"Reached --max-steps, {2 * resets} resets included"


@pytest.mark.parametrize(
    ("max_steps", "n_envs", "n_steps", "resets", "expected"),
    [
        (16_352, 16, 512, 16, 2),  # just enough
        (16_500, 16, 512, 16, 3),  # more than two rounds hold
        (12_000, 16, 512, 16, 2),  # nearer to one round, but not because of resets
        (16_384, 16, 512, 82, 3),  # they are more than 1 % of the run
        (16_384, 16, 512, 2_100, 3),  # a quarter of the rows: a third round is nearer
        (1_536, 8, 32, 5, 7),
        (15_360, 8, 320, 5, 7),  # a round is a sixth of the run
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
    ppo = find_algorithm("ppo")
    layout = ppo.layout(None, prepare_run(ppo, config).spec)
    actor = EnvActor(ActorSetup(ppo, config, layout, 1, 0, 2, 1))
    arrays = {name: np.zeros(s, np.float32) for name, s in layout.shapes.items()}
    trajectory, report = actor.rollout(Weights(1, arrays), 100, 0)
    actor.close()
    assert report.resets == np.count_nonzero(~trajectory.valid) > 2
    assert report.resets + report.steps.sum() == 200


def test_the_best_mean_is_of_a_full_window() -> None:
    progress = Progress(deque(maxlen=3))
    rows, _ = progress.collected([report(500, 20, 20, 50, 5)], TrainingConfig())
    assert [row.mean_reward for row in rows] == [500, 260, 180, 30, 25]
    assert [row.best_reward for row in rows] == [None, None, 180, 180, 180]


@pytest.mark.parametrize("is_old", [False, True])
def test_a_checkpoint_of_an_earlier_version_has_no_best_mean(is_old: bool) -> None:
    progress, resumed = Progress(deque(maxlen=3)), Progress(deque(maxlen=3))
    progress.collected([report(500, 20, 20, 50)], TrainingConfig())
    state = json.loads(json.dumps(progress.state()))
    if is_old:
        del state["best_window"]
        state["best_reward"] = 500.0  # the first episode's
    resumed.restore(state)
    assert resumed.best_reward == (None if is_old else 180)


def test_a_continued_history_knows_its_best_full_window(tmp_path: Path) -> None:
    path = tmp_path / "h.parquet"
    history = History(path)
    assert history.best_mean(3) is None
    for step, mean in enumerate([500, 260, 180, 30, 25]):
        # Written by an earlier version, which let the first episode be the best.
        history.add(step, step, 0.0, mean, 500.0)
    history.flush()
    again = History(path)
    assert again.best_mean(3) == 180
    assert again.best_mean(6) is None
    again.add(9, 9, 0.0, 40.0, None)
    assert again.last is not None and np.isnan(again.last.best_reward)
