"""Env actors join with two nodes of a real cluster, and leave with one of them."""

import os
import subprocess
from pathlib import Path

import pytest
from processes import start
from test_nodes import _ENV, _Output

_CLUSTER = """
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
_RUN = """
import sys
import xagents_ray.commands.cli as cli
from xagents_ray.cluster.run import elastic
elastic._LOOK_SECONDS, elastic._REST_SECONDS = 1.0, 5.0
sys.exit(cli.run(sys.argv[1:]))
"""
_WORDS = (
    "train ppo --env paying:Paying --n-envs 4 --n-actors auto --n-steps 16 --jit off "
    "--target-reward 19 --reward-buffer-size 20 --max-steps 100000000"
)


@pytest.mark.slow
def test_env_actors_follow_the_nodes_of_a_cluster() -> None:
    Path("paying.py").write_text(_ENV.replace("PAY", str(Path("pay").absolute())))
    own = {
        "RAY_AUTH_MODE": "disabled",
        "RAY_TMPDIR": "/tmp",
        # A node that is gone is noticed after 3 seconds, not 15.
        "RAY_health_check_period_ms": "1000",
        "RAY_health_check_failure_threshold": "3",
    }
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with start("-c", _CLUSTER, env={**os.environ, **own}, **pipes) as nodes:
        address = nodes.stdout.readline().strip()

        def tell(line: str) -> None:
            nodes.stdin.write(f"{line}\n")
            nodes.stdin.flush()
            assert nodes.stdout.readline() == "done\n"

        with Path("output").open("w") as file:
            words = *_WORDS.split(), "--address", address
            run = start("-c", _RUN, *words, stdout=file, stderr=subprocess.STDOUT)
        output = _Output(run, 600)
        try:
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
            Path("pay").touch()
            assert run.wait(timeout=60) == 0, output.text
        finally:
            run.kill()
            run.wait()
            nodes.stdin.write("end\n")
            nodes.stdin.flush()
    assert "Reward achieved in" in output.text
    assert "Traceback" not in output.text
