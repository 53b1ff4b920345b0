"""Rejects bfloat16 on hardware where it is no faster than float32."""

import re
from pathlib import Path

import tensorflow as tf

from xagents_ray.core.errors import UserError
from xagents_ray.settings.config import Config

_OLDEST_GPU = (8, 0)
"""Compute capability of Ampere, the first with bfloat16 in its tensor cores."""


def check_precision(config: Config) -> None:
    """Raise UserError if bfloat16 would be slow on this process's GPU or CPU."""
    if config.algorithm.precision == "float32" or config.placement.allow_slow_precision:
        return
    if gpus := tf.config.list_physical_devices("GPU"):
        details = tf.config.experimental.get_device_details(gpus[0])
        own = tuple(details.get("compute_capability", _OLDEST_GPU))
        is_fast = own >= _OLDEST_GPU
        lacks = "the learner's GPU is of compute capability {}.{}, less than 8.0"
        lacks = lacks.format(*own)
    else:
        file = Path("/proc/cpuinfo")
        is_fast = has_fast_cpu(file.read_text() if file.exists() else "")
        lacks = "the learner's CPU has neither AMX nor AVX512-BF16 of full speed"
    if not is_fast:
        raise UserError(
            f"--precision bfloat16 gains nothing here, as {lacks}: leave it out, or "
            "add --allow-slow-precision."
        )


def has_fast_cpu(cpuinfo: str) -> bool:
    """Return whether the CPU that /proc/cpuinfo describes is faster in bfloat16.

    Intel's CPUs since Sapphire Rapids, the first with AVX512-FP16, run AVX512-BF16 at
    half the speed of float32; their AMX is fast, if a virtual machine exposes it.
    """
    found = re.search(r"^flags\s*:(.*)$", cpuinfo, re.M)
    flags = set(found[1].split()) if found else set()
    is_half_speed = "GenuineIntel" in cpuinfo and "avx512_fp16" in flags
    return "amx_bf16" in flags or ("avx512_bf16" in flags and not is_half_speed)
