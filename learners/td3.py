"""Twin delayed deep deterministic policy gradient."""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from xagents_ray.algorithms.td3 import TD3Config
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Array, Transitions, Weights
from xagents_ray.learners import losses
from xagents_ray.learners.deterministic import (
    judge,
    normal_noise,
    polyak,
    signature,
    smoothed,
    with_target,
)
from xagents_ray.learners.learner import Metrics
from xagents_ray.learners.normalizer import Normalizer
from xagents_ray.learners.optimizer import descend, make_optimizer
from xagents_ray.learners.state import LearnerState
from xagents_ray.networks.layout import Layout

_CRITIC_METRICS = ("value_loss", "q_value", "value_grad_norm")
_ACTOR_METRICS = ("policy_loss", "policy_grad_norm")


class TD3Learner:
    """DDPG with the smaller of two critics, smoothed targets and a late actor.

    Source: arXiv:1802.09477.
    """

    def __init__(
        self,
        config: TD3Config,
        spec: EnvSpec,
        actor_layout: Layout,
        critic_layout: Layout,
        critic_2_layout: Layout,
        seed: int,
    ) -> None:
        self._config, self._layout, self._seed = config, actor_layout, seed
        layouts = {
            "actor": actor_layout,
            "critic": critic_layout,
            "critic-2": critic_2_layout,
        }
        pairs = {name: with_target(x, seed, name) for name, x in layouts.items()}
        self._pairs = list(pairs.values())
        (self._actor, *critics), (self._actor_target, *targets) = zip(
            *self._pairs, strict=True
        )
        self._critics, self._critic_targets = critics, targets
        self._judging = [v for critic in critics for v in critic.trainable_variables]
        self._actor_optimizer = make_optimizer(config, self._actor.trainable_variables)
        self._critic_optimizer = make_optimizer(config, self._judging, config.critic_lr)
        self._stopping = tf.Variable(False, trainable=False)
        models = {name: model for name, (model, _) in pairs.items()}
        models |= {f"{name}-target": target for name, (_, target) in pairs.items()}
        self.normalizer = Normalizer(config, spec)
        self.state = LearnerState(
            models,
            {
                "actor-optimizer": self._actor_optimizer,
                "critic-optimizer": self._critic_optimizer,
            },
            self.normalizer.named("actor"),
        )
        counted = [*signature(spec), tf.TensorSpec([], tf.int64)]
        self._phase = tf.function(self._learn, input_signature=counted)

    def update(self, batch: Transitions, env_steps: int) -> Metrics:
        """Learn from K batches; the policy's metrics are there when it has learnt."""
        before = self.state.counts["updates"]
        judged, acted, done = self._phase(
            batch.observations,
            batch.actions,
            batch.rewards,
            batch.terminated,
            np.int64(before),
        )
        updates = int(done)
        after = self.state.counts["updates"] = before + updates
        delay = self._config.policy_delay
        acts = after // delay - before // delay
        means = (judged / max(updates, 1)).numpy().tolist()
        metrics = dict(zip(_CRITIC_METRICS, means, strict=True))
        if acts:
            means = (acted / acts).numpy().tolist()
            metrics |= zip(_ACTOR_METRICS, means, strict=True)
        return {**metrics, "updates": updates}

    def policy_weights(self) -> Weights:
        """Return the newest weights to act with, under a new version."""
        return self.state.weights("actor")

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Begin with these weights, by name: `actor/dense-0/kernel`."""
        self.state.assign(arrays)
        for model, target in self._pairs:
            target.set_weights(model.get_weights())

    def stop(self) -> None:
        """Make an update in progress end after its current batch."""
        self._stopping.assign(True)

    def _learn(
        self,
        observations: tf.Tensor,
        actions: tf.Tensor,
        rewards: tf.Tensor,
        terminated: tf.Tensor,
        before: tf.Tensor,
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """K updates on [K, N, ...] after others; returns sums of metrics [3], [2]."""
        judged, acted = tf.zeros(len(_CRITIC_METRICS)), tf.zeros(len(_ACTOR_METRICS))
        updates = tf.zeros([], tf.int64)
        rewards = self.normalizer.rewards(rewards)
        for k in tf.range(tf.shape(rewards)[0]):
            if self._stopping:
                break
            seen = self.normalizer.inputs(self._layout, observations[k])
            now, after = seen[:, 0], seen[:, 1]
            targets = self._targets(
                rewards[k], terminated[k], after, tf.shape(actions[k]), before + updates
            )
            judged += self._improve_critics(now, actions[k], targets)
            updates += 1
            if (before + updates) % self._config.policy_delay == 0:
                acted += self._improve_actor(now)
                self._follow()
        return judged, acted, updates

    def _targets(
        self,
        rewards: tf.Tensor,
        terminated: tf.Tensor,
        after: tf.Tensor,
        shape: tf.Tensor,
        update: tf.Tensor,
    ) -> tf.Tensor:
        """Return what both critics learn of [N, ...] transitions, float32 [N]."""
        c = self._config
        noise = normal_noise(self._seed, update, shape)
        actions = smoothed(
            self._actor_target(after), noise, c.policy_noise_coef, c.noise_clip
        )
        one, other = (judge(x, after, actions) for x in self._critic_targets)
        next_values = tf.minimum(one, other)
        return losses.one_step_targets(rewards, terminated, next_values, c.gamma)

    def _improve_critics(
        self, now: tf.Tensor, actions: tf.Tensor, targets: tf.Tensor
    ) -> tf.Tensor:
        """One gradient step on [N, ...] transitions; returns metrics [3]."""
        with tf.GradientTape() as tape:
            one, other = (judge(critic, now, actions) for critic in self._critics)
            loss = losses.squared(targets - one) + losses.squared(targets - other)
        norm = descend(
            self._critic_optimizer, tape, loss, self._judging, self._config.grad_norm
        )
        return tf.stack([loss, tf.reduce_mean(one), norm])

    def _improve_actor(self, now: tf.Tensor) -> tf.Tensor:
        """One gradient step on [N, D] observations; returns metrics [2]."""
        variables = self._actor.trainable_variables
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            # Not the critic's too, whose own gradient nobody needs.
            tape.watch([variable.value for variable in variables])
            loss = -tf.reduce_mean(judge(self._critics[0], now, self._actor(now)))
        norm = descend(
            self._actor_optimizer, tape, loss, variables, self._config.grad_norm
        )
        return tf.stack([loss, norm])

    def _follow(self) -> None:
        for model, target in self._pairs:
            polyak(target.weights, model.weights, self._config.tau)
