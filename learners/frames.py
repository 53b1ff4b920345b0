"""Observations as networks read them: frames are stacked inside the graph."""

import tensorflow as tf

from xagents_ray.core.spec import EnvSpec
from xagents_ray.learners.tensors import flatten


def rollout_inputs(
    observations: tf.Tensor, starts: tf.Tensor, spec: EnvSpec
) -> tf.Tensor:
    """Return what the network reads at each row of a rollout, and after the last.

    From [T + stack, B, *observation_shape] to [(T + 1) * B, *input_shape], of the same
    dtype; `starts`, bool [T + stack, B], are the first observations of episodes.
    """
    if not spec.is_image:
        return tf.reshape(observations, [-1, *spec.observation_shape])
    # One more row, which no stack shows, for the stack at the last one.
    frames, begins = (tf.concat([x, x[-1:]], axis=0) for x in (observations, starts))
    return stack_rollout(frames, begins, spec.stack)


def transition_inputs(
    observations: tf.Tensor, starts: tf.Tensor, spec: EnvSpec
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return what the network reads before and after each transition.

    From [N, F, *observation_shape] to [N, *input_shape] of the same dtype, twice: the
    first `stack` frames are the observation, the last `stack` the next one. `starts`,
    bool [N, F], are the first observations of episodes.
    """
    if not spec.is_image:
        return observations[:, 0], observations[:, -1]
    return stack_transitions(observations, starts, spec.stack)


def stack_rollout(observations: tf.Tensor, starts: tf.Tensor, stack: int) -> tf.Tensor:
    """Return the stacks of frames at each row of a rollout but the last.

    From uint8 [T + stack, B, H, W(, C)] to [T * B, H, W, stack * C].
    """
    length = tf.shape(observations)[0] - stack
    return _stack(
        [flatten(observations[i : i + length]) for i in range(stack)],
        [flatten(starts[i : i + length]) for i in range(stack)],
    )


def stack_transitions(
    observations: tf.Tensor, starts: tf.Tensor, stack: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the stacks of frames before and after each transition.

    From uint8 [N, F, H, W(, C)] to [N, H, W, stack * C], twice.
    """

    def stacked(first: int) -> tf.Tensor:
        places = range(first, first + stack)
        return _stack(
            [observations[:, i] for i in places], [starts[:, i] for i in places]
        )

    return stacked(0), stacked(-stack)


def _stack(frames: list[tf.Tensor], starts: list[tf.Tensor]) -> tf.Tensor:
    """Return [N, H, W, stack * C] of [N, H, W(, C)] frames, oldest first.

    Those before the last one's episode are zeros; `starts` are bool [N] each.
    """
    begins = tf.cast(tf.stack(starts), tf.int32)
    hidden = tf.cumsum(begins, exclusive=True, reverse=True) > 0
    pairs = zip(frames, tf.unstack(hidden, len(frames)), strict=True)
    shown = [_hide(frame, mask) for frame, mask in pairs]
    if len(frames[0].shape) == 3:
        return tf.stack(shown, axis=-1)
    return tf.concat(shown, axis=-1)


def _hide(frames: tf.Tensor, hidden: tf.Tensor) -> tf.Tensor:
    """Return [N, ...] frames, zeros where `hidden` [N]."""
    shape = tf.concat([tf.shape(hidden), [1] * (len(frames.shape) - 1)], axis=0)
    return frames * tf.cast(~tf.reshape(hidden, shape), frames.dtype)
