"""A weights file in memory."""

from typing import NamedTuple


class WeightsFile(NamedTuple):
    """A weights file's bytes, which another process may decode.

    Attributes:
        path: as the user named it, `best.tf`.
        files: contents by what is appended to the path; `""` for a single file.
    """

    path: str
    files: dict[str, bytes]
