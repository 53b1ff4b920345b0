"""The learner's TensorFlow uses the cores of the machine that the learner is on."""

import os
import pickle
from dataclasses import replace
from typing import Any

import pytest

from xagents_ray.algorithms.table import ALGORITHMS
from xagents_ray.cluster.run.services import LearnerService
from xagents_ray.core.spec import EnvSpec
from xagents_ray.learners import runtime
from xagents_ray.run.prepare import build_run
from xagents_ray.settings.config import Config


def _machine(monkeypatch: pytest.MonkeyPatch, cores: int) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)))


@pytest.mark.parametrize(("claimed", "expected"), [(None, 3), (2, 2), (8, 3)], ids=str)
def test_a_learner_on_another_node(
    claimed: int | None, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver with 16 cores, a node with 3; a trial of a sweep claims some."""
    configured: list[Any] = []
    monkeypatch.setattr(runtime, "configure", lambda *given: configured.append(given))
    _machine(monkeypatch, 16)
    config = Config.of(
        ALGORITHMS["ppo"].config, {"env": "CartPole-v1", "max_steps": 10, "seed": 1}
    )
    run = build_run(ALGORITHMS["ppo"], config, EnvSpec((4,), "float32", 1, 2))
    run = replace(run, threads=claimed)
    assert run.cores == (claimed or 16)
    sent = pickle.dumps(run)
    _machine(monkeypatch, 3)
    threads, _ = LearnerService(pickle.loads(sent)).start()
    assert threads == expected
    assert configured == [(expected, True)]
