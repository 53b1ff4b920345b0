"""Ray's authentication: what a cluster requires, and telling Ray about it."""

import contextlib
import os
import secrets
import sys
from pathlib import Path
from typing import Any

_TOKEN = secrets.token_hex(32)
"""Token of every Ray that this process starts, unless the user has set one."""
_CALL = "/ray.rpc.NodeInfoGcsService/CheckAlive"
_ANSWER_SECONDS = 10.0


def for_own_ray() -> dict[str, str]:
    """Return the environment of a Ray that starts here.

    Its ports are open to the network; only this run, or this user, knows the token.
    """
    token = os.environ.get("RAY_AUTH_TOKEN") or _TOKEN
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token}


def for_cluster(address: str) -> dict[str, str]:
    """Return the environment in which Ray joins a cluster."""
    if os.environ.get("RAY_AUTH_MODE"):
        return {}
    return {"RAY_AUTH_MODE": "token" if _requires_token(address) else "disabled"}


def tell_ray() -> None:
    """Make Ray read the environment again if it has been imported."""
    raylet: Any = sys.modules.get("ray._raylet")
    if hasattr(raylet, "Config") and hasattr(raylet, "AuthenticationTokenLoader"):
        raylet.Config.initialize("")
        raylet.AuthenticationTokenLoader.instance().reset_cache()


def _requires_token(address: str) -> bool:
    """Return whether a cluster refuses a request without a token."""
    import grpc

    options = [("grpc.enable_http_proxy", 0)]  # as Ray's own clients
    with grpc.insecure_channel(address, options) as channel:
        try:
            channel.unary_unary(_CALL)(b"", timeout=_ANSWER_SECONDS)
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.UNAUTHENTICATED:
                return _has_token()
            return True
    return False


def _has_token() -> bool:
    """Return whether Ray would find a token here."""
    names = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
    with contextlib.suppress(RuntimeError):  # there is no home directory
        if (Path.home() / ".ray" / "auth_token").is_file():
            return True
    return any(name in os.environ for name in names)
