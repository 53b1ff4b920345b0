"""Phases of many batches run in chunks, of which XLA compiles few sizes."""

import weakref
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from learner_support import make_learner, publish, random_transitions, sampled

from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.batches import Batch, Chunks
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Transitions, map_arrays
from xagents_ray.learners.learner import Learner
from xagents_ray.learners.padding import pad_batches, split_batches

FEW = EnvSpec((3,), "float32", 1, 2)
BOX = EnvSpec((3,), "float32", 1, 0, (-1.0,), (1.0,))


@pytest.mark.parametrize(
    ("count", "sizes", "padded"),
    [
        (1, [1], [4]),
        (4, [4], [4]),
        (5, [4, 1], [4, 4]),
        (7, [4, 3], [4, 4]),
        (8, [8], [16]),
        (16, [16], [16]),
        (17, [16, 1], [16, 4]),
        (31, [16, 15], [16, 16]),
        (63, [63], [64]),
        (65, [64, 1], [64, 4]),
        (100, [64, 36], [64, 64]),
    ],
)
def test_chunks_have_few_sizes(count: int, sizes: Any, padded: Any) -> None:
    made = random_transitions(FEW, count)
    chunks = list(split_batches(made))
    assert [len(each.rewards) for each in chunks] == sizes
    assert [len(pad_batches(each).rewards) for each in chunks] == padded
    joined = np.concatenate([each.observations for each in chunks])
    np.testing.assert_array_equal(joined, made.observations)


@pytest.mark.parametrize("agent", ["dqn", "sac"])
def test_numbers_are_those_of_one_call(
    agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With targets synced in mid-phase, and settings that decay over the run."""
    spec, learners = FEW if agent == "dqn" else BOX, []
    settings: dict[str, Any] = {"prioritized": True, "priority_beta": 0.4}
    if agent == "dqn":
        settings |= {"target_sync_steps": 24, "train_frequency": 4}
    config = find_algorithm(agent).config(**settings)
    for is_padded in (False, True):
        monkeypatch.setattr(Learner, "_pads_batches", is_padded)
        learner = make_learner(agent, config, spec, max_steps=400)
        outputs = [
            learner.learn(sampled(random_transitions(spec, k)), steps, {}, version)
            for version, (k, steps) in enumerate([(21, 100), (3, 200)], start=2)
        ]
        learners.append((learner, outputs))
    (plain, expected), (chunked, found) = learners
    for one, other in zip(expected, found, strict=True):
        assert other.metrics == pytest.approx(one.metrics, rel=1e-5)
        np.testing.assert_array_equal(other.priorities.rows, one.priorities.rows)
        np.testing.assert_array_equal(other.priorities.errors, one.priorities.errors)
    states = plain.state.arrays(), chunked.state.arrays()
    for name, array in states[0].items():
        np.testing.assert_array_equal(states[1][name], array, err_msg=name)


def test_stopped_chunks_learn_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Learner, "_pads_batches", True)
    config = find_algorithm("dqn").config(prioritized=True)
    learner = make_learner("dqn", config, FEW)
    before = publish(learner).arrays
    learner.stop()
    outputs = learner.learn(sampled(random_transitions(FEW, 5)), 10, {}, 7)
    assert outputs.metrics == {"updates": 0}
    assert outputs.priorities is not None and not len(outputs.priorities.errors)
    assert (learner.version, outputs.weights.version) == (7, 7)
    for name, array in outputs.weights.arrays.items():
        np.testing.assert_array_equal(array, before[name])


def test_the_peak_is_that_of_a_chunk() -> None:
    """65 batches were padded to 256: three copies of these, 12 × a chunk."""
    size, count = 4_000, 32
    spec = EnvSpec((size,), "float32", 1, 2)
    config = find_algorithm("dqn").config()
    learner = make_learner("dqn", config, spec, compiled=True)

    def data(k: int) -> Batch:
        observations = np.ones((k, count, 2, size), np.float32)
        starts, actions = np.zeros((k, count, 2), bool), np.zeros((k, count), np.int32)
        numbers = np.ones((2, k, count), np.float32)
        return sampled(Transitions(observations, starts, actions, *numbers))

    for k in (64, 1):
        learner.learn(data(k), 1, {}, 1)  # compiles
    batch = data(65)
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    learner.learn(batch, 2, {}, 2)
    chunk = 64 * count * 2 * size * 4
    assert _status("VmHWM") - before <= 2.5 * chunk


def _status(name: str) -> int:
    """Return a size of this process in bytes."""
    text = Path("/proc/self/status").read_text()
    return int(text.split(f"{name}:")[1].split()[0]) << 10


def test_chunks_that_arrive_one_by_one_are_one_phase() -> None:
    config = find_algorithm("dqn").config(
        prioritized=True, target_sync_steps=24, train_frequency=4
    )
    whole = random_transitions(FEW, 21)
    results = []
    for is_whole in (True, False):
        learner = make_learner("dqn", config, FEW, max_steps=400)
        batch: Any = sampled(whole)
        if not is_whole:
            batch = Chunks(21, _parts(batch, 8))
        results.append((learner.learn(batch, 100, {}, 2), learner.state.arrays()))
    (expected, before), (found, after) = results
    assert found.metrics == pytest.approx(expected.metrics, rel=1e-5)
    np.testing.assert_array_equal(found.priorities.rows, expected.priorities.rows)
    np.testing.assert_array_equal(found.priorities.errors, expected.priorities.errors)
    for name, array in before.items():
        np.testing.assert_array_equal(after[name], array, err_msg=name)


def test_only_the_newest_chunk_is_in_memory() -> None:
    """On Ray, a view of one of its arrays would keep it in the object store."""
    config = find_algorithm("dqn").config(prioritized=True)
    learner, alive = make_learner("dqn", config, FEW), list[Any]()

    def parts() -> Generator[Batch, None, None]:
        for _ in range(4):
            owners = [each() for each in alive[:-1]]
            assert not any(owner is not None for owner in owners)
            yield _in_one_piece(random_transitions(FEW, 8), alive)

    outputs = learner.learn(Chunks(32, parts()), 100, {}, 2)
    assert outputs.metrics["updates"] == 32 and len(alive) == 4
    assert all(each() is None for each in alive)


def _in_one_piece(made: Transitions, alive: list[Any]) -> Batch:
    """Return a batch of views of one array, as Ray does; add a reference to it."""
    arrays = {name: x for name, x in made._asdict().items() if x is not None}
    memory = np.empty(sum(array.nbytes for array in arrays.values()), np.uint8)
    first = 0
    for name, array in arrays.items():
        part = memory[first : first + array.nbytes].view(array.dtype)
        first += array.nbytes
        arrays[name] = part.reshape(array.shape)
        arrays[name][:] = array
    alive.append(weakref.ref(memory))
    return sampled(made._replace(**arrays))


def test_nothing_more_is_pulled_after_a_signal() -> None:
    learner = make_learner("dqn", find_algorithm("dqn").config(), FEW)
    parts = _parts(sampled(random_transitions(FEW, 21)), 8)
    learner.stop()
    outputs = learner.learn(Chunks(21, parts), 10, {}, 7)
    assert (outputs.metrics, learner.version) == ({"updates": 0}, 7)
    assert len(list(parts)) == 2


def _parts(batch: Batch, size: int) -> Generator[Batch, None, None]:
    """Yield batches of a phase in chunks."""
    for first in range(0, len(batch.sampled.rewards), size):
        rows = slice(first, first + size)
        yield Batch(None, map_arrays(lambda x, rows=rows: x[rows], batch.sampled))
