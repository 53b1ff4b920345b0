"""What a policy remembers from step to step, as JSON for checkpoints."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from xagents_ray.actors.envs.env_state import decode_array, encode_array
from xagents_ray.actors.policies.base import ActorPolicy
from xagents_ray.core.trajectory import RECURRENT_STATE


def encode_memory(policy: ActorPolicy) -> dict[str, Any]:
    """Return a policy's noise, and the state of its recurrent layers, if any."""
    state = policy.recurrent_state
    encoded = {} if state is None else {RECURRENT_STATE: encode_array(state)}
    return {"memory": encode_array(policy.memory), **encoded}


def restore_memory(policy: ActorPolicy, saved: Mapping[str, Any], n_envs: int) -> None:
    """Restore what `encode_memory` returned, for this number of environments.

    Raises:
        Exception: of any type; the value is damaged or doesn't fit.
    """
    shape = n_envs, policy.memory_units
    like = np.zeros(shape if saved["memory"]["base64"] else 0, np.float32)
    policy.memory = decode_array(saved["memory"], like)
    if policy.state_units:
        like = np.zeros((n_envs, policy.state_units), np.float32)
        policy.recurrent_state = decode_array(saved[RECURRENT_STATE], like)
