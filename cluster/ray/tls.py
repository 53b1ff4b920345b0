"""Ray's TLS, which Ray's environment variables configure."""

import os
import ssl
from pathlib import Path
from typing import Any

from xagents_ray.core.errors import UserError

_NAMES = ("RAY_TLS_CA_CERT", "RAY_TLS_SERVER_CERT", "RAY_TLS_SERVER_KEY")


def tls_context() -> ssl.SSLContext | None:
    """Return the TLS context that Ray uses; None if TLS is off.

    Raises:
        UserError: TLS is on, but its certificates can't be used.
    """
    if not _is_on():
        return None
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.set_alpn_protocols(["h2"])  # gRPC requires HTTP/2
    missing = [name for name in _NAMES if not Path(os.environ.get(name, "")).is_file()]
    if missing:
        raise UserError(
            f"RAY_USE_TLS is set, and {missing[0]} isn't the path of a file: set "
            f"{', '.join(_NAMES)} to the certificates and the key of this machine."
        )
    authority, certificate, key = (os.environ[name] for name in _NAMES)
    try:
        made.load_verify_locations(authority)
        made.load_cert_chain(certificate, key)
    except OSError as error:  # includes OpenSSL's errors
        raise UserError(
            f"The files in {', '.join(_NAMES)} can't be used ({error.strerror}): give "
            "PEM files, with the key that belongs to the certificate."
        ) from None
    return made


def check_learners(count: int) -> None:
    """Raise UserError if several learners would connect to each other without TLS."""
    if count > 1 and _is_on():
        raise UserError(
            "--n-learners sums over connections of TensorFlow, which have no TLS, and "
            "this cluster wants it (RAY_USE_TLS): leave it out."
        )


def grpc_channel(address: str) -> Any:
    """Return a gRPC channel to a cluster's head, encrypted if TLS is on.

    The certificates are those that `tls_context` has checked.
    """
    import grpc

    options = [("grpc.enable_http_proxy", 0)]  # as Ray's own clients
    if not _is_on():
        return grpc.insecure_channel(address, options)
    authority, certificate, key = (
        Path(os.environ[name]).read_bytes() for name in _NAMES
    )
    credentials = grpc.ssl_channel_credentials(authority, key, certificate)
    return grpc.secure_channel(address, credentials, options)


def _is_on() -> bool:
    return os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true")
