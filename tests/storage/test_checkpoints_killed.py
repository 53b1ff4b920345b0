"""Checkpoints of a writer that is killed; run as a script, this file is the writer."""

import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from xagents_ray.core.trajectory import Array
from xagents_ray.storage.arrays import write_arrays
from xagents_ray.storage.checkpoint_writer import CheckpointWriter
from xagents_ray.storage.checkpoints import (
    all_checkpoints,
    best_checkpoint,
    load_checkpoint,
    newest_valid,
    read_replay,
    replay_files,
    step_of,
)

KEEP = 3
SEED = 29


class Written(NamedTuple):
    """What the writer does at a step, and reports after."""

    step: int
    is_best: bool
    replay: bool


def arrays_of(step: int, scale: int) -> dict[str, Array]:
    """Return 1 to 5 MB at a scale of 1000, a function of the step."""
    rng = np.random.default_rng(step)
    size = int(rng.integers(200, 1000)) * scale
    return {
        "policy/dense-0/kernel": np.full(size, step, np.float32),
        "policy/dense-0/bias": np.full((3, scale), step, np.int64),
        "optimizer/0": rng.random(size // 4),
    }


def replay_of(step: int, shard: int, scale: int) -> dict[str, Array]:
    return {"frames": np.full((scale, 300), step % 256 ^ shard, np.uint8)}


def write(writer: CheckpointWriter, plan: Written, scale: int) -> None:
    def shards(folder: Path) -> None:
        for shard in range(2):
            write_arrays(folder / f"{shard}.npz", replay_of(plan.step, shard, scale))

    writer.write(
        plan.step,
        arrays_of(plan.step, scale),
        {"step": plan.step},
        is_best=plan.is_best,
        write_replay=shards if plan.replay else None,
    )


def newest(directory: Path) -> int:
    """Return the step of the newest checkpoint, which a writer continues from."""
    found = all_checkpoints(directory)
    return step_of(found[0]) if found else 0


def plans(step: int, seed: int) -> Iterator[Written]:
    """Continue from a step, at times with the same one."""
    rng = random.Random(seed)
    while True:
        step += rng.choice([0, 1, 100])
        yield Written(step, rng.random() < 0.3, rng.random() < 0.3)


def run_child(directory: Path, seed: int, scale: int, deadly: int) -> None:
    """Write forever; or 9 times, killed before the file operation `deadly`."""
    changes = {"os.rename", "os.remove", "os.rmdir", "os.mkdir"}
    count = itertools.count(1)

    def hook(event: str, args: tuple[Any, ...]) -> None:
        is_change = event in changes or (event == "open" and args[1] in ("xb", "wb"))
        if is_change and next(count) == deadly:
            os.kill(os.getpid(), signal.SIGKILL)

    if deadly:
        sys.addaudithook(hook)
    start = newest(directory)
    writer = CheckpointWriter(directory, KEEP, start)
    for plan in itertools.islice(plans(start, seed), 9 if deadly else None):
        write(writer, plan, scale)
        os.write(1, b"%d %d %d\n" % plan)


def serve() -> None:
    """Fork a writer for each line `directory seed scale deadly seconds`."""
    for line in sys.stdin:
        directory, *numbers, seconds = line.split()
        child = os.fork()
        if child == 0:
            try:
                run_child(Path(directory), *map(int, numbers))
            except BaseException:
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        if float(seconds):
            time.sleep(float(seconds))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        os.write(1, b"end %d\n" % os.waitstatus_to_exitcode(status))


class Server:
    """Runs writers, which start in milliseconds."""

    def __init__(self) -> None:
        path = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        )

    def run(self, directory: Path, *numbers: float) -> tuple[list[Written], int]:
        """Return what a writer reported, and how it ended."""
        process = self._process
        assert process.stdin and process.stdout
        print(directory, *numbers, file=process.stdin, flush=True)
        written = []
        while not (line := process.stdout.readline()).startswith("end"):
            step, is_best, replay = map(int, line.split())
            written.append(Written(step, bool(is_best), bool(replay)))
        return written, int(line.split()[1])

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """One in memory, where a kill hits more than syncs; else on the disk."""
    memory = Path("/dev/shm")
    parent = memory if os.access(memory, os.W_OK) else tmp_path
    with tempfile.TemporaryDirectory(dir=parent) as name:
        yield Path(name) / "checkpoints"


def check(directory: Path, scale: int, last: int, last_best: int) -> None:
    """Every checkpoint that is there is whole, and the last ones reported are."""
    found = all_checkpoints(directory)
    for path in found:
        checkpoint = load_checkpoint(path)
        step = checkpoint.facts["step"]
        assert step_of(path) == step
        expected = arrays_of(step, scale)
        assert checkpoint.arrays.keys() == expected.keys()
        for name, array in expected.items():
            assert np.array_equal(checkpoint.arrays[name], array), (path, name)
        files = replay_files(path)
        assert [p.name for p in files] in ([], ["0.npz", "1.npz"])
        for shard, file in enumerate(files):
            frames = read_replay(file)["frames"]
            assert np.array_equal(frames, replay_of(step, shard, scale)["frames"])
    assert newest_valid(directory) == (found[0] if found else None)
    assert last == -1 or step_of(found[0]) >= last
    if last_best != -1:
        newest_best = best_checkpoint(directory)
        assert newest_best is not None
        assert step_of(newest_best) >= last_best


def newest_step(written: list[Written], before: int = -1, best: bool = False) -> int:
    return max([before, *(w.step for w in written if w.is_best or not best)])


def check_continues(directory: Path, scale: int) -> None:
    """A new writer clears up and writes."""
    step = newest(directory)
    writer = CheckpointWriter(directory, KEEP, step)
    write(writer, Written(step + 1, False, True), scale)
    names = sorted(entry.name for entry in directory.iterdir())
    assert names == sorted(p.name for p in all_checkpoints(directory))
    assert len(names) <= KEEP + 1  # the best
    assert len({name.rstrip("~") for name in names}) == len(names)
    assert len([p for p in all_checkpoints(directory) if replay_files(p)]) == 1


def test_killed_at_50_random_moments(directory: Path, server: Server) -> None:
    rng = random.Random(0)
    last = last_best = -1
    reported = 0
    for seed in range(50):
        written, end = server.run(directory, seed, 1000, 0, rng.uniform(0.01, 0.2))
        assert end == -signal.SIGKILL
        last = newest_step(written, last)
        last_best = newest_step(written, last_best, best=True)
        check(directory, 1000, last, last_best)
        reported += len(written)
    assert reported > 5
    assert last_best > 0
    check_continues(directory, 1000)


def test_killed_before_every_change_of_a_name(directory: Path, server: Server) -> None:
    """Nine writes: the same step again, rotation, bests and replays among them."""
    for deadly in itertools.count(1):
        written, end = server.run(directory, SEED, 1, deadly, 0)
        last, last_best = newest_step(written), newest_step(written, best=True)
        check(directory, 1, last, last_best)
        check_continues(directory, 1)
        shutil.rmtree(directory)
        if end == 0:
            break
        assert end == -signal.SIGKILL
    assert deadly > 60
    assert len({w.step for w in written}) < len(written) == 9
    assert 1 < sum(w.is_best for w in written) < 5
    assert 1 < sum(w.replay for w in written) < 5


if __name__ == "__main__":
    serve()
