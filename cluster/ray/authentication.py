"""Ray's token authentication, and a link to the dashboard for browsers."""

import contextlib
import http.server
import os
import secrets
import sys
import threading
from pathlib import Path
from typing import Any

from xagents_ray.cluster.ray import tls

_TOKEN = secrets.token_hex(32)
"""Token for Ray instances that this process starts, unless the user has set one."""
_CALL = "/ray.rpc.NodeInfoGcsService/CheckAlive"
_ANSWER_SECONDS = 10.0
_COOKIE = "ray-authentication-token"


def for_own_ray() -> dict[str, str]:
    """Return the environment variables for starting Ray on this machine.

    Its ports are open to the network; the token is known only to this run or user.
    """
    token = os.environ.get("RAY_AUTH_TOKEN") or _TOKEN
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}


def for_cluster(address: str) -> dict[str, str]:
    """Return the environment variables for joining a cluster.

    They set the cluster's authentication mode; otherwise, calls between the cluster and
    this process would be refused.
    """
    return {"RAY_AUTH_MODE": "token" if _requires_token(address) else "disabled"}


def tell_ray() -> None:
    """Make Ray reread the environment if it has been imported already."""
    raylet: Any = sys.modules.get("ray._raylet")
    if hasattr(raylet, "Config") and hasattr(raylet, "AuthenticationTokenLoader"):
        raylet.Config.initialize("")
        raylet.AuthenticationTokenLoader.instance().reset_cache()


def _requires_token(address: str) -> bool:
    """Return whether a cluster requires a token; if unknown, whether we have one."""
    import grpc

    with tls.grpc_channel(address) as channel:
        try:
            channel.unary_unary(_CALL)(b"", timeout=_ANSWER_SECONDS)
        except grpc.RpcError as error:
            return error.code() is grpc.StatusCode.UNAUTHENTICATED or _has_token()
    return False


def _has_token() -> bool:
    """Return whether Ray would find a token on this machine."""
    with contextlib.suppress(RuntimeError):  # there is no home directory
        if (Path.home() / ".ray" / "auth_token").is_file():
            return True
    return not os.environ.keys().isdisjoint(("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"))


def open_to_all(address: str) -> str:
    """Return a sentence about a joined cluster that requires no token; else ""."""
    if os.environ["RAY_AUTH_MODE"] == "token":  # set when joining
        return ""
    return (
        f"The Ray cluster at {address} requires no token, so whoever reaches its ports "
        "runs code on its nodes: start it with RAY_AUTH_MODE=token."
    )


def exposed_token() -> str:
    """Return a sentence about the token's file if other users can read it; else ""."""
    path = _token_file()
    if path is None or not path.stat().st_mode & 0o066:
        return ""
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        return ""  # a container's secret; its mode can't be changed from within
    return (
        f"Other users of this machine can read the cluster's token in {path}, and with "
        f"it run code on all nodes: chmod 600 {path}."
    )


def _token_file() -> Path | None:
    """Return the file that Ray reads its token from; None if it reads no file."""
    if os.environ.get("RAY_AUTH_TOKEN"):
        return None
    named = os.environ.get("RAY_AUTH_TOKEN_PATH")
    with contextlib.suppress(RuntimeError):  # there is no home directory
        path = Path(named) if named else Path.home() / ".ray" / "auth_token"
        return path if path.is_file() else None
    return None


class DashboardLink:
    """Serves one page on 127.0.0.1 that sets a cookie and redirects to the dashboard.

    Ray reads the token from a cookie, and browsers share cookies between the ports of
    a host.

    Args:
        dashboard: address of the dashboard, host:port.
        token: the token that the dashboard requires.
    Attributes:
        url: URL of the page; anyone who knows it can use the dashboard.
    """

    def __init__(self, dashboard: str, token: str) -> None:
        path = f"/{secrets.token_urlsafe(16)}"

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if not secrets.compare_digest(self.path.encode(), path.encode()):
                    self.send_error(404)
                    return
                self.send_response(302)
                cookie = f"{_COOKIE}={token}; Path=/; HttpOnly; SameSite=Strict"
                self.send_header("Set-Cookie", cookie)
                self.send_header("Cache-Control", "no-store")
                self.send_header("Location", f"http://{dashboard}/")
                self.end_headers()

            def log_message(self, *arguments: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}{path}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
