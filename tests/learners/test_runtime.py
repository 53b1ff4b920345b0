"""TensorFlow's process-wide settings."""

import os
import platform
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from learner_cases import Case, cases
from tensorflow.python.autograph.impl import api, conversion

from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Array
from xagents_ray.learners import ppo
from xagents_ray.learners.runtime import (
    _delete_generated_files,
    _is_plain,
    _leave_plain_modules,
    tensor_of,
    tf,
)

ROWS = np.arange(24, dtype=np.float32).reshape(4, 6)
ARRAYS = [
    ROWS,
    ROWS.T[::2],
    np.broadcast_to(ROWS[0], (3, 6)),
    ROWS[:0],
    ROWS.astype(np.uint8),
    ROWS > 3,
    ROWS.astype(np.int32),
    np.int64(7),
    np.float64(0.1),
]
ONEDNN = "TF_ENABLE_ONEDNN_OPTS"
_ONEDNN = """
from xagents_ray.learners import runtime
from tensorflow.python.util import _pywrap_util_port
print(_pywrap_util_port.IsMklEnabled())
"""
ROOMS = "core", "learners", "learners.math", "networks"
MODULES = {
    f"xagents_ray.{room}.{each.name}": import_module(f"xagents_ray.{room}.{each.name}")
    for room in ROOMS
    for each in iter_modules(import_module(f"xagents_ray.{room}").__path__)
}
PLAIN = list(filter(_is_plain, MODULES))
EACH = {case.values[0].row.name: case for case in cases(["vector"])}.values()


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


@pytest.mark.parametrize("array", ARRAYS)
def test_tensors_of_arrays_are_those_that_tensorflow_makes(array: Array) -> None:
    found, expected = tensor_of(array), tf.constant(array)
    assert (found.dtype, found.device) == (expected.dtype, expected.device)
    np.testing.assert_array_equal(found, expected, strict=True)


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


@pytest.mark.parametrize("case", EACH)
def test_the_algorithms_of_the_package_need_no_autograph(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It took three quarters of their trace."""
    monkeypatch.setattr(api, "_convert_actual", lambda *_: pytest.fail("converted"))
    assert callable(case.learner().traced)


def test_other_algorithms_may_branch_on_tensors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ppo.PPO, "__module__", "own")
    learner = Case(find_algorithm("ppo"), EnvSpec((4,), "float32", 1, 3)).learner()

    def learn(data: Any, phase: Any) -> Any:
        if phase.later == 0:
            phase = phase._replace(batches=phase.batches + 1)
        return plain(data, phase)

    plain, learner.algorithm.learn = learner.algorithm.learn, learn
    assert callable(learner.traced)


def test_a_release_without_rules_is_left_as_it_is() -> None:
    config = SimpleNamespace()
    _leave_plain_modules(config)
    assert not vars(config)


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64",
    reason="TensorFlow has oneDNN there",
)
def test_onednn_computes_unless_the_user_says_no() -> None:
    """TensorFlow would leave it out on CPUs without instructions for networks."""
    usual = {name: each for name, each in os.environ.items() if name != ONEDNN}
    environments = usual, usual | {ONEDNN: "0"}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", _ONEDNN], env=each, stdout=subprocess.PIPE, text=True
        )
        for each in environments
    ]
    assert [each.communicate()[0] for each in started] == ["True\n", "False\n"]
