"""Proximal policy optimization."""

from typing import Any, NamedTuple

import tensorflow as tf

from xagents_ray.algorithms.ppo import PPOConfig
from xagents_ray.algorithms.state_dependent import noise_of
from xagents_ray.core.trajectory import Observations
from xagents_ray.learners import frames
from xagents_ray.learners.math import losses, returns
from xagents_ray.learners.metrics import (
    AlgorithmOutputs,
    Means,
    add_metrics_if,
    no_means,
    update_count,
)
from xagents_ray.learners.minibatches import (
    countable,
    update_in_passes,
    update_on_batches,
)
from xagents_ray.learners.optimizer import adapt_lr
from xagents_ray.learners.setup import LearnerSetup
from xagents_ray.learners.tensors import (
    Phase,
    batch_at,
    first_rows,
    flatten_time,
    masks_of,
    rounds_of,
    take_rows,
)


class PPOSamples(NamedTuple):
    """Rows of a rollout, [N, ...]."""

    actions: tf.Tensor
    behavior_log_probs: tf.Tensor
    proximal_log_probs: tf.Tensor  # of the policy that the new one stays close to
    behavior_values: tf.Tensor
    advantages: tf.Tensor
    targets: tf.Tensor
    action_masks: tf.Tensor | None = None


class PPO:
    """Several passes of minibatches over each round of trajectories.

    Log-probabilities and values are those of the behavior policy, however old it is;
    with --decoupled-loss, ratios are clipped around the newest policy instead.

    Replayed rounds are corrected by V-trace, and clipped around the newest policy.

    Source: arXiv:1707.06347; the decoupled loss, arXiv:2110.00641, eq. 4.
    """

    def __init__(self, setup: LearnerSetup[PPOConfig]) -> None:
        self._config, self._setup = setup.config, setup
        self.data = rounds_of(setup.config).with_noise_of(setup.layouts[0])
        self._model = setup.network(setup.layouts[0], "policy")
        log_std = noise_of(setup.config).shared_log_std
        self._head = setup.policy_head("policy", log_std)
        more = self._head.variables.values()
        self._variables = [*self._model.trainable_variables, *more]
        self._optimizer = setup.optimizer(self._variables)
        self._phases = setup.counter("phases")

    def learn(self, data: Any, phase: Phase) -> AlgorithmOutputs:
        """Make all passes over one round, then over each replayed batch."""
        c = self._config
        clip = self._setup.value(c.clip_norm)
        clip *= phase.remaining if c.clip_decay else 1.0
        so_far = (
            no_means(
                "policy_loss",
                "value_loss",
                "entropy",
                "loss",
                "kl",
                "approximate_kl",
                "clip_fraction",
                "grad_norm",
            ),
            no_means("explained_variance", "clip_norm"),
        )
        if c.replay is None:
            samples = self._samples(data, phase)
            metrics, rounds = self._pass_over(*samples, data, clip, so_far)
            return AlgorithmOutputs(metrics | rounds, update_count(metrics))

        def update(k: tf.Tensor, so_far: tuple[Means, Means]) -> tuple[Means, Means]:
            batch = batch_at(data, k)
            samples = self._corrected_samples(batch)
            return self._pass_over(*samples, batch, clip, so_far)

        metrics, rounds = update_on_batches(update, so_far, phase, self._setup)
        return AlgorithmOutputs(metrics | rounds, update_count(metrics))

    def _pass_over(
        self,
        samples: PPOSamples,
        inputs: Observations,
        r: Any,
        clip: tf.Tensor,
        so_far: tuple[Means, Means],
    ) -> tuple[Means, Means]:
        """Make all passes over the samples of a round.

        Return the metrics so far, of updates and of rounds, with those of this round.
        """
        c, (before, rounds) = self._config, so_far

        def update(rows: tf.Tensor, valid: tf.Tensor) -> dict[str, tf.Tensor]:
            held = (None if x is None else tf.gather(x, rows) for x in samples)
            batch = PPOSamples(*held)
            chosen = self._setup.inputs(take_rows(inputs, rows))
            chosen = frames.network_inputs(chosen, r, self._setup.spec, rows)
            return self._update(chosen, batch, valid, clip)

        metrics = update_in_passes(
            update,
            countable(r),
            before,
            c.ppo_epochs,
            c.mini_batches,
            self._phases,
            self._setup,
            may_end=c.target_kl is not None,
        )
        self._phases.assign_add(1)
        explained = losses.explained_variance(
            samples.behavior_values, samples.targets, flatten_time(r.valid)
        )
        rounds = add_metrics_if(
            update_count(metrics) > update_count(before),
            lambda: {"explained_variance": explained, "clip_norm": clip},
            rounds,
        )
        return metrics, rounds

    def _corrected_samples(self, r: Any) -> tuple[PPOSamples, Observations]:
        """Return samples of a batch, as if from the newest weights, and their inputs.

        V-trace weights targets and advantages by importance ratios.
        """
        c, shape, actions = self._config, tf.shape(r.rewards), flatten_time(r.actions)
        inputs = frames.rollout_inputs(r.observations, r.starts, self._setup.spec)
        outputs, values, *log_std = self._outputs(inputs, r)
        policy = self._head(outputs, *log_std, masks=masks_of(r))
        policy = policy[: tf.size(r.rewards)]
        log_probs = policy.log_prob(actions)
        values = tf.reshape(values, [-1, shape[1]])
        log_ratios = tf.reshape(log_probs, shape) - r.log_probs
        targets, advantages = returns.vtrace(
            log_ratios,
            r.rewards,
            values,
            r.terminated,
            r.truncated,
            c.gamma,
            decay=c.lam,
        )
        samples = PPOSamples(
            actions,
            behavior_log_probs=log_probs,
            proximal_log_probs=log_probs,
            behavior_values=flatten_time(values[:-1]),
            advantages=flatten_time(advantages),
            targets=flatten_time(targets),
            action_masks=masks_of(r),
        )
        return samples, inputs

    def _samples(self, r: Any, phase: Phase) -> tuple[PPOSamples, Observations]:
        """Return the samples to learn from, and the network's inputs."""
        c, values = self._config, r.values[:-1]
        advantages = returns.gae(
            r.rewards, r.values, r.terminated, r.truncated, c.gamma, c.lam
        )
        inputs = frames.rollout_inputs(r.observations, r.starts, self._setup.spec)
        log_probs, targets = r.log_probs, advantages + values
        rows = r.actions, log_probs, log_probs, values, advantages, targets
        samples = PPOSamples(*map(flatten_time, rows))._replace(
            action_masks=masks_of(r)
        )

        def newest_log_probs() -> tf.Tensor:
            firsts = first_rows(inputs, tf.size(targets))
            outputs, _, *log_std = self._outputs(firsts, r)
            newest = self._head(outputs, *log_std, masks=masks_of(r))
            return newest.log_prob(samples.actions)

        if c.decoupled_loss:
            is_old = r.weights_version < phase.weights_version
            proximal = tf.cond(
                is_old, newest_log_probs, lambda: samples.proximal_log_probs
            )
            samples = samples._replace(proximal_log_probs=proximal)
        return samples, inputs

    def _outputs(self, inputs: Observations, r: Any) -> Any:
        """Return the network's outputs for the first rows of a round."""
        scaled = self._setup.inputs(inputs)
        return self._model(frames.network_inputs(scaled, r, self._setup.spec))

    def _update(
        self, inputs: Any, batch: PPOSamples, valid: tf.Tensor, clip: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Take one gradient step on the network's inputs, if valid, bool [N]."""
        c = self._config
        clip_value = clip if c.clip_value is None else c.clip_value
        advantages = batch.advantages
        if c.normalize_advantages:
            advantages = losses.normalize(advantages, c.advantage_epsilon, valid)
        old_log_probs = batch.proximal_log_probs
        if c.decoupled_loss:
            advantages *= tf.exp(old_log_probs - batch.behavior_log_probs)
        with tf.GradientTape() as tape:
            outputs, values, *log_std = self._model(inputs)
            policy = self._head(outputs, *log_std, masks=batch.action_masks)
            values = values[:, 0]
            log_probs = policy.log_prob(batch.actions)
            entropy = losses.masked_mean(policy.entropy(), valid)
            policy_loss = losses.clipped_policy_loss(
                log_probs, old_log_probs, advantages, clip, valid
            )
            if c.clip_value == 0:
                errors = tf.square(batch.targets - values)
                value_loss = 0.5 * losses.masked_mean(errors, valid)
            else:
                value_loss = losses.clipped_value_loss(
                    values, batch.behavior_values, batch.targets, clip_value, valid
                )
            loss = policy_loss - self._setup.value(c.entropy_coef) * entropy
            loss += c.value_loss_coef * value_loss
        metrics = {
            "policy_loss": policy_loss,
            "value_loss": value_loss,
            "entropy": entropy,
            "loss": loss,
            **_change_of_policy(log_probs, old_log_probs, clip, valid),
        }
        divergence = metrics["approximate_kl"]
        if c.desired_kl is not None:
            adapt_lr(self._optimizer.learning_rate, divergence, c.desired_kl)
        return {**metrics, **self._close_step(tape, loss, divergence)}

    def _close_step(
        self, tape: tf.GradientTape, loss: tf.Tensor, divergence: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        """Take one gradient step unless the divergence exceeds --target-kl."""
        c = self._config
        if c.target_kl is None:
            return {"grad_norm": self._take_step(tape, loss)}
        # NaN counts as close: the update then yields NaN weights, which end the run.
        is_close = ~(divergence > 1.5 * c.target_kl)
        norm = tf.cond(
            is_close, lambda: self._take_step(tape, loss), lambda: tf.constant(0.0)
        )
        return {"grad_norm": norm, "has_updated": is_close}

    def _take_step(self, tape: tf.GradientTape, loss: tf.Tensor) -> tf.Tensor:
        return self._setup.step(
            self._optimizer, tape, loss, self._variables, self._config.grad_norm
        )


def _change_of_policy(
    log_probs: tf.Tensor, old_log_probs: tf.Tensor, clip: tf.Tensor, valid: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Return metrics of how far a policy is from the one that it stays close to.

    Both log-probabilities, of the same actions, are float32 [N], `valid` bool [N].
    """
    return {
        "kl": losses.masked_mean(old_log_probs - log_probs, valid),
        "approximate_kl": losses.approximate_kl(log_probs, old_log_probs, valid),
        "clip_fraction": losses.clip_fraction(log_probs, old_log_probs, clip, valid),
    }
