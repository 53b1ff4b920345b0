"""The learner's TensorFlow uses the cores of the machine that the learner is on."""

import os
import pickle
from dataclasses import replace
from typing import Any

import pytest

from xagents_ray.algorithms.run_spec import RunSpec, Threads
from xagents_ray.algorithms.table import ALGORITHMS
from xagents_ray.cluster.run.learner_service import LearnerService
from xagents_ray.core.spec import EnvSpec
from xagents_ray.learners import runtime
from xagents_ray.networks.keras_layers import CustomClasses, WholeModel
from xagents_ray.run.learner_access import make_learner
from xagents_ray.run.prepare import build_run
from xagents_ray.settings.config import Config

_CARTPOLE = EnvSpec((4,), "float32", 1, 2)
_PENDULUM = EnvSpec((3,), "float32", 1, 0, (-2.0,), (2.0,))
_PONG = EnvSpec((84, 84), "uint8", 4, 6)


def _run(agent: str, spec: EnvSpec, **settings: Any) -> RunSpec:
    config = Config.of(
        ALGORITHMS[agent].config,
        {"env": "Some-v0", "max_steps": 10, "seed": 1, **settings},
    )
    return build_run(ALGORITHMS[agent], config, spec)


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
    run = replace(_run("ppo", _PONG, n_envs=16), threads=claimed)
    assert run.cores == (claimed or 16)
    sent = pickle.dumps(run)
    _machine(monkeypatch, 3)
    threads, _ = LearnerService(pickle.loads(sent)).start()
    assert threads == expected
    assert configured == [(Threads(expected, 2), True)]


@pytest.mark.parametrize(
    ("agent", "spec", "settings", "threads", "compiled"),
    [
        ("ppo", _CARTPOLE, {"n_envs": 16, "n_steps": 128}, (1, 1), True),
        ("ppo", _CARTPOLE, {"n_envs": 8, "memory": "lstm:64"}, (1, 1), True),
        ("ppo", _CARTPOLE, {"n_envs": 8, "memory": "lstm:256"}, (8, 1), True),
        ("ppo", _PONG, {"n_envs": 8, "memory": "lstm:64"}, (8, 2), False),
        ("a2c", _CARTPOLE, {"n_envs": 16}, (1, 1), True),
        ("a2c", _CARTPOLE, {"n_envs": 16, "jit": "off"}, (1, 1), False),
        ("a2c", _CARTPOLE, {"n_envs": 16, "learner_threads": 3}, (3, 1), True),
        ("a2c", _PONG, {"n_envs": 16}, (8, 2), False),
        ("dqn", _PONG, {}, (4, 2), False),
        ("dqn", _PONG, {"learner_threads": 3}, (2, 2), False),
        ("dqn", _PONG, {"learner_threads": 1}, (1, 1), False),
        ("dqn", _CARTPOLE, {"buffer_batch_size": 64}, (1, 1), True),
        ("td3", _PENDULUM, {"buffer_batch_size": 100}, (1, 3), False),
        ("ddpg", _PENDULUM, {"buffer_batch_size": 100}, (1, 2), False),
        ("td3", _PENDULUM, {"buffer_batch_size": 100, "jit": "on"}, (8, 1), True),
        ("td3", _PENDULUM, {"learner_threads": 1}, (1, 1), True),
    ],
)
def test_threads_and_compilation_follow_the_work(
    agent: str,
    spec: EnvSpec,
    settings: dict[str, Any],
    threads: tuple[int, int],
    compiled: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On 8 cores; nothing is timed, so that seeds repeat."""
    _machine(monkeypatch, 8)
    run = _run(agent, spec, **settings)
    assert (run.learner_threads, run.compiles(on_gpu=False)) == (threads, compiled)
    assert run.compiles(on_gpu=True) == (settings.get("jit") != "off")
    assert run.learner_cores <= settings.get("learner_threads", 8)


@pytest.mark.parametrize("jit", ["auto", "on"])
def test_a_whole_keras_model_is_compiled_on_request(jit: str) -> None:
    """It may have operations that XLA lacks."""
    run = _run("ppo", _CARTPOLE, jit=jit)
    known: dict[str, Any] = {
        "name": "own",
        "source": 0,
        "output_shape": (3,),
        "model": "own.keras",
    }
    whole = WholeModel(**known, config="{}", custom=CustomClasses({}), weights=())
    layout = replace(run.layout, layers=(whole,), outputs=(0,))
    run = replace(run, layouts=(layout,))
    assert {run.compiles(on_gpu) for on_gpu in (False, True)} == {jit == "on"}


def test_a_learner_without_gpus_hides_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "configure", lambda *given: None)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    make_learner(_run("ppo", _CARTPOLE))
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "0"
    make_learner(_run("ppo", _CARTPOLE, learner_gpus=0))
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "-1"
