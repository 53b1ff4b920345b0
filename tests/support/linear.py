"""Rollouts for learners with linear networks, whose gradients have closed forms."""

from pathlib import Path
from typing import Any

import numpy as np
from naive import slow_vtrace

from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.stacks import stack_frames
from xagents_ray.core.trajectory import (
    Trajectory,
)
from xagents_ray.networks.layout import Layout
from xagents_ray.networks.reading import read_layout

LENGTH, ENVS = 9, 3
SPECS = {
    "discrete": EnvSpec((4,), "float32", 1, 3),
    "continuous": EnvSpec((4,), "float32", 1, 0, (-1.0,) * 2, (1.0,) * 2),
    "frames": EnvSpec((4, 3), "uint8", 2, 3),
}


def linear_layout(spec: EnvSpec, *outputs: int) -> Layout:
    """Return a network with one dense layer for each output and none before."""
    text = ""
    for i in range(len(outputs)):
        text += f"[flatten-{i}]\n" * spec.is_image + f"[dense-{i}]\noutput=1\n"
    path = Path(f"linear-{len(outputs)}.cfg")
    path.write_text(text, encoding="utf-8")
    scale = 1 / 255 if spec.is_image else 1.0
    return read_layout(path, spec.input_shape, outputs, scale)


def rollout(spec: EnvSpec, seed: int = 1) -> Trajectory:
    """Return steps, ends of both kinds with rows that reset, and no values."""
    rng = np.random.default_rng(seed)
    shape = LENGTH, ENVS
    frames = (LENGTH + spec.stack, ENVS, *spec.observation_shape)
    if spec.is_image:
        observations = rng.integers(0, 256, frames, np.uint8)
    else:
        observations = rng.normal(size=frames).astype(np.float32)
    if spec.is_discrete:
        actions = rng.integers(0, spec.n_actions, shape, np.int32)
    else:
        actions = rng.normal(size=(*shape, spec.action_units)).astype(np.float32)
    flags = {name: np.zeros(shape, bool) for name in ("terminated", "truncated")}
    valid, starts = np.ones(shape, bool), np.zeros(frames[:2], bool)
    for kind, t, env in (
        ("terminated", 2, 0),
        ("truncated", 4, 1),
        ("truncated", 1, 2),
        ("terminated", LENGTH - 1, 2),
    ):
        flags[kind][t, env] = True
        if t + 1 < LENGTH:
            valid[t + 1, env] = False
            starts[t + 1 + spec.stack, env] = True
    return Trajectory(
        observations,
        starts,
        actions,
        rng.normal(size=shape).astype(np.float32),
        **flags,
        valid=valid,
        log_probs=rng.normal(-1, 0.2, shape).astype(np.float32),
        values=None,
        weights_version=1,
        first_env=0,
    )


def features(spec: EnvSpec, t: Trajectory) -> Any:
    """Return what a linear network sees, and 1 for its bias: [T + 1, B, D + 1]."""
    rows = list(t.observations)
    if spec.is_image:
        windows = [slice(i, i + spec.stack) for i in range(LENGTH + 1)]
        rows = [stack_frames(t.observations[w], t.starts[w]) / 255 for w in windows]
    x = np.stack(rows).astype(np.float64).reshape(LENGTH + 1, ENVS, -1)
    return np.concatenate([x, np.ones((LENGTH + 1, ENVS, 1))], axis=-1)


def parameters(arrays: Any, name: str) -> Any:
    """Return a dense layer's kernel with its bias below, [D + 1, units]."""
    kernel, bias = arrays[f"{name}/kernel"], arrays[f"{name}/bias"]
    return np.concatenate([kernel, bias[None]]).astype(np.float64)


def log_softmax(x: Any) -> Any:
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def log_probs_of(spec: EnvSpec, outputs: Any, actions: Any, log_std: Any = 0.0) -> Any:
    """Return those of actions, whose policy has these logits or means."""
    if spec.is_discrete:
        chosen = np.take_along_axis(log_softmax(outputs), actions[..., None], -1)
        return chosen[..., 0]
    scaled = (actions - outputs) / np.exp(log_std)
    return -(0.5 * scaled**2 + log_std + 0.5 * np.log(2 * np.pi)).sum(-1)


def entropies_of(spec: EnvSpec, outputs: Any, log_std: Any = 0.0) -> Any:
    if spec.is_discrete:
        log_p = log_softmax(outputs)
        return -(np.exp(log_p) * log_p).sum(-1)
    whole = log_std + 0.5 * np.log(2 * np.pi * np.e)
    return np.broadcast_to(whole, outputs.shape).sum(-1)


def gae_of(t: Trajectory, values: Any, gamma: float, lam: float) -> Any:
    """Return the advantages of the valid rows."""
    case = t.rewards, values, t.terminated, t.truncated
    targets, _ = slow_vtrace(np.ones_like(t.rewards), case, gamma, 1.0, 1.0, lam)
    return (targets - values[:-1])[t.valid]


def first_adam_step(gradient: Any, lr: float, epsilon: float) -> Any:
    """Return the step down a gradient; with a large epsilon it is nearly that."""
    scaled = np.sqrt(1 - 0.999) * gradient
    return -lr * scaled / (np.abs(scaled) + epsilon)
