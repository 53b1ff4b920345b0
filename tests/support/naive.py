"""Slow, plain versions of what the source does fast, and random networks."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from xagents_ray.networks.layout import Layout


def naive_stacks(frames: Any, starts: Any, stack: int) -> list[Any]:
    """Walk along one environment's frames; return what is seen at each of them."""
    shown: list[Any] = []
    seen = []
    for frame, start in zip(frames, starts, strict=True):
        if start:
            shown = []
        shown.append(frame)
        missing = [np.zeros_like(frame)] * max(0, stack - len(shown))
        newest = [*missing, *shown[-stack:]]
        channels = [f[..., None] if f.ndim == 2 else f for f in newest]
        seen.append(np.concatenate(channels, axis=-1))
    return seen


def random_arrays(layout: Layout, seed: int, gain: float = 1.0) -> dict[str, Any]:
    """Return weights for a layout, biases too, so that no term is zero."""
    rng = np.random.default_rng(seed)
    arrays = {}
    for name, shape in layout.shapes.items():
        inputs = shape[:-1]
        scale = gain / np.sqrt(np.prod(inputs)) if inputs else 0.3
        arrays[name] = rng.normal(0, scale, shape).astype(np.float32)
    return arrays


def slow_vtrace(
    ratios: Any, case: Any, gamma: float, rho: float, c: float, lam: float = 1.0
) -> Any:
    """Return V-trace targets and advantages, summed as equation 1 is printed.

    Args:
        ratios: [T, B], of the newest policy to the one that acted.
        case: rewards [T, B], values [T + 1, B], terminated and truncated [T, B].
        gamma: discount factor.
        rho: bound of the ratios that weigh errors.
        c: bound of the ratios that pass later errors back.
        lam: decay of later errors.
    """
    rewards, values, terminated, truncated = case
    length, envs = rewards.shape
    targets = np.array(values, np.float64)
    for env in range(envs):
        for s in range(length):
            weight = 1.0
            for t in range(s, length):
                rest = 0.0 if terminated[t, env] else gamma * float(values[t + 1, env])
                error = float(rewards[t, env]) + rest - float(values[t, env])
                targets[s, env] += weight * min(rho, ratios[t, env]) * error
                if terminated[t, env] or truncated[t, env]:
                    break
                weight *= gamma * lam * min(c, ratios[t, env])
    advantages = np.zeros((length, envs))
    for s, env in np.ndindex(length, envs):
        # The final observation of a truncated episode has only its value.
        part = 0.0 if truncated[s, env] else lam
        after = (1 - part) * values + part * targets
        rest = 0.0 if terminated[s, env] else gamma * float(after[s + 1, env])
        advantage = float(rewards[s, env]) + rest - float(values[s, env])
        advantages[s, env] = min(rho, ratios[s, env]) * advantage
    return targets[:-1], advantages


def finite_differences(loss: Callable[[Any], float], x: Any, step: float) -> Any:
    """Return the gradient of a loss by an array."""
    gradient = np.zeros_like(x)
    for index in np.ndindex(x.shape):
        axis = np.zeros_like(x)
        axis[index] = step
        gradient[index] = (loss(x + axis) - loss(x - axis)) / (2 * step)
    return gradient


def assert_same(one: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    """Check that these are the same arrays, bit for bit and of the same dtypes."""
    assert one.keys() == other.keys()
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name], name, strict=True)
