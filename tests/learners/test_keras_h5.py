"""Space for temporary files of weights."""

import shutil
from types import SimpleNamespace

import pytest

from xagents_ray.learners.formats.keras_h5 import temporary_folder


def test_twice_the_size_and_a_mebibyte_must_be_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    free = SimpleNamespace(free=2 * 5_000 + 2**20)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: free)
    with temporary_folder(5_000) as folder:
        assert folder.is_dir()
    assert not folder.exists()
    free.free -= 1
    with pytest.raises(OSError, match="No space left"), temporary_folder(5_000):
        pass
