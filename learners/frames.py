"""Observations as networks read them: frames are stacked inside the graph."""

import tensorflow as tf

from xagents_ray.core.spec import EnvSpec


def rollout_inputs(
    observations: tf.Tensor, starts: tf.Tensor, spec: EnvSpec
) -> tf.Tensor:
    """Return what the network reads at each row of a rollout, and after the last.

    Args:
        observations: [T + stack, B, *observation_shape].
        starts: bool [T + stack, B], an episode's first observation.
        spec: of the environments.
    Returns:
        [(T + 1) * B, *input_shape], of the same dtype.
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

    Args:
        observations: [N, F, *observation_shape]; the first `stack` frames are the
            observation, the last `stack` the next one.
        starts: bool [N, F], an episode's first observation.
        spec: of the environments.
    Returns:
        [N, *input_shape] of the same dtype, twice.
    """
    if not spec.is_image:
        return observations[:, 0], observations[:, -1]
    return stack_transitions(observations, starts, spec.stack)


def stack_rollout(observations: tf.Tensor, starts: tf.Tensor, stack: int) -> tf.Tensor:
    """Return the stacks of frames at each row of a rollout.

    Args:
        observations: uint8 [T + stack, B, H, W] or [T + stack, B, H, W, C].
        starts: bool [T + stack, B].
        stack: frames per stack.
    Returns:
        uint8 [T * B, H, W, stack * C], without the last row.
    """
    length = tf.shape(observations)[0] - stack
    shown, begins = [], []
    for i in range(stack):
        shown.append(observations[i : i + length])
        begins.append(starts[i : i + length])
    hidden = _hidden(tf.stack(begins), axis=0)
    flat = [
        _hide(tf.reshape(frames, [-1, *frames.shape[2:]]), tf.reshape(mask, [-1]))
        for frames, mask in zip(shown, tf.unstack(hidden, stack), strict=True)
    ]
    return _channels(flat)


def stack_transitions(
    observations: tf.Tensor, starts: tf.Tensor, stack: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the stacks of frames before and after each transition.

    Args:
        observations: uint8 [N, F, H, W] or [N, F, H, W, C].
        starts: bool [N, F].
        stack: frames per stack, the first and the last of F.
    Returns:
        uint8 [N, H, W, stack * C], twice.
    """

    def stacked(first: int) -> tf.Tensor:
        places = range(first, first + stack)
        begins = tf.stack([starts[:, i] for i in places], axis=1)
        hidden = tf.unstack(_hidden(begins, axis=1), axis=1)
        return _channels(
            [_hide(observations[:, i], h) for i, h in zip(places, hidden, strict=True)]
        )

    return stacked(0), stacked(-stack)


def _hide(frames: tf.Tensor, hidden: tf.Tensor) -> tf.Tensor:
    """Return [N, ...] frames, zeros where `hidden` [N]."""
    shape = tf.concat([tf.shape(hidden), [1] * (len(frames.shape) - 1)], axis=0)
    return frames * tf.cast(~tf.reshape(hidden, shape), frames.dtype)


def _channels(frames: list[tf.Tensor]) -> tf.Tensor:
    """Return a list of [N, H, W(, C)] as [N, H, W, stack * C]."""
    if len(frames[0].shape) == 3:
        return tf.stack(frames, axis=-1)
    return tf.concat(frames, axis=-1)


def _hidden(starts: tf.Tensor, axis: int) -> tf.Tensor:
    """Return which frames of a window come before the last one's episode."""
    later = tf.cumsum(
        tf.cast(starts, tf.int32), axis=axis, exclusive=True, reverse=True
    )
    return later > 0
