"""What the tests share: runs as a user starts them, each in a process of its own."""

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

import forked
import psutil
import pytest
from processes import start

from xagents_ray.core.signals import Signals
from xagents_ray.storage.checkpoints import newest_valid

_TRAIN = """
import json, sys
import xagents_ray
agent, settings = json.loads(sys.argv[1])
if settings.get("max_steps", 10_000) < 10_000:  # XLA compiles longer than this takes
    settings.setdefault("jit", "off")
r = xagents_ray.train(agent, quiet=True, **settings)
print(json.dumps(dict(vars(r), episodes=r.episodes)))
"""
TrainAll = Callable[[str, Sequence[dict[str, Any]]], list[dict[str, Any]]]


_LONG = ("cluster", "commands", "contract", "learning")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the rooms with long tests first, so that the workers end together."""
    tests = Path(__file__).parent
    items.sort(key=lambda item: item.path.relative_to(tests).parts[0] not in _LONG)


def pytest_collection_finish() -> None:
    """Turn off TensorFlow's graph optimizer in this process.

    It takes half of a learner's first phase, and most tests have only that one.
    Trainings run in processes of their own, which keep it.
    """
    if tensorflow := sys.modules.get("tensorflow"):
        options = {"disable_meta_optimizer": True}
        tensorflow.config.optimizer.set_experimental_options(options)


@pytest.fixture(autouse=True)
def somewhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep what a test writes out of the checkout, and end what it left running.

    Nor does it join the cluster that this shell has.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    yield
    if not _has_children():  # psutil would read each process of the machine: 20 ms
        return
    for child in psutil.Process().children():
        # One that ends meanwhile, or has ended and isn't waited for, has no command.
        with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            if "xagents_ray" in child.cmdline():
                child.kill()


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


_NEXT = pytest.StashKey[pytest.Item | None]()
_machine: list[TextIO] = []
"""The lock's file, while this process holds it."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Note which test comes next."""
    item.stash[_NEXT] = nextitem


def _is_alone(item: pytest.Item | None) -> bool:
    return item is not None and item.get_closest_marker("alone") is not None


@pytest.fixture(autouse=True)
def share_of_the_machine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Let a test that is marked `alone` have the machine for itself.

    It is kept for the next one that is: the others would wait once for each.
    """
    item = request.node
    if not _machine:
        above = tmp_path_factory.getbasetemp().parent  # of this session's processes
        _machine.append((above / "machine").open("w"))
        with (above / "gate").open("w") as gate:
            fcntl.flock(gate, fcntl.LOCK_EX)  # so that nobody overtakes who waits
            fcntl.flock(
                _machine[0], fcntl.LOCK_EX if _is_alone(item) else fcntl.LOCK_SH
            )
    yield
    if not (_is_alone(item) and _is_alone(item.stash[_NEXT])):
        _machine.pop().close()


@pytest.fixture(scope="module")
def short_atari() -> Iterator[None]:
    """Register a game that ends after 800 frames."""
    import gymnasium as gym

    kwargs = dict(gym.spec("SpaceInvadersNoFrameskip-v4").kwargs)
    kwargs["max_num_frames_per_episode"] = 800
    gym.register("ShortInvaders-v0", "ale_py.env:AtariEnv", kwargs=kwargs)
    yield
    del gym.registry["ShortInvaders-v0"]


@pytest.fixture
def workers_import_support(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the processes of a Ray that a test starts import the modules of support."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent / "support"))


@pytest.fixture
def signals() -> Signals:
    """Return signals that no handler of a run takes."""
    made = Signals()
    made.on_first = None
    return made


@pytest.fixture(scope="session")
def train(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., dict[str, Any]]:
    """Return a function that trains in a process of its own and returns the Result."""
    runs = str(tmp_path_factory.mktemp("runs"))

    def run(agent: str, **settings: Any) -> dict[str, Any]:
        settings = {"run_dir": runs, **settings}
        done = forked.run(["-c", _TRAIN, json.dumps([agent, settings])], 900)
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        *before, last = done.stdout.splitlines()
        late = "Warning: The evaluation at "  # another one that isn't fast enough
        assert all(line.startswith(late) for line in before), done.stdout
        result: dict[str, Any] = json.loads(last)
        return result

    return run


@pytest.fixture(scope="session")
def train_all(
    train: Callable[..., dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> TrainAll:
    """Return a function that trains one agent with several settings, two at a time.

    Most of a short run is one core importing TensorFlow.
    """

    def run(agent: str, settings: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        # Runs of one second and seed would have one name in one directory.
        own = [{"run_dir": str(tmp_path_factory.mktemp("run"))} for _ in settings]
        with ThreadPoolExecutor(2) as pool:
            calls = zip(own, settings, strict=True)
            return list(pool.map(lambda x: train(agent, **{**x[0], **x[1]}), calls))

    return run


@pytest.fixture(scope="session")
def greedy_mean() -> Callable[[str, Path], float]:
    """Return a function that plays 20 greedy episodes with a run's final weights."""

    def mean(agent: str, run: Path) -> float:
        path = newest_valid(run / "checkpoints")
        assert path is not None
        words = ["--run", str(path), "--episodes", "20", "--seed", "1000", "--json"]
        done = forked.run(["-m", "xagents_ray", "evaluate", agent, *words], 300)
        assert done.returncode == 0, done.stderr
        return float(json.loads(done.stdout)["mean"])

    return mean


_HEAD = """
import json, logging, psutil, ray, sys
ray.init(address="local", include_dashboard=False, log_to_driver=False,
         logging_level=logging.CRITICAL, **json.loads(sys.argv[1]))
for child in psutil.Process().children():
    # Ten times a second it would read the logs of all workers so far.
    if any(word.endswith("log_monitor.py") for word in child.cmdline()):
        child.kill()
print(ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.read()
"""


@contextmanager
def _cluster(token: str, num_cpus: int = 4, num_gpus: int = 0) -> Iterator[str]:
    """Start a Ray cluster with a token, or with none; yield its address.

    Its workers have the niceness that runs and launch folders set: at Ray's default
    of 15, a test that trains in its own process would leave them almost no CPU time.
    """
    authentication = {"RAY_AUTH_MODE": "token" if token else "disabled"}
    own = {**authentication, "RAY_AUTH_TOKEN": token, "RAY_worker_niceness": "0"}
    own["REPORTER_UPDATE_INTERVAL_MS"] = "600000"  # no test reads its metrics
    own["RAY_TMPDIR"] = "/tmp"  # where other users can write to Ray's folder
    environment = {**os.environ, **own}
    resources = {"num_cpus": num_cpus, "num_gpus": num_gpus}
    given = json.dumps({**resources, "object_store_memory": 400_000_000})
    with start("-c", _HEAD, given, stdin=subprocess.PIPE, env=environment) as head:
        yield head.stdout.readline().strip()
        head.communicate()


@pytest.fixture(scope="session")
def start_cluster() -> Callable[..., AbstractContextManager[str]]:
    """Return a function that starts a cluster with a token, and CPUs and GPUs."""
    return _cluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[str]:
    """Start a Ray cluster without a token, for the whole session."""
    with _cluster("") as address:
        yield address
