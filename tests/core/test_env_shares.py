"""Equal shares of environments: published examples, and all small numbers."""

import math

import pytest

from xagents_ray.core.env_shares import EnvShares, best_actor_count


def shares(n_envs: int, cores: float) -> EnvShares:
    return EnvShares.of(n_envs, best_actor_count(n_envs, cores), cores)


@pytest.mark.parametrize(
    ("n_envs", "cores", "divided", "busy"),
    [
        (16, 16, "16 × 1", 1),
        (16, 15, "16 × 1", 1),
        (64, 16, "16 × 4", 1),
        (32, 12, "16 × 2", 1),
        (20, 12, "20 × 1", 1),
        (8, 16, "8 × 1", 0.5),
        (5, 2, "1 × 1, 2 × 2", 1),
        (1, 1, "1 × 1", 1),
        (8, 0.5, "1 × 8", 1),
    ],
)
def test_published_examples(
    n_envs: int, cores: float, divided: str, busy: float
) -> None:
    found = shares(n_envs, cores)
    assert str(found) == divided
    assert found.busy_share == pytest.approx(busy)


def test_one_core_for_two_environments_leaves_the_others_waiting() -> None:
    """What 16 environments on 16 cores became with a core spared for the learner."""
    earlier = EnvShares.of(16, 15, 15)
    assert str(earlier) == "14 × 1, 1 × 2"
    assert earlier.busy_share == pytest.approx(16 / 30)
    assert earlier.summary() == {
        "actors_by_envs": {"1": 14, "2": 1},
        "busy_share": 0.5333,
    }


def test_no_other_number_of_actors_is_better() -> None:
    """For 1–256 environments on 1–64 cores, by trying all numbers of actors."""
    for n_envs in range(1, 257):
        largest = [math.ceil(n_envs / actors) for actors in range(1, n_envs + 1)]
        for cores in range(1, 65):
            rounds = [max(share, n_envs / cores) for share in largest]
            count = best_actor_count(n_envs, cores)
            assert count == rounds.index(min(rounds)) + 1, (n_envs, cores)
            busy = n_envs / cores / min(rounds)
            assert busy >= 0.9 or n_envs < 0.9 * cores  # too few environments


def test_shares_differ_by_one_at_most_and_give_every_environment_out() -> None:
    for n_envs in range(1, 257):
        for actors in range(1, n_envs + 1):
            found = EnvShares.of(n_envs, actors, 1)
            assert sum(found.envs) == n_envs and len(found.envs) == actors
            assert max(found.envs) == math.ceil(n_envs / actors)
            assert max(found.envs) - min(found.envs) <= 1
            assert found.bounds[-1] == n_envs


@pytest.mark.parametrize(
    ("n_envs", "cores", "most", "count"),
    [(16, 16, 8, 8), (20, 12, 12, 10), (64, 16, 1, 1), (64, 16, 100, 16)],
)
def test_claims_limit_the_number_of_actors(
    n_envs: int, cores: int, most: int, count: int
) -> None:
    assert best_actor_count(n_envs, cores, most) == count
