"""The policies of A2C, PPO, TRPO and ACER."""

import numpy as np

from xagents_ray.actors.policies.base import (
    Actions,
    ActorPolicy,
    categorical_log_probs,
    largest_index,
    mask_outputs,
    sample_categorical,
    split_parts,
)
from xagents_ray.actors.policies.state_dependent import (
    StateDependentNoise,
    gaussian_log_probs,
)
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Array, FloatArray
from xagents_ray.networks.activations import softmax
from xagents_ray.networks.layout import Layout
from xagents_ray.settings.algorithm import AlgorithmConfig


class ActorCriticPolicy(ActorPolicy):
    """Samples from a categorical or diagonal Gaussian policy; may have a critic.

    Several discrete actions per step are drawn independently.
    """

    keeps_noise = True

    def __init__(self, config: AlgorithmConfig, spec: EnvSpec, layout: Layout) -> None:
        super().__init__(config, spec, layout)
        # Scaling to bounds of -1 and 1 would only add rounding errors.
        self._is_scaled &= (self._low != -1) | (self._high != 1)
        self.scales_actions = config.scales_actions and bool(self._is_scaled.any())

    def _empty_noise(self, shape: tuple[int, int]) -> Array:
        """Return an array for a number per action component, or one per step (gSDE)."""
        if self._sde is not None:
            return np.empty(shape, np.float32)
        dtype = np.float64 if self._spec.is_discrete else np.float32
        return np.empty((*shape, *self._spec.action_shape), dtype)

    def _draw(self, generator: np.random.Generator, out: Array) -> None:
        """Draw uniform [T] or [T, P] for discrete actions, else standard normal [T, A].

        With gSDE, draw uniform [T] from -1 to 1, from which seeds are derived.
        """
        if self._sde is not None:
            out[:] = generator.uniform(-1, 1, len(out))
        elif self._spec.is_discrete:
            generator.random(out=out)
        else:
            generator.standard_normal(out=out, dtype=np.float32)

    def act(self, observations: Array, noise: Array, env_steps: int) -> Actions:
        """Draw an action for each observation."""
        if self._sde is not None:
            return self._act_by_state(observations, noise, self._sde)
        outputs, *more = self._forward(observations, self.network_noise)
        values = self._values(more)
        if self._spec.is_discrete:
            outputs = mask_outputs(outputs, self.action_masks)
            actions = self._sample(outputs, noise)
            return Actions(actions, actions, outputs, values)
        raw = outputs + np.exp(self._arrays["log_std"]) * noise
        return Actions(raw, self._to_bounds(raw), values=values)

    def _act_by_state(
        self, observations: Array, uniform: Array, noise: StateDependentNoise
    ) -> Actions:
        self.memory = noise.begin(self.memory, uniform)
        outputs = self._forward(observations, noise.matrices(self.memory))
        log_std, normal = noise.pop(outputs)
        means, *more = outputs
        raw = means + np.exp(log_std) * normal
        return Actions(
            raw,
            self._to_bounds(raw),
            values=self._values(more),
            log_probs=gaussian_log_probs(normal, log_std),
        )

    def greedy(self, observations: Array) -> Array:
        """Return the actions with the largest logits, or the means within bounds."""
        outputs = self._forward(observations)[0]
        if not self._spec.is_discrete:
            return self._to_bounds(outputs)
        outputs = mask_outputs(outputs, self.action_masks)
        if self._spec.action_sizes:
            return np.stack([*map(largest_index, self._parts(outputs))], axis=-1)
        return largest_index(outputs)

    def log_probs(self, rows: Actions, noise: Array) -> FloatArray:
        """Return log-probabilities of the actions in T rows, float32 [T, B]."""
        if rows.log_probs is not None:
            return rows.log_probs
        if rows.logits is not None and self._spec.action_sizes:
            drawn = zip(
                self._parts(rows.logits), np.moveaxis(rows.stored, -1, 0), strict=True
            )
            return np.sum([categorical_log_probs(*each) for each in drawn], axis=0)  # type: ignore[no-any-return]
        if rows.logits is not None:
            return categorical_log_probs(rows.logits, rows.stored)
        log_probs = -(np.square(noise) + np.log(2 * np.pi)).sum(-1) / 2
        log_std = self._arrays["log_std"]
        return (log_probs - log_std.sum()).astype(np.float32)  # type: ignore[no-any-return]

    def values(self, observations: Array) -> FloatArray | None:
        """Return float32 [B] values; None if no critic is used."""
        state = self.recurrent_state
        outputs = self._forward(observations, self.network_noise)
        self.recurrent_state = state
        if self._sde is not None:
            del outputs[self._sde.output]
        return self._values(outputs[1:])

    def _sample(self, logits: FloatArray, noise: Array) -> Array:
        if not self._spec.action_sizes:
            return sample_categorical(logits, noise)
        drawn = zip(self._parts(logits), noise.T, strict=True)
        return np.stack([sample_categorical(*each) for each in drawn], axis=-1)

    def _parts(self, logits: FloatArray) -> list[FloatArray]:
        return split_parts(logits, self._spec.action_sizes)

    def _values(self, more: list[FloatArray]) -> FloatArray | None:
        return more[0][:, 0] if more and self._config.reads_values else None


class CategoricalPolicy(ActorPolicy):
    """Samples from a categorical policy and reports all actions' probabilities."""

    keeps_noise = True

    def _draw(self, generator: np.random.Generator, out: Array) -> None:
        generator.random(out=out)

    def act(self, observations: Array, noise: Array, env_steps: int) -> Actions:
        """Draw an action for each observation."""
        logits = self._forward(observations, self.network_noise)[0]
        logits = mask_outputs(logits, self.action_masks)
        actions = sample_categorical(logits, noise)
        return Actions(actions, actions, logits)

    def probabilities(self, rows: Actions) -> FloatArray:
        """Return the probabilities of all actions, float32 [T, B, n]."""
        assert rows.logits is not None
        return softmax(rows.logits)

    def greedy(self, observations: Array) -> Array:
        """Return the most likely actions, int32 [B]."""
        return largest_index(
            mask_outputs(self._forward(observations)[0], self.action_masks)
        )
