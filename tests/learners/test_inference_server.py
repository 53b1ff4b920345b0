"""The learner's process acts for env actors, through shared memory and pipes."""

import itertools
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from acting import run_of
from script_networks import Doubled

from xagents_ray.actors.actor_setup import ActorSetup
from xagents_ray.actors.env_actor import EnvActor
from xagents_ray.actors.halves import HalvedEnvActor
from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.core import inference
from xagents_ray.core.errors import UserError
from xagents_ray.core.inference import InferenceClient, InferenceLost, slots_of
from xagents_ray.core.trajectory import Trajectory, Weights, arrays_of
from xagents_ray.learners import inference_server
from xagents_ray.learners.learner import Learner
from xagents_ray.run.learner_access import make_learner
from xagents_ray.settings.resources import PlacementConfig

ENVS, LENGTH, LATER = 3, 12, 10**6
CARTPOLE = {
    "env": "CartPole-v1",
    "env_kwargs": ("max_episode_steps=7",),
    "vectorization": "sync",  # each environment has a seed of its own
}
MEMORY = {**CARTPOLE, "memory": "lstm:8", "mini_batches": 1}
PENDULUM = {"env": "Pendulum-v1"}
SLOTS = slots_of(0, ENVS)
Serve = Callable[[RunSpec], Learner]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Return a function that makes a learner which acts; end what it made."""
    made: list[Learner] = []

    def serving(run: RunSpec) -> Learner:
        learner: Learner = make_learner(run)[0]
        learner.serve(SLOTS, 2)
        made.append(learner)
        return learner

    yield serving
    for learner in made:
        assert learner.server is not None
        learner.server.close()


def actors_of(run: RunSpec) -> tuple[EnvActor, HalvedEnvActor]:
    """Return an env actor that acts, and one for which the learner does."""
    served = ActorSetup.of(run, ENVS, env_threads=1, is_served=True)
    return EnvActor(replace(served, is_served=False)), HalvedEnvActor(served)


def whole_model() -> str:
    """Write a Keras model that NumPy can't compute; return its file."""
    given = keras.Input((4,))
    x = Doubled()(keras.layers.Dense(8, "tanh")(given))
    ends = [keras.layers.Dense(2)(x), keras.layers.Dense(1)(x)]
    keras.Model(given, ends).save("own.keras")
    return "own.keras"


def assert_alike(one: Trajectory, other: Trajectory) -> None:
    """Check that all arrays are equal but for rounding."""
    for name in one._fields:
        pair = getattr(one, name), getattr(other, name)
        if isinstance(pair[0], np.ndarray | dict):
            for x, y in zip(*map(arrays_of, pair), strict=True):
                np.testing.assert_allclose(x, y, atol=1e-3, err_msg=name)


@pytest.mark.filterwarnings("ignore:__array__")  # within Keras' save
@pytest.mark.parametrize(
    ("agent", "settings"),
    [
        ("ppo", CARTPOLE),
        ("ppo", {**MEMORY, "noisy": "factorised"}),
        ("ppo", {**CARTPOLE, "model": whole_model}),
        ("ppo", {"env": "dict_envs:compass"}),
        ("ppo", {"env": "masked_envs:Locks"}),
        ("ppo", {**PENDULUM, "sde_frequency": 4}),
        ("dqn", {**CARTPOLE, "noisy": "independent"}),
        ("sac", {**PENDULUM, "normalize_observations": True}),
    ],
    ids="vector memory keras dict masks sde dqn normalized".split(),
)
def test_it_computes_what_a_policy_in_numpy_does(
    serve: Serve, agent: str, settings: dict[str, Any]
) -> None:
    """In the second rollout too, with the same noise, masks and memory."""
    made = {k: x() if callable(x) else x for k, x in settings.items()}
    run = run_of(agent, ENVS, **made)
    learner = serve(run)
    weights, (alone, halved) = learner.policy_weights(1), actors_of(run)
    for _ in range(2):
        expected, report = alone.rollout(weights._replace(server=None), LENGTH, LATER)
        found, joined = halved.rollout(weights, LENGTH, LATER)
        assert_alike(expected, found)
        assert joined.episodes == report.episodes
        assert np.array_equal(joined.steps, report.steps)
        assert joined.statistics.keys() == report.statistics.keys()
        assert joined.resets == report.resets
    alone.close()
    halved.close()


def client_of(weights: Weights, slot: tuple[int, int] = SLOTS[0]) -> InferenceClient:
    assert weights.server is not None
    return InferenceClient(weights.server, *slot)


def asked(client: InferenceClient, version: int, value: float = 1.0) -> Any:
    client.request(version, {inference.INPUTS: value})
    return client.reply()[f"{inference.OUTPUTS}0"]


def test_it_holds_the_newest_weights_and_those_in_use(serve: Serve) -> None:
    learner = serve(run_of("ppo", ENVS, **CARTPOLE))
    client = client_of(learner.policy_weights(1))
    first = asked(client, 1)
    arrays = {k: 2 * x for k, x in learner.state.arrays().items() if "kernel" in k}
    for version in range(2, 5):
        learner.state.assign(arrays)
        learner.policy_weights(version)
    assert np.array_equal(asked(client, 1), first)  # held, as it is in use
    assert not np.array_equal(asked(client, 4), first)
    learner.policy_weights(5)
    asked(client, 4)
    with pytest.raises(InferenceLost, match="only other weights"):
        asked(client, 1)
    asked(client, 5)
    client.close()


def test_a_new_actor_ignores_replies_to_its_predecessor(serve: Serve) -> None:
    learner = serve(run_of("ppo", ENVS, **CARTPOLE))
    weights = learner.policy_weights(1)
    first, second = client_of(weights), client_of(weights)
    expected = asked(first, 1, 2.0)
    first.request(1, {inference.INPUTS: 1.0})  # and dies before it reads the reply
    assert np.array_equal(asked(second, 1, 2.0), expected)
    first.close()
    second.close()


def test_a_server_that_hangs(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_of("ppo", ENVS, **CARTPOLE)
    learner = serve(run)
    weights, (_, halved) = learner.policy_weights(1), actors_of(run)
    server = learner.server
    assert server is not None
    halved.rollout(weights, 1, 0)
    assert server.is_working()
    monkeypatch.setattr(inference, "SILENT_SECONDS", 1.0)
    with server._lock:
        began = time.monotonic()
        with pytest.raises(InferenceLost, match="hangs"):
            halved.rollout(weights, 1, 0)
        assert 1.0 <= time.monotonic() - began < 1.9  # both halves wait together
        assert not server.is_working()
        monkeypatch.setattr(inference, "SILENT_SECONDS", 60.0)
        assert server.is_working()  # for a second without an answer
    halved.close()


def test_a_server_that_fails(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients hear of it at once, now and later; the learner raises the error."""
    learner = serve(run_of("ppo", ENVS, **CARTPOLE))
    client = client_of(learner.policy_weights(1))
    server = learner.server
    assert server is not None
    monkeypatch.setattr(server, "_answer", lambda requests: 1 / 0)
    with pytest.raises(InferenceLost, match="failed"):
        asked(client, 1)
    server._thread.join()
    with pytest.raises(InferenceLost, match="dead"):
        asked(client, 1)
    with pytest.raises(ZeroDivisionError):
        server.is_working()
    client.close()


_SERVER = """
import pickle, sys
import acting
from xagents_ray.core.inference import slots_of
from xagents_ray.run.learner_access import make_learner
from xagents_ray.settings.resources import PlacementConfig

learner, _ = make_learner(acting.run_of("ppo", 3, env="CartPole-v1"))
learner.serve(slots_of(0, 3), 2)
sys.stdout.buffer.write(pickle.dumps(learner.policy_weights(1)) + b"\\n\\n")
sys.stdout.flush()
sys.stdin.read()
"""


def test_a_server_in_another_process_that_is_killed() -> None:
    """Its clients know it at once; its memory has no name that could be left."""
    support = Path(__file__).parents[1] / "support"
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(support)},
    ) as process:
        assert process.stdout is not None
        weights = pickle.load(process.stdout)
        run = run_of("ppo", ENVS, env="CartPole-v1")
        alone, halved = actors_of(run)
        halved.rollout(weights, LENGTH, 0)
        client = client_of(weights)
        asked(client, 1)
        for pid in (process.pid, os.getpid()):
            maps = Path(f"/proc/{pid}/maps").read_text()
            assert "/memfd:xagents-ray inference (deleted)" in maps
            assert "/dev/shm" not in maps or pid == os.getpid()
        process.send_signal(signal.SIGSTOP)
        threads = [*Path(f"/proc/{process.pid}/task").glob("*/stat")]
        while any(each.read_text().rpartition(")")[2][1] != "T" for each in threads):
            time.sleep(0.01)  # on a busy machine one may still answer
        client.request(1, {inference.INPUTS: 1.0})
        process.kill()
        began = time.monotonic()
        for _ in range(2):
            with pytest.raises(InferenceLost, match="dead"):
                client.reply()
        with pytest.raises(InferenceLost, match="dead"):
            halved.rollout(weights, LENGTH, 0)
        assert time.monotonic() - began < 5
    with pytest.raises(InferenceLost, match="gone"):
        client_of(weights)
    halved.close()
    alone.close()
    client.close()


def test_environments_continue_after_a_lost_rollout(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows up to the loss are gone; frames, memory and episodes go on."""
    run = run_of("ppo", ENVS, **MEMORY)
    weights = serve(run).policy_weights(1)
    _, halved = actors_of(run)
    reply, replies = InferenceClient.reply, itertools.count()

    def lost(client: InferenceClient) -> Any:
        found = reply(client)
        if next(replies) > 9:  # each half has stepped several times
            raise InferenceLost
        return found

    halved.rollout(weights, LENGTH, LATER)
    with monkeypatch.context() as patch:
        patch.setattr(InferenceClient, "reply", lost)
        with pytest.raises(InferenceLost):
            halved.rollout(weights, LENGTH, LATER)
    assert 9 < next(replies)
    pairs = [(half._window, half._counter.lengths.copy()) for half in halved._halves]
    trajectory, _ = halved.rollout(weights, 1, LATER)
    windows, lengths = zip(*pairs, strict=True)
    frames = np.concatenate([window[0] for window in windows], axis=1)
    assert np.array_equal(trajectory.observations[:1], frames)
    assert trajectory.recurrent_state is not None and trajectory.recurrent_state.any()
    found = np.concatenate([half._counter.lengths for half in halved._halves])
    before = np.concatenate(lengths)
    assert before.any()
    assert np.array_equal(found, before + trajectory.valid[0])
    halved.close()


def test_halves_resume_and_continue_each_other(serve: Serve) -> None:
    run = run_of("ppo", ENVS, **{**CARTPOLE, **PENDULUM, "env_kwargs": ()})
    weights = serve(run).policy_weights(1)
    plain, first = actors_of(run)
    _, second = actors_of(run)
    first.rollout(weights, LENGTH, LATER)
    state = first.state()
    assert len(state["noise"]) == ENVS == state["unfinished"]
    assert second.restore(state) == 0
    pair = [each.rollout(weights, LENGTH, LATER)[0] for each in (first, second)]
    for name in Trajectory._fields:
        np.testing.assert_equal(*(getattr(each, name) for each in pair))
    # An env actor that acts by itself begins new episodes.
    assert plain.restore(first.state()) == ENVS
    plain.rollout(weights._replace(server=None), LENGTH, LATER)
    assert second.restore(plain.state()) == ENVS
    second.rollout(weights, LENGTH, LATER)
    for damaged in ({**state, "halves": 1}, {"lengths": 1}, {**state, "halves": [{}]}):
        with pytest.raises(UserError, match="can't be restored"):
            second.restore(damaged)
    for each in (plain, first, second):
        each.close()


@pytest.mark.filterwarnings("ignore:__array__")
@pytest.mark.parametrize(
    ("agent", "settings", "expected"),
    [
        # With a GPU in one process, and on Ray; without one so, too.
        ("ppo", CARTPOLE, (False, False, False, False)),
        ("ppo", {"env": "dict_envs:compass"}, (True, True, False, False)),
        ("ppo", {**CARTPOLE, "model": whole_model}, (False, True, False, True)),
        ("ppo", {**CARTPOLE, "inference": "learner"}, (True,) * 4),
        ("ppo", {"env": "dict_envs:compass", "inference": "actor"}, (False,) * 4),
        ("td3", {**PENDULUM, "noise": "parameter"}, (False,) * 4),
    ],
    ids="vector dict keras learner actor parameters".split(),
)
def test_who_acts(
    agent: str, settings: dict[str, Any], expected: tuple[bool, ...]
) -> None:
    made = {k: x() if callable(x) else x for k, x in settings.items()}
    run = run_of(agent, ENVS, **made)
    places = itertools.product((True, False), repeat=2)
    assert tuple(run.serves(gpu, local) for gpu, local in places) == expected


def test_only_linux_shares_memory_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(UserError, match="as only Linux does: leave it out"):
        PlacementConfig(inference="learner")
    run = run_of("ppo", ENVS, env="dict_envs:compass")
    assert not run.serves(on_gpu=True, shares_process=False)


def test_actors_of_other_machines_act_by_themselves(serve: Serve) -> None:
    run = run_of("ppo", ENVS, **CARTPOLE)
    learner = serve(run)
    weights, (alone, halved) = learner.policy_weights(1), actors_of(run)
    assert weights.server is not None and learner.server is not None
    far = weights._replace(server=weights.server._replace(machine="another"))
    expected, found = (x.rollout(far, LENGTH, 0)[0] for x in (alone, halved))
    assert_alike(expected, found)
    assert learner.server._used == {}
    alone.close()
    halved.close()


def test_on_a_gpu_all_environments_are_one_batch(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An env's outputs are in its row, whoever else has asked."""
    monkeypatch.setattr(inference_server.runtime, "usable_gpus", lambda: ["a GPU"])
    run = run_of("ppo", ENVS, **CARTPOLE)
    learner = serve(run)
    weights, (alone, halved) = learner.policy_weights(1), actors_of(run)
    sizes = list[int]()
    assert learner.server is not None
    compute = learner.server._network.compute

    def sized(inputs: Any, weights: Any) -> Any:
        sizes.append(len(inputs[inference.INPUTS]))
        return compute(inputs, weights)

    monkeypatch.setattr(learner.server._network, "compute", sized)
    expected, _ = alone.rollout(weights._replace(server=None), LENGTH, LATER)
    assert_alike(expected, halved.rollout(weights, LENGTH, LATER)[0])
    assert set(sizes) == {ENVS}
    alone.close()
    halved.close()


def test_bfloat16(serve: Serve) -> None:
    """It acts in the precision in which it learns."""
    run = run_of(
        "ppo", ENVS, **CARTPOLE, precision="bfloat16", allow_slow_precision=True
    )
    weights = serve(run).policy_weights(1)
    alone, halved = actors_of(run)
    exact, _ = alone.rollout(weights._replace(server=None), 1, 0)
    rounded, _ = halved.rollout(weights, 1, 0)
    assert exact.values is not None and rounded.values is not None
    apart = np.abs(exact.values - rounded.values).max()
    assert 1e-6 < apart < 0.05
    alone.close()
    halved.close()
