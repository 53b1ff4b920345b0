"""What learners share that learn from each round of trajectories once."""

import tensorflow as tf

from xagents_ray.core.spec import EnvSpec
from xagents_ray.learners.frames import stack_rollout


def signature(spec: EnvSpec) -> list[tf.TensorSpec]:
    """Return that of [T, B] observations, starts, actions, rewards and three masks.

    The masks are terminated, truncated and valid.
    """
    action = (tf.int32, []) if spec.is_discrete else (tf.float32, [spec.action_units])
    rows = [None, None]
    return [
        tf.TensorSpec([*rows, *spec.observation_shape], spec.observation_dtype),
        tf.TensorSpec(rows, tf.bool),
        tf.TensorSpec([*rows, *action[1]], action[0]),
        tf.TensorSpec(rows, tf.float32),
        *[tf.TensorSpec(rows, tf.bool)] * 3,
    ]


def all_inputs(observations: tf.Tensor, starts: tf.Tensor, spec: EnvSpec) -> tf.Tensor:
    """Return what the network sees at all rows, the last too: [(T + 1) * B, ...]."""
    if not spec.is_image:
        return tf.reshape(observations, [-1, *spec.observation_shape])
    # One more row, that nobody sees, for the stack at the last one.
    frames, begins = (tf.concat([x, x[-1:]], axis=0) for x in (observations, starts))
    return stack_rollout(frames, begins, spec.stack)
