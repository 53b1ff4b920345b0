"""Trust region policy optimization."""

from typing import NamedTuple

import tensorflow as tf

from xagents_ray.algorithms.state_dependent import noise_of
from xagents_ray.algorithms.trpo import TRPOConfig
from xagents_ray.core.errors import UserError
from xagents_ray.core.trajectory import Observations, Trajectory, map_array
from xagents_ray.learners import frames
from xagents_ray.learners.math import losses, returns, trust_region
from xagents_ray.learners.math.distributions import Distribution
from xagents_ray.learners.math.flat import assign_flat, concat_flat
from xagents_ray.learners.metrics import (
    AlgorithmOutputs,
    Means,
    add_metrics,
    no_means,
    update_count,
)
from xagents_ray.learners.minibatches import countable, update_in_passes
from xagents_ray.learners.optimizer import (
    constrained_variables,
    regularization_loss,
)
from xagents_ray.learners.setup import LearnerSetup
from xagents_ray.learners.tensors import (
    ROLLOUT,
    Phase,
    first_rows,
    flatten_time,
    masks_of,
    take_rows,
)


class TRPOSamples(NamedTuple):
    """Rows of a rollout, [N, ...]."""

    actions: tf.Tensor
    behavior_log_probs: tf.Tensor
    advantages: tf.Tensor
    valid: tf.Tensor
    action_masks: tf.Tensor | None = None


class TRPO:
    """One natural gradient step of the actor, and minibatch passes of the critic.

    Importance ratios are to the behavior policy, however old it is; the trust region is
    around the newest policy, where the step starts.

    Source: arXiv:1502.05477; advantages, arXiv:1506.02438.
    """

    def __init__(self, setup: LearnerSetup[TRPOConfig]) -> None:
        self._config, self._setup = setup.config, setup
        actor_layout, critic_layout = setup.layouts
        self.data = ROLLOUT.with_noise_of(actor_layout)
        self._actor = setup.network(actor_layout, "actor")
        self._critic = setup.network(critic_layout, "critic")
        log_std = noise_of(setup.config).shared_log_std
        self._head = setup.policy_head("actor", log_std)
        more = self._head.variables.values()
        self._variables = [*self._actor.trainable_variables, *more]
        if constrained_variables(self._variables):
            raise UserError(
                "TRPO's step is the largest that --max-kl allows, and constraints of "
                "Keras would change it: leave them out of the actor's model, or use "
                "ppo."
            )
        self._optimizer = setup.optimizer(
            self._critic.trainable_variables,
            "critic-optimizer",
            setup.config.critic_lr,
        )
        self._phases = setup.counter("phases")

    def learn(self, rollout: Trajectory, phase: Phase) -> AlgorithmOutputs:
        """Update both networks from [T, B] rows."""
        c, r = self._config, rollout
        inputs = frames.rollout_inputs(r.observations, r.starts, self._setup.spec)
        own = self._critic_record(r)
        values = tf.reshape(self._values(inputs, own), [-1, tf.shape(r.rewards)[1]])
        advantages = returns.gae(
            r.rewards, values, r.terminated, r.truncated, c.gamma, c.lam
        )
        targets = flatten_time(advantages + values[:-1])
        columns = r.actions, r.log_probs, advantages, r.valid
        samples = TRPOSamples(*map(flatten_time, columns))._replace(
            action_masks=masks_of(r)
        )
        actor_metrics = no_means(
            "policy_loss", "kl", "entropy", "explained_variance", "step_fraction"
        )
        critic_metrics = no_means("value_loss", "value_grad_norm")

        def updated() -> tuple[Means, Means]:
            firsts = first_rows(inputs, tf.size(targets))
            update = self._update_actor(firsts, r, samples)
            explained = losses.explained_variance(
                flatten_time(values[:-1]), targets, samples.valid
            )
            update["explained_variance"] = explained
            critic = self._update_critic(inputs, targets, own, critic_metrics)
            return add_metrics(actor_metrics, update), critic

        actor_metrics, critic_metrics = tf.cond(
            tf.reduce_any(r.valid) & ~self._setup.stopping,
            updated,
            lambda: (actor_metrics, critic_metrics),
        )
        self._phases.assign_add(1)
        updates = update_count(actor_metrics) + update_count(critic_metrics)
        return AlgorithmOutputs(actor_metrics | critic_metrics, updates)

    def _critic_record(self, r: Trajectory) -> Trajectory:
        """Return a rollout as the critic's network reads it.

        The critic doesn't act, so its memory begins with the rollout.
        """
        units, state = self._setup.layouts[1].state_units, None
        if units:
            state = tf.zeros([1, tf.shape(r.rewards)[1], units])
        return r._replace(network_noise=None, recurrent_state=state)

    def _policy(
        self,
        inputs: Observations,
        r: Trajectory,
        masks: tf.Tensor | None,
        rows: tf.Tensor | None = None,
    ) -> Distribution:
        """Return the distributions at rows; see `frames.network_inputs`.

        `masks`, bool [N or more, n], are the action masks of the inputs, or None.
        """
        scaled = self._setup.inputs(inputs)
        read = frames.network_inputs(scaled, r, self._setup.spec, rows)
        outputs = self._actor(read)
        return self._head(*tf.nest.flatten(outputs), masks=masks)

    def _policy_at(
        self, inputs: Observations, r: Trajectory, masks: tf.Tensor | None, every: slice
    ) -> Distribution:
        """Return the distributions at every n-th row; memory reads all rows."""
        if r.recurrent_state is not None:
            return self._policy(inputs, r, masks)[every]
        some = map_array(lambda x: x[every], inputs)
        rows = tf.range(tf.size(r.valid))[every]
        some_masks = None if masks is None else tf.gather(masks, rows)
        return self._policy(some, r, some_masks, rows)

    def _values(
        self, inputs: Observations, r: Trajectory, rows: tf.Tensor | None = None
    ) -> tf.Tensor:
        """Return the critic's values, float32 [N]; see `frames.network_inputs`."""
        scaled = self._setup.inputs(inputs)
        read = frames.network_inputs(scaled, r, self._setup.spec, rows)
        return self._critic(read)[:, 0]

    def _update_actor(
        self, inputs: Observations, r: Trajectory, samples: TRPOSamples
    ) -> dict[str, tf.Tensor]:
        """Take one step within the trust region from N samples of a rollout."""
        c, valid, shares = self._config, samples.valid, self._setup.shares
        if c.normalize_advantages:
            scaled = losses.normalize(samples.advantages, c.advantage_epsilon, valid)
            samples = samples._replace(advantages=scaled)
        masks = samples.action_masks
        old = self._policy(inputs, r, masks).frozen()
        every = slice(None, None, c.fvp_n_steps)

        def divergence() -> tf.Tensor:
            new = self._policy_at(inputs, r, masks, every)
            return losses.masked_mean(old[every].kl(new), valid[every])

        def product(vector: tf.Tensor) -> tf.Tensor:
            return trust_region.fisher_vector_product(
                divergence, self._variables, vector, c.cg_damping, shares
            )

        def evaluate(parameters: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            assign_flat(self._variables, parameters)
            policy = self._policy(inputs, r, masks)
            gain, _ = self._gain(policy, samples)
            return gain, losses.masked_mean(old.kl(policy), valid)

        with tf.GradientTape() as tape:
            gain, entropy = self._gain(self._policy(inputs, r, masks), samples)
        start, own = concat_flat(self._variables), tape.gradient(gain, self._variables)
        gradient = concat_flat(shares.summed(own, self._variables))

        def step_taken() -> tuple[tf.Tensor, tf.Tensor]:
            step = trust_region.natural_step(
                product, gradient, c.max_kl, c.cg_iterations, c.cg_residual_tolerance
            )
            end, taken = trust_region.line_search(
                evaluate, start, step, gain, c.max_kl, c.actor_iterations
            )
            return taken, evaluate(end)[1]  # leaves the network's parameters at `end`

        zeros = tf.constant(0.0), tf.constant(0.0)
        taken, kl = tf.cond(tf.reduce_any(gradient != 0), step_taken, lambda: zeros)
        metrics = {"policy_loss": -gain, "kl": kl, "entropy": entropy}
        return {**metrics, "step_fraction": taken}

    def _gain(
        self, policy: Distribution, samples: TRPOSamples
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the objective that the actor maximizes, and the mean entropy."""
        entropy = losses.masked_mean(policy.entropy(), samples.valid)
        log_probs = policy.log_prob(samples.actions)
        gain = losses.surrogate_gain(
            log_probs, samples.behavior_log_probs, samples.advantages, samples.valid
        )
        gain += self._setup.value(self._config.entropy_coef) * entropy
        penalty = regularization_loss(self._variables)
        if penalty is not None:
            gain -= self._setup.shares.penalty(penalty)
        return gain, entropy

    def _update_critic(
        self,
        inputs: Observations,
        targets: tf.Tensor,
        r: Trajectory,
        metrics: Means,
    ) -> Means:
        """Make all passes over the rollout's valid rows, as the critic reads it."""
        c, variables = self._config, self._critic.trainable_variables

        def update(rows: tf.Tensor, valid: tf.Tensor) -> dict[str, tf.Tensor]:
            chosen, part_inputs = tf.gather(targets, rows), take_rows(inputs, rows)
            with tf.GradientTape() as tape:
                errors = tf.square(chosen - self._values(part_inputs, r, rows))
                value_loss = losses.masked_mean(errors, valid)
                loss = c.value_loss_coef * value_loss
            norm = self._setup.step(self._optimizer, tape, loss, variables, c.grad_norm)
            return {"value_loss": value_loss, "value_grad_norm": norm}

        passes, parts = c.critic_iterations, c.mini_batches
        return update_in_passes(
            update, countable(r), metrics, passes, parts, self._phases, self._setup
        )
