"""Network inputs from observations: frames are stacked inside the graph.

Several arrays are dicts by name, as `EnvSpec.arrays` has them.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from xagents_ray.core.spec import VECTOR, EnvSpec
from xagents_ray.core.trajectory import Observations
from xagents_ray.learners.tensors import flatten_time

__autograph__ = False


def rollout_inputs(
    observations: Observations, starts: tf.Tensor, spec: EnvSpec
) -> Observations:
    """Return the network's inputs at each row of a rollout, and after the last.

    From [T + stack, B, *observation_shape] to [(T + 1) * B, *input_shape], of the same
    dtype; `starts`, bool [T + stack, B], marks the first observations of episodes.
    """
    if isinstance(observations, dict):
        return {
            name: flatten_time(x[spec.stack - 1 :])
            if name == VECTOR
            else _rollout_images(x, starts, spec.stack)
            for name, x in observations.items()
        }
    if not spec.is_image:
        return tf.reshape(observations, [-1, *spec.observation_shape])
    return _rollout_images(observations, starts, spec.stack)


def _rollout_images(
    observations: tf.Tensor, starts: tf.Tensor, stack: int
) -> tf.Tensor:
    # Append a row, because `stack_rollout` returns no stack for the last one.
    frames, begins = (tf.concat([x, x[-1:]], axis=0) for x in (observations, starts))
    return stack_rollout(frames, begins, stack)


def network_inputs(
    inputs: Any, r: Any, spec: EnvSpec, rows: tf.Tensor | None = None
) -> Any:
    """Return the inputs, with noise and memory if the record has them.

    That is the list that `networks.keras.build_model` describes.

    Args:
        inputs: float32 [N, *input_shape], or a list of such arrays.
        r: record of a rollout, of which these are rows.
        spec: spec of the environments.
        rows: int32 [N], indices of the inputs among the rollout's rows, [T * B]; None
            for the first ones. With memory, all T rows of some environments.
    """
    noise, state = r.network_noise, r.recurrent_state
    if noise is None and state is None:
        return inputs
    count, width = tf.shape(tf.nest.flatten(inputs)[0])[0], tf.shape(r.starts)[1]
    own = tf.range(count) if rows is None else rows
    joined = [inputs]
    if noise is not None:
        joined.append(tf.gather(noise[0], own % width))
    if state is None:
        return joined
    starts = r.starts[spec.stack - 1 :]
    if rows is None:
        return [*joined, state[0], starts[: count // width]]
    length = tf.shape(starts)[0] - 1
    envs = rows[: count // length]
    return [*joined, tf.gather(state[0], envs), tf.gather(starts[:-1], envs, axis=1)]


def transition_inputs(
    observations: Observations, starts: tf.Tensor, spec: EnvSpec
) -> tuple[Observations, Observations]:
    """Return the network's inputs before and after each transition.

    From [N, F, *observation_shape] to [N, *input_shape] of the same dtype, twice: the
    first `stack` frames are the observation, the last `stack` the next one. `starts`,
    bool [N, F], marks the first observations of episodes.
    """
    if isinstance(observations, dict):
        pairs = {
            name: (x[:, spec.stack - 1], x[:, -1])
            if name == VECTOR
            else stack_transitions(x, starts, spec.stack)
            for name, x in observations.items()
        }
        before, after = ({k: x[i] for k, x in pairs.items()} for i in (0, 1))
        return before, after
    if not spec.is_image:
        return observations[:, 0], observations[:, -1]
    return stack_transitions(observations, starts, spec.stack)


def stack_rollout(observations: tf.Tensor, starts: tf.Tensor, stack: int) -> tf.Tensor:
    """Return the stacked frames at each row of a rollout except the last.

    From uint8 [T + stack, B, H, W(, C)] to [T * B, H, W, stack * C].
    """
    length = tf.shape(observations)[0] - stack
    return _stack(
        lambda x: [flatten_time(x[i : i + length]) for i in range(stack)],
        observations,
        starts,
    )


def stack_transitions(
    observations: tf.Tensor, starts: tf.Tensor, stack: int
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the stacked frames before and after each transition.

    From uint8 [N, F, H, W(, C)] to [N, H, W, stack * C], twice.
    """

    def stacked(first: int) -> tf.Tensor:
        places = range(first, first + stack)
        return _stack(lambda x: [x[:, i] for i in places], observations, starts)

    return stacked(0), stacked(-stack)


def _stack(
    rows: Callable[[tf.Tensor], list[tf.Tensor]],
    observations: tf.Tensor,
    starts: tf.Tensor,
) -> tf.Tensor:
    """Return [N, H, W, stack * C]; frames before the last one's episode are zeros.

    `rows` splits the observations into the frames of stacks, [N, H, W(, C)] each and
    oldest first, and the starts into bool [N] each.
    """
    begins = tf.cast(tf.stack(rows(starts)), tf.int32)
    shown = tf.cumsum(begins, exclusive=True, reverse=True) == 0
    stack, is_gray = begins.shape[0], len(observations.shape) == 4
    if stack == 4 and is_gray:
        return _pack(rows(observations), shown)
    masks = tf.unstack(tf.cast(shown, observations.dtype), stack)
    pairs = zip(rows(observations), masks, strict=True)
    frames = [x * tf.reshape(m, [-1] + [1] * (len(x.shape) - 1)) for x, m in pairs]
    return tf.stack(frames, axis=-1) if is_gray else tf.concat(frames, axis=-1)


def _pack(frames: list[tf.Tensor], shown: tf.Tensor) -> tf.Tensor:
    """Return uint8 [N, H, W, 4] of uint8 [N, H, W] frames, zeros where not `shown`.

    `shown` is bool [4, N]. Stacking byte by byte takes about four times as long.
    """
    packed = tf.cast(frames[3], tf.uint32)
    for frame in frames[2::-1]:
        packed = packed * 256 + tf.cast(frame, tf.uint32)
    masks = tf.bitcast(255 * tf.transpose(tf.cast(shown, tf.uint8)), tf.uint32)
    return tf.bitcast(packed & masks[:, None, None], tf.uint8)
