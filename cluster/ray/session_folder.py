"""Ray's folder on this machine, with its sockets, logs and modules of the user."""

import os
import stat
import sys
import tempfile
from pathlib import Path

from xagents_ray.core.errors import UserError

_LONGEST_SOCKET = 103 if sys.platform == "darwin" else 107  # in bytes
_BELOW = (
    "/ray-01234567/r/session_2026-01-01_00-00-00_000000_4194304/sockets/plasma_store"
)
"""What Ray's longest socket is called below the folder for temporary files."""


def create_private_folder() -> Path:
    """Create a folder for Ray that only this user can enter.

    It lies in $RAY_TMPDIR, $TMPDIR or /tmp, as Ray's own would. Ray needs a folder in
    it, because it lets all users write to what it is given.

    Raises:
        UserError: $RAY_TMPDIR is too long for the names of sockets, or no folder can
            be created in it.
    """
    named = os.environ.get("RAY_TMPDIR")
    above = os.path.abspath(named or os.environ.get("TMPDIR") or "/tmp")
    room = _LONGEST_SOCKET - len(_BELOW)
    if len(os.fsencode(above)) > room:
        if named:
            raise UserError(
                f"RAY_TMPDIR {named} is too long for the names of Ray's sockets: name "
                f"a folder of at most {room} bytes."
            )
        above = "/tmp"
    try:
        os.makedirs(above, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix="ray-", dir=above))
    except OSError as error:
        raise UserError(
            f"Ray's folder can't be created in {above} ({error.strerror}): name "
            "another one with RAY_TMPDIR."
        ) from None


def exposed_folder(session: Path) -> str:
    """Return a sentence about Ray's folder if other users can write to it; else "".

    Args:
        session: Ray's session folder on this machine, with its sockets, and the modules
            and packages that workers import.
    """
    if "KUBERNETES_SERVICE_HOST" in os.environ:  # a pod has one user
        return ""
    if not _is_open_to_others(session):
        return ""
    return (
        f"Other users of this machine can write to {session}, from which Ray's workers "
        "import code: start the node with `ray start --temp-dir` in a folder that only "
        "you can enter."
    )


def _is_open_to_others(folder: Path) -> bool:
    """Return whether other users can write to a folder, or put another in its place."""
    for each in (*reversed(folder.parents), folder):
        try:
            info = each.stat()
        except OSError:  # gone, or not even this user can enter
            return False
        bits = _bits_of_others(info)
        is_sticky = info.st_mode & stat.S_ISVTX and each != folder
        if bits & stat.S_IWOTH and not is_sticky:
            return True
        if not bits & stat.S_IXOTH:
            return False
    return False


def _bits_of_others(info: os.stat_result) -> int:
    """Return what other users may do, as bits of the last digit of a file's mode.

    The group counts unless it is its owner's own, whose number is the same by custom.
    """
    bits = info.st_mode & 0o7
    return bits if info.st_gid == info.st_uid else bits | info.st_mode >> 3 & 0o7
