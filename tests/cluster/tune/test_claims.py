"""What trials of a sweep claim of a cluster that others use too."""

from types import SimpleNamespace
from typing import Any

import pytest
from fake_cluster import FakeCluster
from fake_ray import Ref

from xagents_ray.algorithms.table import ALGORITHMS
from xagents_ray.cluster.run import reservation
from xagents_ray.cluster.tune.controller import SweepController
from xagents_ray.core.errors import UserError
from xagents_ray.core.signals import Signals
from xagents_ray.settings.config import Config
from xagents_ray.settings.resources import ConnectionConfig
from xagents_ray.tuning.sweep import plan_of


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let waits advance the clock of the newest fake only."""
    monkeypatch.setattr(
        reservation, "time", SimpleNamespace(sleep=lambda s: Ref.clock.sleep(s))
    )


def sweep_on(ray: FakeCluster, n_jobs: int) -> tuple[SweepController, Config]:
    """Return a sweep, and the settings of its trials."""
    sizes, connection = SimpleNamespace(n_jobs=n_jobs), ConnectionConfig()
    plan: Any = SimpleNamespace(config=sizes, ray=connection)
    unused: Any = None
    sweep = SweepController(ray, plan, unused, unused, Signals(), ())
    given = {"env": "CartPole-v1", "max_steps": 10, "n_envs": 6}
    return sweep, Config.of(ALGORITHMS["ppo"].config, given)


def test_trials_are_given_the_variables_of_workers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their nodes don't have the value that one has here."""
    monkeypatch.setenv("LICENSE", "abc")
    variables = {"LICENSE": None, "LEVEL": "2"}
    given = {"env": "CartPole-v1", "local": True, "worker_env": variables}
    plan, _ = plan_of(ALGORITHMS["ppo"], given)
    asked = SimpleNamespace(number=0, params={}, user_attrs={})
    study: Any = SimpleNamespace(ask=lambda: asked, note=lambda *_, **__: None)
    display: Any = SimpleNamespace(began=lambda *_: None)
    ray = FakeCluster({"CPU": 2})
    sweep = SweepController(ray, plan, study, display, Signals(), ())
    trial: Any = sweep.ask("trial")
    assert trial["variables"] == {"LICENSE": "abc", "LEVEL": "2"}
    assert "worker_env" not in trial["settings"]


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
    with pytest.raises(UserError, match=r"for an env actor, as tasks .* 8: wait, or"):
        sweep.claims(config)


def test_what_a_run_held_that_has_just_ended_is_free_for_trials() -> None:
    """Ray shows it half a second late."""
    ray = FakeCluster({"CPU": 4})
    ray.hold(CPU=3)
    ray.later.append((ray.now + 0.5, lambda: ray.hold(CPU=-3)))
    sweep, config = sweep_on(ray, 1)
    claims, _ = sweep.claims(config)
    assert sum(claim.get("CPU", 0) for claim in claims) == pytest.approx(4, abs=0.01)


def test_a_later_trial_may_use_what_others_have_released() -> None:
    """Trials that fit keep their claims, so that they can be compared."""
    ray = FakeCluster({"CPU": 8})
    ray.hold(CPU=6)
    sweep, config = sweep_on(ray, 1)
    first, _ = sweep.claims(config)
    larger = Config.of(
        ALGORITHMS["ppo"].config,
        {
            "env": "CartPole-v1",
            "max_steps": 10,
            "n_envs": 4,
            "actor_cpus": 1,
            "n_actors": 4,
        },
    )
    with pytest.raises(UserError, match=r"2 of 8 are free .* tasks and actors hold 6"):
        sweep.claims(larger)
    ray.hold(CPU=-6)
    assert sweep.claims(config)[0] == first
    ray.hold(CPU=2)  # the first trial
    claims, _ = sweep.claims(larger)
    assert [claim["CPU"] for claim in claims[2:]] == [1] * 4
