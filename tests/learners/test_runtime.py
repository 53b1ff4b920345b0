"""TensorFlow's process-wide settings."""

import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from xagents_ray.learners.runtime import _delete_generated_files, tf


def test_tracing_leaves_no_files_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even while the process is alive: one that is killed deletes nothing."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    @tf.function  # type: ignore[untyped-decorator]
    def absolute(x: tf.Tensor) -> tf.Tensor:
        if x < 0:  # AutoGraph writes its own version of this to a file
            x = -x
        return x

    assert float(absolute(tf.constant(-2.0))) == 2
    assert list(tmp_path.iterdir()) == []


def test_a_release_without_the_loader_is_left_as_it_is() -> None:
    loader = SimpleNamespace()
    _delete_generated_files(loader)
    assert not vars(loader)
