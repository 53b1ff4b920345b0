"""Large phases are pulled in chunks, and are those that one value would have been."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forked
import numpy as np
import pytest
import ray as real_ray
from fake_ray import FakeActor, FakeRay, Ref

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.cluster.run.feed import Receipt, chunk_size, pull
from xagents_ray.cluster.run.learner_service import LearnerService
from xagents_ray.cluster.run.replay_service import ReplayService
from xagents_ray.core.batches import Batch, assemble_batch
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Trajectory
from xagents_ray.settings.config import Config
from xagents_ray.storage.checkpoints import load_checkpoint, newest_valid

_SPEC = EnvSpec((2, 3), "uint8", 4, 6)


def _trajectory() -> Trajectory:
    """Return twenty steps of four environments."""
    random = np.random.default_rng(3)
    shape = 20, 4
    starts = np.zeros((24, 4), np.bool_)
    starts[3] = True
    return Trajectory(
        observations=random.integers(255, size=(24, 4, 2, 3), dtype=np.uint8),
        starts=starts,
        actions=random.integers(6, size=shape, dtype=np.int32),
        rewards=random.normal(size=shape).astype(np.float32),
        terminated=random.random(shape) < 0.1,
        truncated=np.zeros(shape, np.bool_),
        valid=np.ones(shape, np.bool_),
    )


def _shards(ray: FakeRay, count: int, **settings: Any) -> list[FakeActor]:
    given = {"env": "PongNoFrameskip-v4", "n_envs": 4, "replay_shards": count}
    row = find_algorithm("dqn")
    config = Config.of(row.config, {**given, **settings, "max_steps": 1})
    run = RunSpec(row, config, _SPEC, row.layouts(config.algorithm, _SPEC), seed=5)
    shards = [FakeActor(ray, ReplayService(run, n)) for n in range(count)]
    for each in shards:
        ray.get(each.start.remote())
        ray.get(each.insert.remote(_trajectory()))
    return shards


@pytest.fixture
def fetch(ray: FakeRay, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Let the feed fetch from fake actors; return what does."""

    def get(references: list[Any], timeout: float) -> list[Any]:
        return [ray.get(each, timeout) for each in references]

    monkeypatch.setattr(real_ray, "get", get)
    return get


@pytest.mark.parametrize("shares", [(48,), (30, 18), (4, 44), (48, 0)], ids=str)
@pytest.mark.parametrize("is_prioritized", [False, True], ids=["uniform", "errors"])
def test_the_batches_are_those_of_one_value(
    ray: FakeRay, fetch: Any, shares: tuple[int, ...], is_prioritized: bool
) -> None:
    """With one shard, a draw has 12 batches of 4; with several, 1 of each share."""
    sizes = [(12, 4)] if len(shares) == 1 else [(1, n) for n in shares]
    whole, pulled = (
        _shards(ray, len(shares), prioritized=is_prioritized, n_step=3)
        for _ in range(2)
    )
    samples, receipts = [], []
    for one, other, (k, n) in zip(whole, pulled, sizes, strict=True):
        if n:
            samples.append(ray.get(one.sample.remote(k, n)))
            receipts.append(ray.get(other.draw.remote(other, k, n, 5)))
    expected = assemble_batch(samples, 4, [5, 6]).sampled
    chunks = pull(receipts, 4, [5, 6])
    assert chunks.total == 12
    parts = [each.sampled for each in chunks.parts]
    assert [len(each.rewards) for each in parts] == [5, 5, 2]
    assert expected is not None
    for name, value in expected._asdict().items():
        if value is not None:
            joined = np.concatenate([getattr(each, name) for each in parts])
            np.testing.assert_array_equal(joined, value, err_msg=name)


def test_two_chunks_are_asked_ahead_and_all_of_them_again(
    ray: FakeRay, fetch: Any
) -> None:
    (shard,) = _shards(ray, 1)
    receipt = ray.get(shard.draw.remote(shard, 12, 4, 2))
    for _ in range(2):  # a new learner pulls the whole phase
        shard.asked.clear()
        parts = pull([receipt], 4, [1]).parts
        numbers = []
        for _ in parts:
            numbers.append(sum(name == "fetch" for name, _ in shard.asked))
        assert numbers == [3, 4, 5, 6, 6, 6]


def test_an_insertion_ends_what_was_drawn(ray: FakeRay) -> None:
    (shard,) = _shards(ray, 1)
    receipt = ray.get(shard.draw.remote(shard, 2, 4, 1))
    ray.get(shard.insert.remote())  # asks for the fill
    items = np.arange(4)[None]
    ray.get(shard.fetch.remote(receipt.number, items))
    ray.get(shard.insert.remote(_trajectory()))
    with pytest.raises(real_ray.exceptions.RayTaskError):
        ray.get(shard.fetch.remote(receipt.number, items))


@pytest.mark.parametrize(
    ("batches", "megabytes", "size"),
    [
        (12, 2.097152, 0),  # 24 MiB
        (13, 2, 4),
        (200, 0.524288, 16),  # 8 MiB in a chunk
        (200, 0.525, 4),
        (4_000, 1.2, 4),
        (10_000, 0.01, 256),
        (5, 30, 4),
        (4, 30, 0),
        (10_000, 0, 0),
    ],
)
def test_sizes_of_chunks(batches: int, megabytes: float, size: int) -> None:
    assert chunk_size(batches, int(megabytes * 10**6)) == size


def test_a_shard_has_two_minutes_for_a_chunk(ray: FakeRay, fetch: Any) -> None:
    (shard,) = _shards(ray, 1)
    receipt: Receipt = ray.get(shard.draw.remote(shard, 12, 4, 2))
    shard.hanging.add("fetch")
    chunks, before = pull([receipt], 4, [1]), ray.now
    with pytest.raises(real_ray.exceptions.GetTimeoutError):
        next(chunks.parts)
    assert ray.now - before == 120


def test_a_failed_shard_ends_the_feed(ray: FakeRay, fetch: Any) -> None:
    (shard,) = _shards(ray, 1)
    receipt: Receipt = ray.get(shard.draw.remote(shard, 12, 4, 2))
    chunks = pull([receipt], 4, [1])
    assert isinstance(next(chunks.parts), Batch)
    shard.die()
    with pytest.raises(real_ray.exceptions.RayActorError):
        for _ in chunks.parts:
            pass


def test_a_phase_that_loses_a_chunk_is_not_learned(ray: FakeRay, fetch: Any) -> None:
    (shard,) = _shards(ray, 1)
    learner = LearnerService(shard.instance._run)
    learner.start()
    before = learner.state()
    receipt = ray.get(shard.draw.remote(shard, 12, 32, 4))
    lost = receipt._replace(shard=_DiesLater(shard, 2))
    with pytest.raises(real_ray.exceptions.RayActorError):
        learner.update(2, 48, {}, lost)
    for name, array in learner.state().items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)
    outputs = learner.update(3, 48, {}, receipt)
    assert outputs.metrics["updates"] == 12
    assert outputs.metrics["seconds"] == 0  # of this clock
    assert int(learner.state()["optimizer/0"]) == 12


class _DiesLater:
    """A shard that dies after some chunks."""

    def __init__(self, shard: FakeActor, chunks: int) -> None:
        self._shard, self._left = shard, chunks
        self.fetch = self

    def remote(self, *arguments: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            return Ref(error=real_ray.exceptions.ActorDiedError())
        return self._shard.fetch.remote(*arguments)


_EQUAL = """
import json, sys
import xagents_ray
from xagents_ray.cluster.run import feed, replay_shards

feed.WHOLE_BYTES, feed.CHUNK_BYTES = 20_000, 1_000
sizes, chunk_size = set(), replay_shards.chunk_size

def noted(*arguments):
    sizes.add(chunk_size(*arguments))
    return chunk_size(*arguments)

replay_shards.chunk_size = noted
settings = {"env": "CartPole-v1", "n_envs": 4, "seed": 3, "max_steps": 1_500}
settings |= {"buffer_initial_size": 300, "train_frequency": 2, "policy_lag": 1}
runs = [
    xagents_ray.train("dqn", quiet=True, name=name, **settings, **more)
    for name, more in [("a", {"local": True}), ("b", {"n_actors": 1})]
]
print(json.dumps([sorted(sizes), [run.directory for run in runs]]))
"""


def test_on_ray_it_learns_what_one_process_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = forked.run(["-c", _EQUAL], 300)
    assert done.returncode == 0, done.stderr
    sizes, directories = json.loads(done.stdout.splitlines()[-1])
    assert sizes == [4]
    newest = [newest_valid(Path(each) / "checkpoints") for each in directories]
    local, remote = (load_checkpoint(each).arrays for each in newest if each)
    assert int(local["optimizer/0"]) > 500
    for name, array in local.items():
        np.testing.assert_array_equal(remote[name], array, err_msg=name)
