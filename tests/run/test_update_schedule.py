"""How much learning a round asks for: the ratio of samples to insertions."""

from typing import Any

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.trajectory import Fill
from xagents_ray.run.run_state import UpdateSchedule
from xagents_ray.settings.config import Config

SETTINGS = {
    "env": "CartPole-v1",
    "max_steps": 1,
    "buffer_max_size": 1_000,
    "buffer_initial_size": 100,
    "buffer_batch_size": 20,
    "train_frequency": 3,
    "gradient_steps": 2,
}


def _schedule() -> UpdateSchedule:
    config = Config.of(find_algorithm("dqn").config, SETTINGS)
    unused: Any = None
    return UpdateSchedule(
        RunSpec(find_algorithm("dqn"), config, unused, unused, seed=1)
    )


def test_nothing_is_learned_before_the_replay_is_filled() -> None:
    schedule = _schedule()
    assert schedule.batches(0, 99, Fill(99, False)) == 0
    assert schedule.batches(99, 102, Fill(102, False)) == 2


def test_sampled_to_inserted_stays_within_one_period() -> None:
    schedule, batches, steps = _schedule(), 0, 0
    for rollout in [7, 1, 16, 2, 5] * 40:
        batches += schedule.batches(steps, steps + rollout, Fill(100, False))
        steps += rollout
        assert steps * 2 / 3 - 2 <= batches <= steps * 2 / 3


def test_learning_continues_when_a_shard_is_lost() -> None:
    schedule = _schedule()
    assert schedule.batches(0, 120, Fill(120, False)) == 80
    assert schedule.batches(120, 123, Fill(60, False)) == 2
    assert schedule.batches(123, 126, Fill(19, False)) == 0
    assert schedule.batches(126, 129, Fill(20, False)) == 2


def test_a_shard_lost_before_learning_began_is_filled_again() -> None:
    schedule = _schedule()
    assert schedule.batches(0, 60, Fill(60, False)) == 0
    assert schedule.batches(60, 90, Fill(40, False)) == 0
