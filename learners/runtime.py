"""TensorFlow's process-wide settings; the package imports this module first."""

import contextlib
import functools
import importlib
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from xagents_ray.algorithms.run_spec import Threads
from xagents_ray.core.errors import UserError, one_line
from xagents_ray.core.process import paused_gc, quiet_stderr, without_packages
from xagents_ray.core.trajectory import Array

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# TensorFlow reads this once, and by default uses oneDNN only on CPUs with instructions
# for neural networks. With AVX2 alone, convolutions learn 1.5 to 2 times as fast, too.
if platform.machine() in {"x86_64", "AMD64"}:
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
# The log level doesn't affect what TensorFlow prints during its import, of which the
# garbage collector took a fifth. Keras imports what it draws with if that is installed:
# a quarter of the time, although unused here.
_DRAWING = "pandas", "matplotlib", "cv2", "IPython"
with quiet_stderr(), without_packages(*_DRAWING), paused_gc():
    import tensorflow as tf


def _delete_generated_files(loader: Any) -> None:
    """Make AutoGraph delete its files immediately, since a killed process can't."""
    load_source = getattr(loader, "load_source", None)
    if load_source is None:
        return

    def load_and_delete(*arguments: Any, **settings: Any) -> tuple[Any, str]:
        writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
        try:
            module, path = load_source(*arguments, **settings)
        finally:
            sys.dont_write_bytecode = writes
        Path(path).unlink(missing_ok=True)
        return module, path

    loader.load_source = load_and_delete


def _is_plain(module_name: str) -> bool:
    """Return whether a module opts out of AutoGraph with `__autograph__ = False`."""
    module = sys.modules.get(module_name)
    return module is not None and not vars(module).get("__autograph__", True)


def _leave_plain_modules(config: Any) -> None:
    """Exempt plain modules from AutoGraph, which takes 20 to 90 ms per function."""
    make_rule = getattr(config, "DoNotConvert", None)
    if make_rule is not None:
        rule = make_rule("xagents_ray")
        rule.matches = _is_plain
        config.CONVERSION_RULES = (rule, *config.CONVERSION_RULES)


with contextlib.suppress(ImportError):  # they are not public in TensorFlow
    _autograph = "tensorflow.python.autograph"
    _delete_generated_files(importlib.import_module(f"{_autograph}.pyct.loader"))
    _leave_plain_modules(importlib.import_module(f"{_autograph}.core.config"))


def configure(threads: Threads, deterministic: bool) -> None:
    """Configure TensorFlow; call this before its first operation.

    If deterministic, all operations are reproducible bit for bit.
    """
    tf.get_logger().setLevel("ERROR")
    if deterministic:
        tf.config.experimental.enable_op_determinism()
    try:
        tf.config.threading.set_intra_op_parallelism_threads(threads.within)
        tf.config.threading.set_inter_op_parallelism_threads(threads.across)
        for gpu in tf.config.list_physical_devices("GPU"):
            tf.config.experimental.set_memory_growth(gpu, True)
    except RuntimeError:
        pass  # TensorFlow is already in use in this process; its settings stay


def threads() -> Threads:
    """Return TensorFlow's threads in this process; 0 stands for all cores."""
    threading = tf.config.threading
    within = threading.get_intra_op_parallelism_threads()
    return Threads(within, threading.get_inter_op_parallelism_threads())


def graph_of(
    learn: Callable[..., Any], signature: Any, compiled: bool, algorithm: object
) -> Any:
    """Return a `tf.function` of an algorithm's learning phase.

    Those of this package branch on tensors with `tf.cond` and `tf.while_loop` only,
    as AutoGraph takes twice as long as the rest of their trace.
    """
    is_own = type(algorithm).__module__.startswith(f"{__package__}.")
    jit = compiled or None
    return tf.function(learn, signature, jit_compile=jit, autograph=not is_own)


def traced(function: Any, *signature: Any) -> Callable[..., Any]:
    """Trace a `tf.function`; return its graph as a function of flat tensors.

    Calling TensorFlow's concrete function instead would also check the signature and
    look for gradient tapes, which takes longer than a small update.
    """
    with paused_gc():  # a tenth of the time
        concrete = function.get_concrete_function(*signature)
    graph, captured = concrete.inference_fn, tuple(concrete.captured_inputs)

    def call(*tensors: tf.Tensor) -> Any:
        return graph.call_preflattened([*tensors, *captured])

    return call


def tensor_of(array: Array) -> tf.Tensor:
    """Return a tensor of an array that nothing changes as long as the tensor exists.

    `tf.constant` takes six times as long for a small array, and copies a large one.
    """
    return _tensor_maker(array.dtype)(array)


@functools.cache
def _tensor_maker(dtype: np.dtype[Any]) -> Callable[[Array], tf.Tensor]:
    """Return a function of arrays that places tensors where `tf.constant` does."""
    example = tf.constant(np.zeros((), dtype))
    kind, device = type(example), example.device
    return lambda array: kind(array, device, None)


def device_of_loops(compiled: bool) -> str:
    """Return the device of the variables that loops read.

    It is the GPU if XLA compiles learning phases for one, else the CPU.
    """
    return "GPU" if compiled and usable_gpus() else "CPU"


def usable_gpus() -> list[str]:
    """Return the names of the GPUs on which a learner would run."""
    gpus = tf.config.list_physical_devices("GPU")
    details = map(tf.config.experimental.get_device_details, gpus)
    return [str(each.get("device_name", "GPU")) for each in details]


def check_source(algorithm: object) -> None:
    """Raise UserError if AutoGraph can't read the source of a user's algorithm."""
    try:
        tf.autograph.to_graph(type(algorithm).learn)  # type: ignore[attr-defined]
    except Exception as error:
        name = type(algorithm).__name__
        raise UserError(
            f"TensorFlow can't read {name}.learn in the learner's process "
            f"({one_line(error)}): move {name} to a module of its own, use --local, or "
            "leave out its annotations if it is in a script."
        ) from None
