"""TensorFlow's process-wide settings. Import this before any other learner module."""

import os
import sys
from pathlib import Path
from typing import Any

from xagents_ray.core.quiet import hidden, stderr_parked

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# The level comes too late for what TensorFlow writes while it is imported. Keras
# imports pandas and Matplotlib where they are: a quarter of the time, for nothing here.
with stderr_parked(), hidden("pandas", "matplotlib"):
    import tensorflow as tf
    from tensorflow.python.autograph.pyct import loader

_load_source = loader.load_source


def _load_and_delete(source: str, delete_on_exit: bool) -> tuple[Any, str]:
    """Load AutoGraph's code and delete its file: a process that is killed can't."""
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        module, path = _load_source(source, delete_on_exit=False)
    finally:
        sys.dont_write_bytecode = writes
    Path(path).unlink(missing_ok=True)
    return module, path


loader.load_source = _load_and_delete


def configure(threads: int, deterministic: bool) -> None:
    """Set TensorFlow up; call it before the first operation.

    Args:
        threads: cores that one operation may use.
        deterministic: whether operations must repeat bit for bit.
    """
    tf.get_logger().setLevel("ERROR")
    if deterministic:
        tf.config.experimental.enable_op_determinism()
    try:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        for gpu in tf.config.list_physical_devices("GPU"):
            tf.config.experimental.set_memory_growth(gpu, True)
    except RuntimeError:
        pass  # this process has used TensorFlow before; its settings stand
