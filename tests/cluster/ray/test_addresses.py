"""Which Ray `--address` and RAY_ADDRESS name."""

import os
import runpy
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from xagents_ray.cluster.ray import addresses, connection, own_ray
from xagents_ray.cluster.ray.addresses import check_in_use, resolve
from xagents_ray.core.errors import UserError
from xagents_ray.core.signals import Signals
from xagents_ray.settings.resources import ConnectionConfig

HEAD, OTHER = "10.0.0.1:6379", "10.0.0.2:6379"


@pytest.mark.parametrize(
    ("given", "variable", "expected"),
    [
        (None, None, (None, "RAY_ADDRESS")),
        (None, "", (None, "RAY_ADDRESS")),
        (None, HEAD, (HEAD, "RAY_ADDRESS")),
        (None, "local", (None, "RAY_ADDRESS")),
        (OTHER, HEAD, (OTHER, "--address")),
        ("auto", HEAD, (HEAD, "RAY_ADDRESS")),
        ("local", HEAD, (None, "--address")),
    ],
)
def test_the_flag_comes_before_the_variable(
    given: str | None, variable: str | None, expected: tuple[str | None, str]
) -> None:
    environ = {} if variable is None else {"RAY_ADDRESS": variable}
    assert resolve(given, environ) == expected


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("ray://head:10001", "is for Ray Client, with which no run trains: name the"),
        ("http://head:8265", "job submit --address http://head:8265 -- xagents-ray"),
        ("https://head", "is the address of a dashboard: submit the command"),
        ("head", "is not host:port, auto or local; Ray's port is 6379 unless"),
        ("head:port", "is not host:port"),
    ],
)
def test_an_address_of_another_kind(address: str, words: str) -> None:
    with pytest.raises(UserError, match=rf"^--address {address} .*{words}"):
        resolve(address, {})
    with pytest.raises(UserError, match=rf"^RAY_ADDRESS {address} .*{words}") as error:
        resolve(None, {"RAY_ADDRESS": address})
    assert ("or --address local" in str(error.value)) is ("://" in address)


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Addresses of the clusters that have a node on this machine."""
    running: list[str] = []

    def processes(_: list[str]) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(info={"cmdline": None})
        yield SimpleNamespace(info={"cmdline": ["grep", f"--gcs-address={OTHER}"]})
        for each in running:
            words = ["/opt/ray/raylet/raylet", "--port=0", f"--gcs-address={each}"]
            yield SimpleNamespace(info={"cmdline": words})

    monkeypatch.setattr(psutil, "process_iter", processes)
    return running


def test_the_current_cluster_is_found(nodes: list[str], tmp_path: Path) -> None:
    environ = {"RAY_TMPDIR": str(tmp_path), "RAY_ADDRESS": "auto"}
    with pytest.raises(UserError, match="RAY_ADDRESS auto: no Ray cluster runs on thi"):
        resolve(None, environ)
    nodes.append(OTHER)
    assert resolve("auto", environ)[0] == OTHER
    nodes.append(HEAD)
    with pytest.raises(UserError, match=f"several Ray .*{HEAD}, {OTHER}.: name one"):
        resolve(None, environ)
    (tmp_path / "ray").mkdir()
    note = tmp_path / "ray" / "ray_current_cluster"
    note.write_text(f"{HEAD}\n")
    assert resolve("auto", environ)[0] == HEAD
    nodes.remove(HEAD)  # it was killed, so that its note was left
    assert resolve("auto", environ)[0] == OTHER
    nodes.remove(OTHER)  # or the processes can't be seen
    assert resolve("auto", environ)[0] == HEAD


def _own_addresses() -> list[str]:
    found = [each for x in psutil.net_if_addrs().values() for each in x]
    return [x.address for x in found if x.family is socket.AF_INET]


def test_a_ray_has_several_names() -> None:
    for used in (f"{x}:6379" for x in _own_addresses()):
        for name in ("127.0.0.1", "localhost", *_own_addresses()):
            check_in_use(f"{name}:6379", used, is_own=False)
        with pytest.raises(UserError, match="is not the Ray at"):
            check_in_use("localhost:6380", used, is_own=False)
    check_in_use("auto", HEAD, is_own=False)
    with pytest.raises(UserError, match=f"--address {OTHER} is not the Ray at {HEAD}"):
        check_in_use(OTHER, HEAD, is_own=False)
    with pytest.raises(UserError, match="is for Ray Client"):
        check_in_use("ray://10.0.0.1:6379", HEAD, is_own=False)


def test_the_name_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    here = _own_addresses()[-1]
    known = {"here": "127.0.1.1", "head": "10.0.0.1", here: here}

    def look_up(host: str, _: None) -> list[tuple[object, ...]]:
        if host not in known:
            raise socket.gaierror
        return [(0, 0, 0, "", (known[host], 0))]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    check_in_use("here:6379", f"{here}:6379", is_own=False)
    check_in_use("head:6379", HEAD, is_own=False)
    for wrong in ("here", "elsewhere"):
        with pytest.raises(UserError, match="is not the Ray at"):
            check_in_use(f"{wrong}:6379", HEAD, is_own=False)


def test_an_own_ray_beside_the_one_in_use() -> None:
    check_in_use("local", HEAD, is_own=True)
    with pytest.raises(UserError, match="--address local starts a Ray, and this prog"):
        check_in_use("local", HEAD, is_own=False)


def test_the_variable_is_said_and_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    said: list[str] = []
    with Signals() as signals, pytest.raises(UserError, match="No Ray cluster answ"):
        connection.start_ray(ConnectionConfig(), 0, signals, said.append)
    assert said == ["Joining the Ray cluster at 127.0.0.1:1 (RAY_ADDRESS)..."]


REPORTER = (
    "ray.dashboard.modules.reporter.reporter_consts",
    "REPORTER_UPDATE_INTERVAL_MS",
)
MONITOR = "ray._private.log_monitor", "RAY_LOG_MONITOR_MANY_FILES_THRESHOLD"


@pytest.mark.parametrize(
    ("variable", "dashboard", "given", "expected"),
    [
        (REPORTER, False, None, "60000"),
        (REPORTER, False, "1000", "1000"),
        (REPORTER, True, None, None),
        (MONITOR, True, None, "0"),
        (MONITOR, False, "9", "9"),
    ],
)
def test_what_few_need_is_measured_and_listed_rarely(
    monkeypatch: pytest.MonkeyPatch,
    variable: tuple[str, str],
    dashboard: bool,
    given: str | None,
    expected: str | None,
) -> None:
    """Without the dashboard, nobody sees statistics of each process."""
    module, name = variable
    monkeypatch.setenv(name, "7")
    assert runpy.run_module(module)[name] == 7
    monkeypatch.delenv(name)
    if given is not None:
        monkeypatch.setenv(name, given)
    seen: list[str | None] = []

    def begin(*_: object) -> None:
        seen.append(os.environ.get(name))
        raise UserError("enough")

    monkeypatch.setattr(own_ray, "_init_twice", begin)
    with pytest.raises(UserError, match="enough"):
        connection.connect_to_ray(None, dashboard, 0)
    assert seen == [expected]
    assert os.environ.get(name) == given


def test_an_own_ray_sees_nothing_of_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray would merge the job's working directory into it."""
    (name,) = addresses.NOT_FOR_OWN_RAY
    constants = pytest.importorskip("ray._private.runtime_env.constants")
    assert name == constants.RAY_JOB_CONFIG_JSON_ENV_VAR
    monkeypatch.setenv(name, "{}")
    seen: list[bool] = []

    def begin(*_: object) -> object:
        seen.append(name in os.environ)
        return SimpleNamespace(shutdown=lambda: None)

    monkeypatch.setattr(connection, "start_here", begin)
    ray = connection.connect_to_ray(None, False, 0)
    connection.leave_ray(ray)
    assert seen == [False]
    assert os.environ[name] == "{}"
    assert not connection._open
