"""Which Ray a run uses: the meaning of `--address` and of RAY_ADDRESS."""

import contextlib
import ipaddress
import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil

from xagents_ray.core.errors import UserError

FIND, OWN = "auto", "local"
"""The cluster of this machine, wherever it listens; a Ray that the run starts."""
VARIABLE = "RAY_ADDRESS"
_JOB_CONFIG = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""Settings of a submitted job, which Ray merges into whatever it starts or joins."""
NOT_FOR_OWN_RAY: Mapping[str, None] = {_JOB_CONFIG: None}
"""Environment variables that a Ray on this machine must not see."""


def resolve(given: str | None, environ: Mapping[str, str]) -> tuple[str | None, str]:
    """Return the cluster to join, and what named it.

    Args:
        given: value of `--address`.
        environ: environment variables of this process.
    Returns:
        The address, host:port, or None for a Ray of the run's own; and `--address` or
        `RAY_ADDRESS`.
    Raises:
        UserError: it is no address of a cluster, or no cluster runs on this machine.
    """
    named, source = given, "--address"
    variable = environ.get(VARIABLE) or None
    if given is None or (given == FIND and variable not in (None, OWN)):
        named, source = variable, VARIABLE
    if named is None or named == OWN:
        return None, source
    if named == FIND:
        return _find(source, environ), source
    split(named, source)
    return named, source


def split(address: str, source: str = "--address") -> tuple[str, int]:
    """Return the host and the port of an address that `source` names.

    Raises:
        UserError: it is no host:port.
    """
    shown = f"{source} {address}"
    or_own = "" if source == "--address" else ", or --address local for an own Ray"
    scheme, is_url, _ = address.partition("://")
    if is_url and scheme == "ray":
        raise UserError(
            f"{shown} is for Ray Client, with which no run trains: name the head as "
            "host:port on a node of the cluster (Ray's port is 6379 unless chosen), or "
            f"submit the command with `ray job submit`{or_own}."
        )
    if is_url and scheme in ("http", "https"):
        raise UserError(
            f"{shown} is the address of a dashboard: submit the command to it with "
            f"`ray job submit --address {address} -- xagents-ray …`, or name the head "
            f"as host:port (Ray's port is 6379 unless chosen){or_own}."
        )
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise UserError(
            f"{shown} is not host:port, auto or local; Ray's port is 6379 unless "
            "chosen."
        )
    return host.removeprefix("[").removesuffix("]"), int(port)  # IPv6


def check_in_use(given: str | None, used: str, is_own: bool) -> None:
    """Raise UserError unless `--address` names the Ray that this program uses.

    Args:
        given: value of `--address`.
        used: address of that Ray, host:port.
        is_own: whether a run of this process has started it.
    """
    if given is None or given == FIND or (given == OWN and is_own):
        return
    if given == OWN:
        raise UserError(
            f"--address local starts a Ray, and this program uses the one at {used}: "
            "give address=None to use that one, or call ray.shutdown() first."
        )
    (host, port), (used_host, used_port) = split(given), split(used)
    if port == used_port and (host == used_host or _names(host) & _names(used_host)):
        return
    raise UserError(
        f"--address {given} is not the Ray at {used} that this program uses: give "
        "address=None to use that one, or call ray.shutdown() first."
    )


def _names(host: str) -> set[str]:
    """Return the addresses of a host; all of this machine's if it has one of them."""
    found = {host}
    with contextlib.suppress(OSError, UnicodeError):
        found |= {str(each[4][0]) for each in socket.getaddrinfo(host, None)}
    interfaces = psutil.net_if_addrs().values()
    here = {each.address.partition("%")[0] for x in interfaces for each in x}
    if found & here or any(map(_is_loopback, found)):
        found |= here
    return found


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _find(source: str, environ: Mapping[str, str]) -> str:
    """Return the address of the cluster that has a node on this machine.

    It is the one that `ray start` has noted, or else the only one that runs. Ray's own
    function does this only together with its import, which reads the token and the
    authentication mode that depend on the address.
    """
    running = {*_running()}
    noted = ""
    note = Path(environ.get("RAY_TMPDIR") or "/tmp") / "ray" / "ray_current_cluster"
    with contextlib.suppress(OSError):
        noted = note.read_text("utf-8").strip()
    if noted and (noted in running or not running):
        return noted
    if len(running) == 1:
        return running.pop()
    if running:
        raise UserError(
            f"{source} auto: several Ray clusters run on this machine "
            f"({', '.join(sorted(running))}): name one of them."
        )
    raise UserError(
        f"{source} auto: no Ray cluster runs on this machine: start one with `ray "
        "start --head`, name one as host:port, or leave it out for an own Ray."
    )


def _running() -> Iterator[str]:
    """Yield the addresses of the clusters of all nodes on this machine."""
    flag = "--gcs-address="
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or [""]
        if os.path.basename(words[0]) == "raylet":
            yield from (w.removeprefix(flag) for w in words if w.startswith(flag))
