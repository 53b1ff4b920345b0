"""Starting Ray, joining a cluster and leaving it, with as little of Ray as will do."""

import http.server
import importlib
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.cookiejar import CookieJar
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import psutil
import pytest
from processes import wait_for

from xagents_ray.cluster.ray import authentication, connection, own_ray, ray_session
from xagents_ray.cluster.ray.authentication import DashboardLink
from xagents_ray.cluster.ray.ray_session import RayProcesses, RaySession
from xagents_ray.core.errors import UserError
from xagents_ray.core.signals import Signals
from xagents_ray.settings.resources import ConnectionConfig

_SLEEP = ["sleep", "60"]
_FILES = ("SERVER_KEY", "SERVER_CERT", "CA_CERT")


@pytest.fixture
def processes() -> Iterator[RayProcesses]:
    """Two processes that Ray has started: one of its own, and a worker below it."""
    services = importlib.import_module("ray._private.services")
    made = RayProcesses()
    with made.starting():
        services.ConsolePopen(["sh", "-c", "sleep 60 & wait"])
    while len(made.all()) < 2:
        time.sleep(0.01)
    yield made
    made.end()


def test_ray_does_not_get_the_signals_of_the_process_group(
    processes: RayProcesses,
) -> None:
    for each in processes.all():
        assert os.getpgid(each.pid) != os.getpgid(0)


def test_a_release_of_ray_without_the_hook_starts_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    services = importlib.import_module("ray._private.services")
    monkeypatch.delattr(services, "ConsolePopen")
    made = RayProcesses()
    with made.starting():
        assert not hasattr(services, "ConsolePopen")
    folder = made.create_folder().parent
    made.watch()
    assert made.all() == []
    assert not made.is_broken
    made.end()
    made.close()
    assert not folder.exists()


def test_leaving_ends_what_ray_has_started_and_nothing_else(
    processes: RayProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = RaySession(processes=processes)
    monkeypatch.setattr(connection, "_open", [made])
    below = processes.all()
    with subprocess.Popen(_SLEEP) as own:
        connection.leave_ray(SimpleNamespace(shutdown=lambda: None))
        assert psutil.wait_procs(below, timeout=5)[1] == []
        assert own.poll() is None
        own.kill()


def test_a_ray_whose_vital_process_has_ended_is_lost(tmp_path: Path) -> None:
    services = importlib.import_module("ray._private.services")
    server = tmp_path / "gcs_server"
    server.symlink_to("/bin/cat")
    made = RayProcesses()
    with made.starting():
        services.ConsolePopen([str(server)], stdin=subprocess.PIPE)
        services.ConsolePopen(["true"]).wait()
    assert not made.is_broken
    made.own[0].communicate()
    assert made.is_broken


def test_the_environment_is_what_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    before, made = dict(os.environ), RaySession()
    made.set(authentication.for_own_ray())
    assert os.environ["RAY_AUTH_MODE"] == "token"
    assert len(os.environ["RAY_AUTH_TOKEN"]) == 64
    made.restore()
    assert dict(os.environ) == before


def test_a_ray_that_is_imported_already_hears_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By itself it reads its mode once, when it is imported."""
    raylet = importlib.import_module("ray._raylet")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    made = RaySession()
    made.set(authentication.for_own_ray())
    own_ray.import_ray(logs=True)
    assert raylet.get_authentication_mode() == raylet.AuthenticationMode.TOKEN
    made.restore()
    assert raylet.get_authentication_mode() == raylet.AuthenticationMode.DISABLED


def test_a_token_of_the_user_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "mine")
    assert authentication.for_own_ray()["RAY_AUTH_TOKEN"] == "mine"


Serve = Callable[[grpc.StatusCode | None], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Return a function that starts a server, which answers so, at an address."""
    servers = []

    def start(code: grpc.StatusCode | None) -> str:
        def answer(request: bytes, context: Any) -> bytes:
            if code is not None:
                context.abort(code, "")
            return b""

        class All(grpc.GenericRpcHandler):  # type: ignore[misc]
            def service(self, details: Any) -> Any:
                return grpc.unary_unary_rpc_method_handler(answer)

        server = grpc.server(ThreadPoolExecutor(1), [All()])
        if "RAY_USE_TLS" in os.environ:
            files = (Path(os.environ[f"RAY_TLS_{x}"]) for x in _FILES)
            key, certificate, authority = (each.read_bytes() for each in files)
            pair = [(key, certificate)]
            tls = grpc.ssl_server_credentials(pair, authority, True)
            port = server.add_secure_port("127.0.0.1:0", tls)
        else:
            port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        servers.append(server)
        return f"127.0.0.1:{port}"

    yield start
    for server in servers:
        server.stop(None)


@pytest.fixture(params=[False, True], ids=["plain", "tls"])
def encryption(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether TLS is on, here and where a server starts."""
    if not request.param:
        return
    key, certificate = tmp_path / "key", tmp_path / "certificate"
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc".split()
    words += ["-subj", "/CN=ray", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", key, "-out", certificate]
    subprocess.run(["openssl", *words, *files], check=True, capture_output=True)
    monkeypatch.setenv("RAY_USE_TLS", "1")
    for name, path in zip(_FILES, (key, certificate, certificate), strict=True):
        monkeypatch.setenv(f"RAY_TLS_{name}", str(path))


@pytest.mark.usefixtures("encryption")
@pytest.mark.parametrize(
    ("has_token", "given"),
    [(True, None), (False, None), (True, "disabled"), (False, "token")],
)
@pytest.mark.parametrize(
    ("code", "mode"), [(None, "disabled"), (grpc.StatusCode.UNAUTHENTICATED, "token")]
)
def test_a_cluster_is_asked_for_its_mode(
    has_token: bool,
    given: str | None,
    code: grpc.StatusCode | None,
    mode: str,
    serve: Serve,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever is here: a token, as Ray's plain `ray.init()` leaves one, or a mode."""
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    if given is not None:
        monkeypatch.setenv("RAY_AUTH_MODE", given)
    monkeypatch.setenv("HOME", str(tmp_path))
    if has_token:
        (tmp_path / ".ray").mkdir()
        (tmp_path / ".ray" / "auth_token").write_text("secret")
    assert authentication.for_cluster(serve(code)) == {"RAY_AUTH_MODE": mode}


def test_a_cluster_whose_token_is_not_here(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    before = dict(os.environ)
    with pytest.raises(UserError, match="requires a token: set RAY_AUTH_TOKEN"):
        connection.connect_to_ray(serve(grpc.StatusCode.UNAUTHENTICATED), False, 0)
    assert dict(os.environ) == before
    assert not connection._open


def test_joining_is_announced() -> None:
    said: list[str] = []
    with Signals() as signals, pytest.raises(UserError, match="No Ray cluster"):
        flags = ConnectionConfig(address="127.0.0.1:1")
        connection.start_ray(flags, 0, signals, said.append)
    assert said == ["Joining the Ray cluster at 127.0.0.1:1..."]


def test_a_trial_of_a_sweep_announces_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process is one of Ray's already."""
    ray = SimpleNamespace(is_initialized=lambda: True)
    monkeypatch.setitem(sys.modules, "ray", ray)
    said: list[str] = []
    assert connection.start_ray(ConnectionConfig(), 0, Signals(), said.append) is ray
    assert said == []


def test_another_address_than_that_of_the_ray_in_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    context = SimpleNamespace(gcs_address="10.0.0.1:6379")
    ray = SimpleNamespace(
        is_initialized=lambda: True, get_runtime_context=lambda: context
    )
    monkeypatch.setitem(sys.modules, "ray", ray)
    same, other = (ConnectionConfig(address=f"10.0.0.{n}:6379") for n in (1, 2))
    assert connection.start_ray(same, 0, Signals(), print) is ray
    with pytest.raises(UserError, match="is not the Ray at 10"):
        connection.start_ray(other, 0, Signals(), print)


def test_a_run_within_another_one_leaves_its_ray(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As when a callback trains too."""
    events: list[str] = []
    ray = SimpleNamespace(
        is_initialized=lambda: True, shutdown=lambda: events.append("shut down")
    )
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setattr(connection, "_open", [RaySession()])
    assert connection.start_ray(ConnectionConfig(), 0, Signals(), print) is ray
    connection.leave_ray(ray, lambda: events.append("the inner run left"))
    assert events == ["the inner run left"]
    connection.leave_ray(ray, lambda: events.append("the outer run left"))
    assert events[1:] == ["the outer run left", "shut down"]


@pytest.mark.parametrize("address", ["head..local:6379", f"{'a' * 64}:6379"])
def test_a_host_that_is_no_name(address: str) -> None:
    with pytest.raises(UserError, match=r"not the name of a machine\): check"):
        connection.connect_to_ray(address, False, 0)


def test_brackets_of_ipv6_are_no_part_of_the_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def silence(host: str, *_: Any) -> str:
        asked.append(host)
        return "no answer"

    monkeypatch.setattr(ray_session, "why_silent", silence)
    with pytest.raises(UserError, match=r"at \[::1\]:6379 \(no answer\)"):
        connection.connect_to_ray("[::1]:6379", False, 0)
    assert asked == ["::1"]


def test_a_machine_outside_the_cluster_is_told_how_to_join() -> None:
    """Ray looks for a node on this machine."""
    error = RuntimeError("No node info found matching attributes: ''")
    said = str(connection._refused("10.0.0.1:6379", error))
    assert "`ray start --address 10.0.0.1:6379 --num-cpus 0` makes this" in said


def test_rays_reason_is_shown_whole() -> None:
    error = RuntimeError("Version mismatch:\n  cluster has 2.56.0\n  this has 2.60.0.")
    said = str(connection._refused("10.0.0.1:6379", error))
    assert "Version mismatch: cluster has 2.56.0 this has 2.60.0; run" in said


def test_a_silent_head_counts_as_lost_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And not any more when it answers again."""
    monkeypatch.setattr(ray_session, "_REPEAT_SECONDS", 0.05)
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]
    answers = threading.Event()
    answers.set()

    def answer() -> None:
        while True:
            link, _ = server.accept()
            with link:
                if answers.is_set():
                    link.sendall(b"\0\0\0\4\0\0\0\0\0")

    threading.Thread(target=answer, daemon=True).start()
    assert ray_session.why_silent("127.0.0.1", port) == ""
    patient, other = (ray_session.HeadProbe("127.0.0.1", port, s) for s in (1_000, 0.2))
    answers.clear()
    wait_for(lambda: patient.silent_seconds > 0 and other.is_gone)
    assert not patient.is_gone
    answers.set()
    wait_for(lambda: patient.silent_seconds == 0 and not other.is_gone)
    for head in (patient, other):
        head.close()


@pytest.fixture
def dashboard() -> Iterator[str]:
    """A server that answers with the cookies that it gets, at an address."""

    class Echo(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(self.headers.get("Cookie", "").encode())

    with http.server.HTTPServer(("127.0.0.1", 0), Echo) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


def test_the_link_brings_the_token_along(dashboard: str) -> None:
    link = DashboardLink(dashboard, "secret")
    browser = urllib.request.build_opener(
        urllib.request.HTTPCookieProcessor(CookieJar())
    )
    with browser.open(link.url) as page:
        assert page.url == f"http://{dashboard}/"
        assert page.read() == b"ray-authentication-token=secret"
    link.close()


def test_nobody_else_gets_it(dashboard: str) -> None:
    link = DashboardLink(dashboard, "secret")
    assert link.url.startswith("http://127.0.0.1:")
    with pytest.raises(urllib.error.HTTPError, match="404") as error:
        urllib.request.urlopen(f"{link.url.rpartition('/')[0]}/guess")
    assert error.value.headers["Set-Cookie"] is None
    error.value.close()
    link.close()
