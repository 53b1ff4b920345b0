"""What a learner would do on a GPU, as far as a machine without one can tell."""

from collections.abc import Iterator
from typing import Any

import pytest
import tensorflow as tf
from learner_support import make_learner
from tensorflow.python.framework import kernels

from xagents_ray.algorithms.table import ALGORITHMS
from xagents_ray.core.spec import EnvSpec

_PONG = EnvSpec((84, 84), "uint8", 4, 6)
_CPU_ONLY = {"Dequantize"}
"""Where there is a GPU, `networks.keras.scaled_inputs` casts instead."""


def _kernels(operation: str) -> Iterator[Any]:
    """Yield the kernels of an operation for GPUs."""
    for kernel in kernels.get_registered_kernels_for_op(operation).kernel:
        if kernel.device_type == "GPU":
            yield kernel


def _stays(node: Any) -> bool:
    """Whether a GPU has a kernel for an operation's dtypes."""
    return any(
        all(
            node.attr[each.name].type in each.allowed_values.list.type
            for each in kernel.constraint
            if node.attr[each.name].type
        )
        for kernel in _kernels(node.op)
    )


@pytest.mark.skipif(
    not list(_kernels("MatMul")), reason="this TensorFlow is built without CUDA"
)
@pytest.mark.parametrize("agent", ["a2c", "acer", "dqn", "impala", "ppo", "trpo"])
def test_frames_stay_on_the_gpu(agent: str) -> None:
    """TensorFlow would bring them to the CPU for an operation without a kernel."""
    learner = make_learner(agent, ALGORITHMS[agent].config(), _PONG)
    graph = learner._phase.get_concrete_function().graph.as_graph_def()
    functions = (each.node_def for each in graph.library.function)
    with_frames = [
        node
        for nodes in (graph.node, *functions)
        for node in nodes
        if tf.uint8.as_datatype_enum in [value.type for value in node.attr.values()]
        and node.op not in {"Placeholder", *_CPU_ONLY}
    ]
    assert with_frames
    assert {node.op for node in with_frames if not _stays(node)} == set()
