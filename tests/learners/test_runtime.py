"""TensorFlow's process-wide settings."""

import tempfile
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import SimpleNamespace

import pytest
from tensorflow.python.autograph.impl import conversion

from xagents_ray.learners import ppo
from xagents_ray.learners.runtime import (
    _delete_generated_files,
    _is_plain,
    _leave_plain_modules,
    tf,
)

ROOMS = "core", "learners", "learners.math", "networks"
MODULES = {
    f"xagents_ray.{room}.{each.name}": import_module(f"xagents_ray.{room}.{each.name}")
    for room in ROOMS
    for each in iter_modules(import_module(f"xagents_ray.{room}").__path__)
}
PLAIN = list(filter(_is_plain, MODULES))


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


@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_module_is_left_as_it_is(name: str) -> None:
    module = MODULES[name]
    own = [x for x in vars(module).values() if callable(x)]
    own = [x for x in own if x.__module__ == module.__name__]
    assert own and all(conversion.is_allowlisted(x) for x in own)


def test_others_are_converted() -> None:
    assert "xagents_ray.learners.tensors" in PLAIN
    assert not conversion.is_allowlisted(ppo.PPO.learn)


def test_a_release_without_rules_is_left_as_it_is() -> None:
    config = SimpleNamespace()
    _leave_plain_modules(config)
    assert not vars(config)
