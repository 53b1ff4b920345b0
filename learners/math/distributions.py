"""Distributions of actions, one per row of a policy network's outputs.

A slice `[rows]` selects the distributions of some rows.
"""

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import tensorflow as tf

from xagents_ray.core.spec import FORBIDDEN, EnvSpec
from xagents_ray.learners.math.noise import standard_normal

__autograph__ = False


@dataclass(frozen=True)
class Categorical:
    """Discrete actions.

    Attributes:
        logits: float32 [N, n].
    """

    logits: tf.Tensor

    def __getitem__(self, rows: slice) -> "Categorical":
        return Categorical(self.logits[rows])

    def log_prob(self, actions: tf.Tensor) -> tf.Tensor:
        """Return float32 [N] log-probabilities of int32 [N] actions."""
        return -tf.nn.sparse_softmax_cross_entropy_with_logits(actions, self.logits)

    def entropy(self) -> tf.Tensor:
        """Return float32 [N] entropies, in nats."""
        log_probs = tf.nn.log_softmax(self.logits)
        return -tf.reduce_sum(tf.exp(log_probs) * log_probs, axis=-1)

    def kl(self, other: "Distribution") -> tf.Tensor:
        """Return float32 [N] KL(self ‖ other), in nats; both are of the same class."""
        assert isinstance(other, Categorical)
        log_probs = tf.nn.log_softmax(self.logits)
        log_ratios = log_probs - tf.nn.log_softmax(other.logits)
        return tf.reduce_sum(tf.exp(log_probs) * log_ratios, axis=-1)

    def mode(self) -> tf.Tensor:
        """Return int32 [N], the most probable actions."""
        return tf.argmax(self.logits, axis=-1, output_type=tf.int32)

    def sample(self, seed: tf.Tensor) -> tf.Tensor:
        """Return int32 [N] actions, determined by the seed, int [2]."""
        drawn = tf.random.stateless_categorical(self.logits, 1, seed, tf.int32)
        return drawn[:, 0]

    def frozen(self) -> "Categorical":
        """Return a copy that later changes of variables don't affect."""
        return self


@dataclass(frozen=True)
class MultiCategorical:
    """Several independent discrete actions per step.

    Attributes:
        logits: float32 [N, n], the logits of all actions concatenated.
        sizes: number of logits of each action; their sum is n.
    """

    logits: tf.Tensor
    sizes: tuple[int, ...]

    def __getitem__(self, rows: slice) -> "MultiCategorical":
        return MultiCategorical(self.logits[rows], self.sizes)

    def log_prob(self, actions: tf.Tensor) -> tf.Tensor:
        """Return float32 [N] log-probabilities of int32 [N, P] actions."""
        columns = tf.unstack(actions, len(self.sizes), axis=-1)
        pairs = zip(self._parts, columns, strict=True)
        return tf.add_n([part.log_prob(column) for part, column in pairs])

    def entropy(self) -> tf.Tensor:
        """Return float32 [N] entropies, in nats."""
        return tf.add_n([part.entropy() for part in self._parts])

    def kl(self, other: "Distribution") -> tf.Tensor:
        """Return float32 [N] KL(self ‖ other), in nats; both are of the same class."""
        assert isinstance(other, MultiCategorical)
        pairs = zip(self._parts, other._parts, strict=True)
        return tf.add_n([part.kl(theirs) for part, theirs in pairs])

    def mode(self) -> tf.Tensor:
        """Return int32 [N, P], the most probable actions."""
        return tf.stack([part.mode() for part in self._parts], axis=1)

    def sample(self, seed: tf.Tensor) -> tf.Tensor:
        """Return int32 [N, P] actions, determined by the seed, int [2]."""
        seeds = tf.unstack(tf.random.split(seed, len(self.sizes)))
        pairs = zip(self._parts, seeds, strict=True)
        return tf.stack([part.sample(own) for part, own in pairs], axis=1)

    def frozen(self) -> "MultiCategorical":
        """Return a copy that later changes of variables don't affect."""
        return self

    @property
    def _parts(self) -> list[Categorical]:
        return [Categorical(x) for x in tf.split(self.logits, self.sizes, axis=-1)]


@dataclass(frozen=True)
class Gaussian:
    """Continuous actions, independent in each dimension.

    Attributes:
        means: float32 [N, A].
        log_std: float32 [A], a tensor or a variable, or [N, A], one for each row.
    """

    means: tf.Tensor
    log_std: Any

    def __getitem__(self, rows: slice) -> "Gaussian":
        is_shared = len(self.log_std.shape) == 1
        log_std = self.log_std if is_shared else self.log_std[rows]
        return Gaussian(self.means[rows], log_std)

    def log_prob(self, actions: tf.Tensor) -> tf.Tensor:
        """Return float32 [N] log-densities of float32 [N, A] actions."""
        scaled = (actions - self.means) * tf.exp(-self.log_std)
        constant = self.log_std + 0.5 * math.log(2 * math.pi)
        return -tf.reduce_sum(0.5 * tf.square(scaled) + constant, axis=-1)

    def entropy(self) -> tf.Tensor:
        """Return float32 [N] entropies, in nats; [] if all rows share log_std."""
        constant = 0.5 * math.log(2 * math.pi * math.e)
        return tf.reduce_sum(self.log_std + constant, axis=-1)

    def kl(self, other: "Distribution") -> tf.Tensor:
        """Return float32 [N] KL(self ‖ other), in nats; both are of the same class."""
        assert isinstance(other, Gaussian)
        narrower = 2 * (self.log_std - other.log_std)
        moved = tf.square((self.means - other.means) * tf.exp(-other.log_std))
        return 0.5 * tf.reduce_sum(tf.exp(narrower) - narrower - 1 + moved, axis=-1)

    def mode(self) -> tf.Tensor:
        """Return float32 [N, A], the means."""
        return self.means

    def sample(self, seed: tf.Tensor) -> tf.Tensor:
        """Return float32 [N, A] actions, determined by the seed, int [2]."""
        noise = tf.cast(standard_normal(seed, tf.shape(self.means)), self.means.dtype)
        return self.means + tf.exp(self.log_std) * noise

    def frozen(self) -> "Gaussian":
        """Return a copy that later changes of variables don't affect."""
        return Gaussian(tf.identity(self.means), tf.identity(self.log_std))


@dataclass(frozen=True)
class SquashedGaussian:
    """Continuous actions between -1 and 1: the tanh of independent normal variables.

    Attributes:
        means: float32 [N, A], means before the tanh.
        log_stds: float32 [N, A], log standard deviations before the tanh.
    Source: arXiv:1812.05905, appendix C.
    """

    means: tf.Tensor
    log_stds: tf.Tensor

    def actions_of(self, noise: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the actions for standard normal noise, and their log-densities.

        Gradients flow through both to the means and deviations.

        Args:
            noise: standard normal numbers, float32 [N, A].
        Returns:
            Actions, float32 [N, A], and log-densities, float32 [N].

        >>> SquashedGaussian(tf.zeros([1, 1]), tf.zeros([1, 1])).actions_of([[0.0]])
        (<tf.Tensor: shape=(1, 1), dtype=float32, numpy=array([[0.]], dtype=float32)>,
         <tf.Tensor: shape=(1,), dtype=float32, numpy=array([-0.9189385], ...)>)
        """
        drawn = self.means + tf.exp(self.log_stds) * noise
        normal = 0.5 * tf.square(noise) + self.log_stds + 0.5 * math.log(2 * math.pi)
        # a stable log(1 - tanh(x)^2), which would be log(0) for a large x
        slope = 2 * (math.log(2) - drawn - tf.nn.softplus(-2 * drawn))
        return tf.tanh(drawn), -tf.reduce_sum(normal + slope, axis=-1)

    def mode(self) -> tf.Tensor:
        """Return float32 [N, A], the tanh of the means."""
        return tf.tanh(self.means)


Distribution: TypeAlias = Categorical | MultiCategorical | Gaussian


def masked(outputs: tf.Tensor, masks: tf.Tensor | None) -> tf.Tensor:
    """Return logits or values, float32 [N, n], `FORBIDDEN` where masks are False.

    Masks, bool [M, n] with M >= N, are those of the rows in order; None allows all.
    """
    if masks is None:
        return outputs
    return tf.where(masks[: tf.shape(outputs)[0]], outputs, FORBIDDEN)


class PolicyHead:
    """Turns a policy network's outputs into action distributions.

    Args:
        spec: spec of the environments.
        log_std: initial log standard deviation; None if the network outputs it.
    Attributes:
        variables: learned variables besides the network's weights, by name: `log_std`
            [A] for continuous actions.
    """

    def __init__(self, spec: EnvSpec, log_std: float | None = 0.0) -> None:
        self.variables: dict[str, Any] = {}
        self._sizes = spec.action_sizes
        if not spec.is_discrete and log_std is not None:
            first = tf.fill([spec.action_units], float(log_std))
            self.variables["log_std"] = tf.Variable(first, name="log_std")

    def __call__(
        self, outputs: tf.Tensor, *log_std: tf.Tensor, masks: tf.Tensor | None = None
    ) -> Distribution:
        """Return the distributions of float32 [N, n] logits or [N, A] means.

        `log_std`, float32 [N, A], is passed if the network outputs it. Discrete actions
        that masks, bool [M, n] with M >= N, forbid have a probability of 0.
        """
        outputs = masked(outputs, masks)
        if log_std:
            return Gaussian(outputs, *log_std)
        if "log_std" in self.variables:
            return Gaussian(outputs, self.variables["log_std"])
        if self._sizes:
            return MultiCategorical(outputs, self._sizes)
        return Categorical(outputs)
