"""A cluster of three nodes loses one in mid-run; the run reaches its target."""

import os
import re
import subprocess
import time
from pathlib import Path

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
