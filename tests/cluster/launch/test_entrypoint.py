"""What the image's entrypoint runs, as processes: a head, two workers."""

import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.request import Request, urlopen

import psutil
import pytest
from processes import kill_with_children, python
from ray._common.network_utils import node_ip_address_from_perspective

from xagents_ray.cluster.launch.folder import write_folder
from xagents_ray.cluster.ray import connection
from xagents_ray.core.errors import UserError

_ENV = """
import gymnasium
def make():
    return gymnasium.make("CartPole-v1")
"""
_COMMAND = (
    "train ppo --env own_env:make --n-envs 3 --n-actors 3 --max-steps 60000".split()
)
_JOIN = """
import sys, time
from xagents_ray.cluster.ray import connection
ray = connection.connect_to_ray(sys.argv[1], False, 0)
print(ray.get(ray.remote(lambda: "called").remote()), connection.ray_notes())
time.sleep(1.2)
for _ in range(100):  # a busy machine answers a probe late
    silent = connection._open[0].head.silent_seconds
    if not silent:
        break
    time.sleep(0.1)
print("silent for", silent)
"""
_HEAD = "127.0.0.9"
_WORKERS = ("127.0.0.10", "127.0.0.11")


class _Nodes:
    """A head and workers of one cluster, each with an address of its own.

    Attributes:
        environment: of commands for the cluster.
        running: what `end` ends, by its address or name.
        port: of the head.
        session: folder of their files; names of sockets in it are short.
    """

    def __init__(self, entrypoint: Path) -> None:
        self._entrypoint, token = entrypoint, secrets.token_hex(16)
        Path("token").write_text(token)
        Path("token").chmod(0o644)
        # Ray's workers have none of the ports above 20000.
        self.port, self._dashboard, self._client, self._agent = _free_ports(4)
        self._headers = {"Authorization": f"Bearer {token}"}
        self.session = Path(tempfile.mkdtemp(prefix="ray-"))
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        kept = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
        own = Path(sys.executable).parent
        self.environment = kept | {
            "PATH": f"{own}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(Path.cwd()),
            "HEAD": f"{_HEAD}:{self.port}",
            "RAY_ADDRESS": f"http://127.0.0.1:{self._dashboard}",
            "RAY_AUTH_TOKEN_PATH": str(Path("token").resolve()),
        }

    def encrypt(self) -> None:
        """Switch TLS on, with a CA that is made as the compose file says."""
        said = Path("docker/compose.yaml").read_text().replace("\\\n#", "")
        (command,) = re.findall(r"^# +(\(cd secrets/tls .*\))$", said, re.MULTILINE)
        done = subprocess.run(command, shell=True, cwd="docker", capture_output=True)
        assert done.returncode == 0, done.stderr
        self.environment |= {
            "RAY_USE_TLS": "1",
            "TLS_CA": str(Path("docker/secrets/tls").resolve()),
            "TMPDIR": str(self.session),
        }

    def start(self, role: str, address: str) -> None:
        """Start one and wait until it is healthy, as the image's HEALTHCHECK asks."""
        options = {
            "node-ip-address": address,
            "dashboard-agent-listen-port": self._agent + len(self.running),
            "temp-dir": f"{self.session}/{address}",
            "num-cpus": 2,
            "object-store-memory": 200_000_000,
        }
        if role == "head":
            options |= {"port": self.port, "ray-client-server-port": self._client}
            options |= {
                "dashboard-port": self._dashboard,
                "dashboard-host": "127.0.0.1",
            }
        words = [f"--{name}={value}" for name, value in options.items()]
        environment = dict(self.environment)
        del environment["RAY_ADDRESS"]
        with Path("nodes.log").open("ab") as log:
            command = ["sh", str(self._entrypoint), role, *words]
            self.running[address] = subprocess.Popen(
                command, env=environment, stdout=log, stderr=log
            )
        port = options["dashboard-agent-listen-port"]
        wait_for(lambda: _answers(f"http://{address}:{port}/api/healthz"))

    def states(self) -> list[str]:
        """Return the state of each node that there is or was."""
        url = f"{self.environment['RAY_ADDRESS']}/api/v0/nodes"
        with urlopen(Request(url, headers=self._headers), timeout=30) as answer:
            nodes = json.load(answer)["data"]["result"]["result"]
        return sorted(node["state"] for node in nodes)

    def lose(self, address: str) -> int:
        """Kill a node's raylet; return with what its container ends."""
        for each in psutil.Process(self.running[address].pid).children(recursive=True):
            if each.name() == "raylet":
                each.kill()
        return self.running[address].wait(timeout=60)

    def end(self) -> None:
        for node in self.running.values():
            kill_with_children(node.pid)
            node.wait()
        shutil.rmtree(self.session, ignore_errors=True)


def _free_ports(count: int) -> list[int]:
    servers = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [server.getsockname()[1] for server in servers]
    for server in servers:
        server.close()
    return ports


def _answers(url: str) -> bool:
    with suppress(OSError), urlopen(url, timeout=4) as answer:
        return bool(answer.status == 200)
    return False


def wait_for(is_so: Callable[[], object]) -> None:
    deadline = time.monotonic() + 120
    while not is_so():
        assert time.monotonic() < deadline, Path("nodes.log").read_text()
        time.sleep(0.2)


@pytest.fixture
def nodes(request: pytest.FixtureRequest) -> Iterator[_Nodes]:
    """A cluster, with TLS where the parameter says so."""
    write_folder("docker", _COMMAND, Path("docker"))
    made = _Nodes(Path("docker/entrypoint.sh").resolve())
    if getattr(request, "param", "") == "tls":
        made.encrypt()
    yield made
    made.end()


@pytest.mark.slow
@pytest.mark.parametrize("nodes", ["plain", "tls"], indirect=True)
def test_a_submitted_training_outlives_a_worker_that_comes_back(nodes: _Nodes) -> None:
    write_folder("ray", _COMMAND, Path("job"))
    Path("job/files/own_env.py").write_text(_ENV)
    nodes.start("head", _HEAD)
    for address in _WORKERS:
        nodes.start("worker", address)
    assert nodes.states() == ["ALIVE"] * 3
    refused = Request(f"{nodes.environment['RAY_ADDRESS']}/api/v0/nodes")
    with pytest.raises(OSError, match="401"):
        urlopen(refused, timeout=30)

    with Path("job.log").open("wb") as log:
        command = ["sh", "job/submit.sh"]
        job = nodes.running["job"] = subprocess.Popen(
            command, env=nodes.environment, stdout=log, stderr=subprocess.STDOUT
        )
    said = Path("job.log").read_text
    wait_for(lambda: re.search("steps: [1-9]", said()) or job.poll() is not None)
    assert job.poll() is None, said()
    assert nodes.lose(_WORKERS[0]) != 0  # Docker starts such a container again
    wait_for(lambda: nodes.states() == ["ALIVE", "ALIVE", "DEAD"])
    nodes.start("worker", _WORKERS[0])
    assert nodes.states() == ["ALIVE", "ALIVE", "ALIVE", "DEAD"]
    assert job.wait(timeout=300) == 0, said()
    assert "Lost and replaced: " in said() and "Traceback" not in said()
    (run,) = Path("runs/ppo").glob("*/*")
    assert json.loads((run / "summary.json").read_text())["env_steps"] >= 30_000


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"RAY_AUTH_TOKEN_PATH": "gone"}, "no token: let RAY_AUTH_TOKEN_PATH name a"),
        ({"RAY_USE_TLS": "1"}, "no CA: let TLS_CA name a folder with ca.crt and"),
    ],
)
def test_without_secrets_no_node_starts(
    given: dict[str, str], sentence: str, nodes: _Nodes
) -> None:
    environment = {**nodes.environment, **given}
    command = ["sh", "docker/entrypoint.sh", "worker"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 2
    assert f"There is {sentence}" in done.stderr


@pytest.mark.parametrize("nodes", ["tls"], indirect=True)
def test_a_run_joins_a_cluster_with_tls(
    nodes: _Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = node_ip_address_from_perspective()
    nodes.start("head", host)
    address = f"{host}:{nodes.port}"
    certificate, key = (
        str(next(nodes.session.rglob(f"node.{x}"))) for x in ("crt", "key")
    )
    own = {
        "RAY_TLS_CA_CERT": f"{nodes.environment['TLS_CA']}/ca.crt",
        "RAY_TLS_SERVER_CERT": certificate,
        "RAY_TLS_SERVER_KEY": key,
    }
    environment = nodes.environment | own
    done = python("-u", "-c", _JOIN, address, env=environment)
    said = f"{done.returncode}: {done.stderr}{Path('nodes.log').read_text()}"
    token = Path("token").resolve()
    about = "Other users of this machine can read the cluster's token in"
    note = f"{about} {token}, and with it run code on all nodes: chmod 600 {token}."
    assert done.stdout == f"called {[note]}\nsilent for 0.0\n", said

    refusals = (
        ({}, "a cluster with TLS needs RAY_USE_TLS=1 here too"),
        ({"RAY_USE_TLS": "1"}, "RAY_TLS_CA_CERT isn't the path of a file: set"),
        (
            {"RAY_USE_TLS": "1", **own, "RAY_TLS_CA_CERT": key},
            "can't be used .*: give PEM files",
        ),
        (
            {"RAY_USE_TLS": "1", **own, "RAY_TLS_CA_CERT": certificate},
            "TLS fails: unable",
        ),
    )
    for given, sentence in refusals:
        with monkeypatch.context() as changed:
            for name, value in given.items():
                changed.setenv(name, value)
            with pytest.raises(UserError, match=sentence):
                connection.connect_to_ray(address, False, 0)
