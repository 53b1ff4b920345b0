"""Nodes of a cluster are lost, and join, in mid-run; the run reaches its target."""

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from processes import start

_CLUSTER = """
import sys
from ray.cluster_utils import Cluster
store = {"object_store_memory": 200_000_000}
cluster = Cluster(
    initialize_head=True,
    head_node_args={"num_cpus": 2, "include_dashboard": False, **store},
)
nodes = [cluster.add_node(num_cpus=1, **store) for _ in range(2)]
cluster.wait_for_nodes()
print(cluster.address, flush=True)
sys.stdin.readline()
cluster.remove_node(nodes[0], allow_graceful=False)
print("removed", flush=True)
sys.stdin.readline()
cluster.shutdown()
"""
_CHANGING_CLUSTER = """
import sys, psutil, ray
from ray.cluster_utils import Cluster
store = {"object_store_memory": 200_000_000}
head = {"num_cpus": 0, "include_dashboard": False, **store}
cluster = Cluster(initialize_head=True, head_node_args=head)
# The learner claims the core of one node, and two env actors share that of the other.
def add():
    for _ in range(4):  # on a busy machine, a node may not start within Ray's limits
        before = set(psutil.Process().children())
        try:
            return cluster.add_node(num_cpus=1, **store)
        except Exception:
            for child in set(psutil.Process().children()) - before:
                child.kill()
nodes = [add() for _ in range(2)]
cluster.wait_for_nodes()
print(cluster.address, flush=True)
for line in sys.stdin:
    if line == "lose learner\\n":
        ray.init(cluster.address, logging_level="ERROR", log_to_driver=False)
        # Ray's public list of actors needs the dashboard.
        actors = ray._private.state.actors().values()
        learners = [a for a in actors if "Learner" in a["ActorClassName"]]
        home = {each["Address"]["NodeID"] for each in learners}
        ray.shutdown()
        nodes.sort(key=lambda node: node.node_id not in home)
    if line.startswith("lose"):
        cluster.remove_node(nodes.pop(0), allow_graceful=False)
    elif line == "add\\n":
        nodes.append(add())
    else:
        break
    print("done", flush=True)
cluster.shutdown()
"""
_GROWING_CLUSTER = """
import sys
from ray.cluster_utils import Cluster
store = {"object_store_memory": 200_000_000}
head = {"num_cpus": 2, "include_dashboard": False, **store}
cluster = Cluster(initialize_head=True, head_node_args=head)
cluster.wait_for_nodes()
print(cluster.address, flush=True)
nodes = []
for line in sys.stdin:
    if line == "add\\n":
        nodes.append(cluster.add_node(num_cpus=1, **store))
    elif line == "lose\\n":
        cluster.remove_node(nodes.pop(0), allow_graceful=False)
    else:
        break
    print("done", flush=True)
cluster.shutdown()
"""
_ENV = """
from pathlib import Path
import gymnasium as gym, numpy as np
class Paying(gym.Env):
    "Pays once the test has written a file."
    observation_space = gym.spaces.Box(-1, 1, (4,), np.float32)
    action_space = gym.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.pay = 0, float(Path("PAY").exists())
        return np.zeros(4, np.float32), {}
    def step(self, action):
        self.steps += 1
        return np.zeros(4, np.float32), self.pay, self.steps >= 20, False, {}
"""
_RUN = """
import sys
import xagents_ray.commands.cli as cli
from xagents_ray.cluster.run import actor_pool, learner_start
learner_start._REPORT_SECONDS, actor_pool._CLAIM_SECONDS = 3.0, 1.0
sys.exit(cli.run(sys.argv[1:]))
"""
_ELASTIC_RUN = """
import sys
import xagents_ray.commands.cli as cli
from xagents_ray.cluster.run import elastic
elastic._LOOK_SECONDS, elastic._REST_SECONDS = 1.0, 5.0
sys.exit(cli.run(sys.argv[1:]))
"""
_WORDS = (
    "train ppo --env paying:Paying --n-envs 4 --n-steps 16 --jit off "
    "--target-reward 19 --reward-buffer-size 20 --max-steps 100000000"
)

_AWAY_SECONDS = 6.0


class _Output:
    """What a run has printed, and how far the test has read it."""

    def __init__(self, run: "subprocess.Popen[str]", seconds: float) -> None:
        self._run, self._end = run, time.monotonic() + seconds
        self._read = 0

    @property
    def text(self) -> str:
        return Path("output").read_text()

    def wait_for(self, pattern: str) -> None:
        """Wait until a pattern occurs after the last one."""
        while not (found := re.compile(pattern).search(self.text, self._read)):
            assert self._run.poll() is None, self.text
            assert time.monotonic() < self._end, f"no {pattern} in\n{self.text}"
            time.sleep(0.2)
        self._read = found.end()

    def wait_for_steps(self) -> None:
        """Wait until the run has learned and collected more."""
        self._read = len(self.text)
        for _ in range(2):
            self.wait_for(r"steps: [1-9]")


@pytest.mark.slow
def test_a_run_survives_the_loss_of_a_node() -> None:
    environment = {**os.environ, "RAY_AUTH_MODE": "disabled", "RAY_TMPDIR": "/tmp"}
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with start("-c", _CLUSTER, env=environment, **pipes) as nodes:
        address = nodes.stdout.readline().strip()
        words = "train ppo --env CartPole-v1 --preset --seed 1 --n-actors 4".split()
        words += ["--target-reward", "450", "--max-steps", "300000"]
        with Path("output").open("w") as output:
            command = ["-m", "xagents_ray", *words, "--address", address]
            run = start(*command, stdout=output, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + 240
        while not re.search(r"steps: [1-9]", Path("output").read_text()):
            assert run.poll() is None, Path("output").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.2)
        nodes.stdin.write("\n")
        nodes.stdin.flush()
        assert nodes.stdout.readline() == "removed\n"
        code = run.wait(timeout=max(1, deadline - time.monotonic()))
        nodes.stdin.write("\n")
        nodes.stdin.flush()
    text = Path("output").read_text()
    assert code == 0, text
    assert "Reward achieved in" in text
    assert f"The Ray cluster at {address} requires no token, so whoever" in text
    assert "Other users of this machine can write to /tmp/ray/session" in text
    assert "it is replaced" in text or "it is restored" in text
    assert re.search(r"^Lost and replaced: ", text, re.MULTILINE)
    assert "Traceback" not in text


class _Changing(NamedTuple):
    """A run on a cluster that loses and gets nodes.

    Attributes:
        tell: function that sends the cluster a line, and waits until it has acted.
    """

    output: _Output
    tell: Callable[[str], None]
    address: str


@contextmanager
def _changing(cluster: str, run_code: str, words: str) -> Iterator[_Changing]:
    """Start a run on a cluster of its own; let it reach its target in the end."""
    Path("paying.py").write_text(_ENV.replace("PAY", str(Path("pay").absolute())))
    # A process that is gone is noticed after 3 seconds, not 15.
    quick = {"RAY_health_check_period_ms": "1000"}
    quick["RAY_health_check_failure_threshold"] = "3"
    own = {"RAY_AUTH_MODE": "disabled", "RAY_TMPDIR": "/tmp", **quick}
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with start("-c", cluster, env={**os.environ, **own}, **pipes) as nodes:
        address = nodes.stdout.readline().strip()

        def tell(line: str) -> None:
            nodes.stdin.write(f"{line}\n")
            nodes.stdin.flush()
            assert nodes.stdout.readline() == "done\n"

        with Path("output").open("w") as file:
            command = ["-c", run_code, *_WORDS.split(), *words.split()]
            command += ["--address", address]
            run = start(*command, stdout=file, stderr=subprocess.STDOUT)
        output = _Output(run, 900)  # on a busy machine, a node takes a minute to start
        try:
            yield _Changing(output, tell, address)
            Path("pay").touch()
            assert run.wait(timeout=60) == 0, output.text
        finally:
            run.kill()
            run.wait()
            nodes.stdin.write("end\n")
            nodes.stdin.flush()
    assert "Reward achieved in" in output.text
    assert "Traceback" not in output.text


@pytest.mark.slow
def test_a_run_continues_when_lost_nodes_are_back() -> None:
    """Both are away for a few seconds; longer waits have a test with Ray as a fake."""
    words = "--n-actors 2 --seed 1"
    with _changing(_CHANGING_CLUSTER, _RUN, words) as (output, tell, address):
        output.wait_for_steps()
        tell("lose learner")
        output.wait_for("The learner died; it is restored from its last snapshot")
        time.sleep(_AWAY_SECONDS)
        output.wait_for("Waiting for Ray to place a new learner.*--learner-timeout")
        tell("add")
        output.wait_for_steps()
        tell("lose actors")
        output.wait_for(r"Env actor \d died; it is replaced")
        output.wait_for_steps()
        time.sleep(_AWAY_SECONDS)
        tell("add")
        for _ in range(2):
            output.wait_for(r"Env actor \d is back on the cores of its claim")
    assert f"The Ray cluster at {address} requires no token, so whoever" in output.text
    assert "Other users of this machine can write to /tmp/ray/session" in output.text
    assert re.search(r"^Lost and replaced: ", output.text, re.MULTILINE)


@pytest.mark.slow
def test_env_actors_follow_the_nodes() -> None:
    """Two nodes join, and one of them is lost."""
    words = "--n-actors auto"
    with _changing(_GROWING_CLUSTER, _ELASTIC_RUN, words) as (output, tell, _):
        output.wait_for(": 2 env actors, seed")
        output.wait_for("so the run isn't reproducible")
        output.wait_for_steps()
        for _ in range(2):
            tell("add")
        output.wait_for("joined: 4 env actors, 1 environment each")
        output.wait_for_steps()
        tell("lose")
        output.wait_for(r"1 env actor left with lost nodes: 3 env actors, 1 or 2")
        output.wait_for_steps()
