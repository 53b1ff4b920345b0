"""Where the time goes, what limits a run, and the flag that helps."""

import time
from typing import Any

import numpy as np
import pytest

from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.process import available_cores
from xagents_ray.core.trajectory import RolloutReport
from xagents_ray.settings.config import Config
from xagents_ray.watch.profile import Profile


def _profile(
    agent: str = "ppo", n_actors: int = 2, on_gpu: bool = False, **settings: object
) -> Profile:
    settings = {"env": "CartPole-v1", "n_envs": 64, "max_steps": 1, **settings}
    return Profile(Config.of(find_algorithm(agent).config, settings), n_actors, on_gpu)


def _report(
    stepping: float, acting: float, computing: float | None = None
) -> RolloutReport:
    steps = np.ones(1, np.int64)
    seconds = stepping + acting
    computing = seconds if computing is None else computing
    return RolloutReport(
        steps, (), seconds, stepping=stepping, acting=acting, computing=computing
    )


def _shares(profile: Profile) -> dict[str, float]:
    """Return the shares of a second."""
    profile._began, profile._ended = 1.0, 2.0
    return {part: round(share, 6) for part, share in profile.shares.items()}


def test_shares_are_means_over_the_actors() -> None:
    profile = _profile()
    profile.collected([_report(0.4, 0.1), _report(0.2, 0.1)], 0.05, 0.6)
    profile.learned([{"seconds": 0.2}], 0.23)
    assert _shares(profile) == {
        "stepping": 0.3,
        "acting": 0.1,
        "transport": 0.08,
        "replay": 0.05,
        "learning": 0.2,
        "waiting": 0.6,
    }


def test_what_overlaps_is_not_transport() -> None:
    profile = _profile(policy_lag=1)
    profile.collected([_report(0.4, 0.1)] * 2, 0.0, 0.9)
    profile.learned([{"seconds": 0.2}], 0.5)
    assert _shares(profile)["transport"] == 0


def test_learned_takes_the_seconds_out_of_the_metrics() -> None:
    metrics = {"loss": 1.0, "seconds": 0.2}
    _profile().learned([metrics], 0.2)
    assert metrics == {"loss": 1.0}


@pytest.mark.parametrize(
    ("agent", "settings", "spent", "limit", "advice"),
    [
        ("ppo", {}, (0.9, 0.0, 0.0, 0.05), "stepping", "--address"),
        ("ppo", {"local": True}, (0.9, 0.0, 0.0, 0.05), "stepping", "--local"),
        ("ppo", {}, (0.05, 0.0, 0.0, 0.9), "learning", "--ppo-epochs"),
        ("dqn", {}, (0.05, 0.0, 0.0, 0.9), "learning", "--train-frequency"),
        ("ppo", {}, (0.05, 0.8, 0.0, 0.1), "acting", "--n-envs"),
        ("dqn", {}, (0.1, 0.0, 0.8, 0.1), "replay", "--replay-shards"),
        ("ppo", {}, (0.5, 0.0, 0.0, 0.4), "stepping", "--policy-lag 1"),
        ("ppo", {"policy_lag": 1}, (0.5, 0.0, 0.0, 0.9), "learning", "--ppo-epochs"),
    ],
)
def test_the_largest_part_limits_the_run(
    agent: str,
    settings: dict[str, object],
    spent: tuple[float, float, float, float],
    limit: str,
    advice: str,
) -> None:
    profile = _profile(agent, max(2, available_cores()), **settings)
    stepping, acting, replay, learning = spent
    reports = [_report(stepping, acting)] * max(2, available_cores())
    profile.collected(reports, replay, stepping + acting + replay)
    profile.learned([{"seconds": learning}], learning)
    _shares(profile)
    assert profile.limit == limit
    if "local" in settings and available_cores() < 2:
        advice = "--n-envs"
    assert advice in profile.advice
    assert profile.sentence().endswith(f"limited by {limit}: {profile.advice}")


def test_environments_that_wait_want_more_actors() -> None:
    """They sleep, or wait for a server: cores are not what they lack."""
    profile = _profile("dqn", policy_lag=1)
    profile.collected([_report(0.9, 0.05, computing=0.1)] * 2, 0.0, 1.0)
    _shares(profile)
    assert profile.limit == "stepping"
    assert profile.advice.startswith("raise --n-actors, up to 64: ")


def test_more_actors_do_not_help_environments_with_own_processes() -> None:
    profile = _profile(
        "dqn", max(2, available_cores()), policy_lag=1, vectorization="async"
    )
    profile.collected([_report(0.9, 0.05, computing=0.1)] * 2, 0.0, 1.0)
    _shares(profile)
    assert "--address" in profile.advice


@pytest.mark.parametrize(
    ("changes", "spent", "advice"),
    [
        ({}, (0.5, 0.4, 0.11), "raise --n-envs to 256: with 8 environments per env "),
        ({"n_envs": 16}, (0.1, 0.8, 0.1), "raise --n-envs to 32: with 1 environment "),
        ({"on_gpu": False}, (0.1, 0.8, 0.1), "raise --n-envs, which act together"),
        ({"n_envs": 512}, (0.1, 0.8, 0.1), "raise --n-envs, which act together"),
        ({}, (0.1, 0.8, 0.9), "a GPU for the learner"),  # it limits the run
        ({}, (0.1, 0.8, 0.6), "raise --n-envs, which act together"),  # it is busy
        ({}, (0.9, 0.05, 0.1), "add machines"),  # cores are the limit, not batches
        ({"policy_lag": 0}, (0.4, 0.3, 0.3), "--policy-lag 1"),  # that comes first
    ],
)
def test_few_environments_per_env_actor_starve_a_gpu(
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, Any],
    spent: tuple[float, float, float],
    advice: str,
) -> None:
    monkeypatch.setattr("xagents_ray.watch.profile.available_cores", lambda: 16)
    settings = {"policy_lag": 1, "n_envs": 128, "on_gpu": True, **changes}
    profile = _profile("ppo", 16, **settings)
    stepping, acting, learning = spent
    profile.collected([_report(stepping, acting)] * 16, 0.0, stepping + acting)
    profile.learned([{"seconds": learning}], learning)
    _shares(profile)
    assert profile.advice.startswith(advice)
    if "per env" in advice:
        assert profile.advice.endswith(f"the GPU learns {learning:.0%} of the time")


def test_dropped_rollouts_are_time_too_and_want_a_larger_lag() -> None:
    profile = _profile("ppo", policy_lag=1, asynchronous=True)
    report = _report(0.3, 0.0)
    profile.collected([report], 0.0, 0.9, dropped=[report] * 3)
    assert _shares(profile)["stepping"] == 0.6
    assert profile.advice.startswith("raise --policy-lag: 75% of the rollouts")


def test_the_clock_stands_still_after_the_end() -> None:
    profile = _profile()
    profile.collected([_report(0.1, 0.0)] * 2, 0.0, 0.1)
    profile.stop()
    first = profile.shares
    time.sleep(0.01)
    assert profile.shares == first


def test_the_first_phase_is_shown_by_itself() -> None:
    """What is compiled for all of them is in its time."""
    profile = _profile()
    assert "first learning phase" not in profile.sentence()
    assert profile.summary()["first_phase_seconds"] is None
    profile.learned([{"seconds": 1.26}, {"seconds": 0.1}], 1.4)
    profile.learned([{"seconds": 0.2}], 0.2)
    assert "; first learning phase 1.3 s; limited by learning" in profile.sentence()
    assert profile.summary()["first_phase_seconds"] == 1.26


def test_compilation_is_no_learning() -> None:
    """Of a second, 0.5 s are left, of which others than the first phase learn 0.1 s."""
    profile = _profile()
    profile.collected([_report(0.2, 0.1)] * 2, 0.0, 0.3)
    profile.learned([{"seconds": 0.55}, {"seconds": 0.05}], 0.6)
    shares = _shares(profile)
    assert shares["learning"] == 0.2 and shares["stepping"] == 0.4
    assert profile.limit == "stepping"
