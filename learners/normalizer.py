"""Normalization of observations and rewards by running statistics, in the graph."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from xagents_ray.core.moments import (
    CLIP_RANGE,
    OBSERVATION,
    POLICY_STATISTICS,
    STD_EPSILON,
    Moments,
    Statistics,
    merge_moments,
    wrapper_name,
)
from xagents_ray.core.spec import VECTOR, EnvSpec
from xagents_ray.core.trajectory import Array, Observations
from xagents_ray.networks import keras as networks
from xagents_ray.networks.layout import Layout
from xagents_ray.settings.algorithm import AlgorithmConfig

__autograph__ = False


class Normalizer:
    """Running statistics of observations and of discounted returns.

    Statistics of an environment's normalizing wrappers are merged here too, only to be
    sent back to the wrappers.

    `Learner.learn` decides which of them a learning phase uses. With a policy lag, its
    rollouts were collected with older statistics. Importance ratios correct for those
    of observations, which are part of the policy; values stored in PPO's rollouts stay
    on an older reward scale.

    Attributes:
        variables: float64 variables by name: `observation/mean`, `return/variance`, …;
            empty if nothing is normalized. In float32, late samples would not change a
            mean that is large compared to the deviation.
    """

    def __init__(self, config: AlgorithmConfig, spec: EnvSpec) -> None:
        shapes: dict[str, tuple[int, ...]] = {}
        if config.normalize_observations:
            shapes[OBSERVATION] = spec.observation_shape
        if config.normalize_rewards:
            shapes["return"] = ()
        shapes |= {wrapper_name(i): shape for i, shape in enumerate(spec.wrappers)}
        powers = range(1 if config.replay is None else config.replay.n_step)
        # Bound on rewards, which are discounted sums over n steps.
        self._largest = CLIP_RANGE * sum(config.gamma**n for n in powers)
        self.variables = {
            f"{name}/{part}": tf.Variable(value, trainable=False)
            for name, shape in shapes.items()
            for part, value in (
                ("size", tf.zeros([], tf.float64)),
                ("mean", tf.zeros(shape, tf.float64)),
                ("variance", tf.ones(shape, tf.float64)),
            )
        }

    def inputs(self, layout: Layout, observations: Observations) -> Any:
        """Return observations [..., *input_shape] as the network's float32 input.

        Those of several arrays are a dict, and the input a list of arrays.
        """
        names = [f"{OBSERVATION}/{part}" for part in ("mean", "variance")]
        statistics = [self.variables[n] for n in names if n in self.variables]
        return normalized_inputs(layout, observations, statistics)

    def rewards(self, rewards: tf.Tensor) -> tf.Tensor:
        """Return float32 rewards of any shape, scaled for learning."""
        if "return/variance" not in self.variables:
            return rewards
        scaled = rewards * tf.cast(self._scale("return"), tf.float32)
        return tf.clip_by_value(scaled, -self._largest, self._largest)

    def has_seen(self, name: str) -> bool:
        """Return whether statistics with this name have been merged."""
        size = self.variables.get(f"{name}/size")
        return size is not None and float(size) > 0

    def take(self, statistics: Statistics) -> None:
        """Merge the statistics that env actors measured."""
        for name, moments in statistics.items():
            parts = [self.variables[f"{name}/{part}"] for part in Moments._fields]
            before = Moments(*(x.numpy() for x in parts))
            after: tuple[Any, ...] = merge_moments(before, moments)
            for variable, value in zip(parts, after, strict=True):
                variable.assign(np.float64(value))

    def policy_arrays(self) -> dict[str, Array]:
        """Return the statistics of observations and wrappers, float64 by name."""
        return {
            name: np.asarray(variable.numpy())
            for name, variable in self.variables.items()
            if name.startswith(POLICY_STATISTICS)
        }

    def named(self, model: str) -> dict[str, tf.Variable]:
        """Return the variables by their names in a learner's state.

        Those of observations and of wrappers belong to the weights of `model`, which
        acts.
        """
        return {
            f"{model}/{name}" if name.startswith(POLICY_STATISTICS) else name: variable
            for name, variable in self.variables.items()
        }

    def _scale(self, name: str) -> tf.Tensor:
        """Return the factor that scales a quantity to a deviation of 1, float64."""
        return _scale_of(self.variables[f"{name}/variance"])


def normalized_inputs(
    layout: Layout, observations: Observations, statistics: Sequence[Any]
) -> Any:
    """Return observations [..., *input_shape] as the network's float32 input.

    Args:
        layout: layout of the network.
        observations: the observations; a dict of several arrays becomes a list.
        statistics: float64 mean and variance; empty if nothing is normalized.
    """
    if not statistics:
        return networks.scaled_inputs(layout, observations)
    if layout.inputs:
        vectors = _normalized(observations[VECTOR], *statistics)
        return networks.scaled_inputs(layout, {**observations, VECTOR: vectors})
    return _normalized(observations, *statistics)


def _normalized(observations: tf.Tensor, mean: Any, variance: Any) -> tf.Tensor:
    """Return normalized float32 observations."""
    scaled = (tf.cast(observations, tf.float64) - mean) * _scale_of(variance)
    clipped = tf.clip_by_value(scaled, -CLIP_RANGE, CLIP_RANGE)
    return tf.cast(clipped, tf.float32)


def _scale_of(variance: Any) -> tf.Tensor:
    return tf.math.rsqrt(variance + STD_EPSILON)
