"""What trials of a sweep claim of a cluster that others use too."""

from types import SimpleNamespace
from typing import Any

import pytest
from fake_cluster import FakeCluster

from xagents_ray.algorithms.table import ALGORITHMS
from xagents_ray.cluster.tune.controller import SweepController
from xagents_ray.core.errors import UserError
from xagents_ray.settings.config import Config


def sweep_on(ray: FakeCluster, n_jobs: int) -> tuple[SweepController, Config]:
    """Return a sweep, and the settings of its trials."""
    plan: Any = SimpleNamespace(config=SimpleNamespace(n_jobs=n_jobs))
    unused: Any = None
    sweep = SweepController(ray, plan, unused, unused, unused, ())
    given = {"env": "CartPole-v1", "max_steps": 10, "n_envs": 6}
    return sweep, Config.of(ALGORITHMS["ppo"].config, given)


def test_trials_divide_what_is_free_when_the_sweep_starts() -> None:
    """Later, the sweep's own trials hold a part of it."""
    ray = FakeCluster({"CPU": 8})
    ray.hold(CPU=2)
    sweep, config = sweep_on(ray, 2)
    first, _ = sweep.claims(config)
    assert sum(claim.get("CPU", 0) for claim in first) == pytest.approx(3, abs=0.01)
    assert len(first) == 5  # the process, a learner, and 3 actors of 2 environments
    ray.hold(CPU=3)
    assert sweep.claims(config)[0] == first


def test_a_sweep_without_a_free_core_is_refused() -> None:
    """Tune would wait for ever."""
    ray = FakeCluster({"CPU": 8})
    ray.hold(CPU=8)
    sweep, config = sweep_on(ray, 1)
    with pytest.raises(UserError, match="No core is free for an env actor: wait, or"):
        sweep.claims(config)
