"""The setup of an algorithm, which registers what checkpoints store."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
import tensorflow as tf

from xagents_ray.core.schedule import Schedule, schedule_of
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Observations
from xagents_ray.learners.math.distributions import PolicyHead
from xagents_ray.learners.math.shares import ALONE, Shares
from xagents_ray.learners.optimizer import gradient_step, make_optimizer
from xagents_ray.learners.state import COUNT
from xagents_ray.networks import keras as networks
from xagents_ray.networks.layout import Layout
from xagents_ray.settings.algorithm import AlgorithmConfig

__autograph__ = False

ConfigT = TypeVar("ConfigT", bound=AlgorithmConfig, covariant=True)


@dataclass(frozen=True)
class LearnerSetup(Generic[ConfigT]):
    """Settings of an algorithm, and a registry of its networks and variables.

    Everything that it creates is registered by name, in the order of checkpoints.

    Attributes:
        config: settings of the algorithm.
        spec: spec of the environments.
        layouts: layouts of the networks, in the order of the algorithm's models.
        seed: seed of the run.
        inputs: function of observations [..., *input_shape] to float32 network input;
            it maps a dict of several arrays to a list.
        stop_flag: bool [] variable; a phase ends soon once it is set.
        remaining: returns float32 [], the fraction of the run that remains, in a graph.
        counter_device: device of the variables that loops read: the GPU if XLA compiles
            learning phases for it, since all their variables must be there; else the
            CPU.
        shares: the learner's share of the work of several.
        models: networks by their names in checkpoints.
        targets: pairs of a target network and the one that it follows.
        optimizers: optimizers by name; the first one's learning rate is reported.
        lr_schedules: schedules of those whose learning rate isn't constant.
        variables: other variables that checkpoints store, by name.
        measured: functions that return a metric, float32 [], of what it has created.
    """

    config: ConfigT
    spec: EnvSpec
    layouts: tuple[Layout, ...]
    seed: int
    inputs: Callable[[Observations], Any]
    stop_flag: tf.Variable
    remaining: Callable[[], tf.Tensor]
    counter_device: str = "CPU"
    shares: Shares = ALONE
    models: dict[str, Any] = field(default_factory=dict, init=False)
    targets: list[tuple[Any, Any]] = field(default_factory=list, init=False)
    optimizers: dict[str, Any] = field(default_factory=dict, init=False)
    lr_schedules: dict[str, Schedule] = field(default_factory=dict, init=False)
    variables: dict[str, tf.Variable] = field(default_factory=dict, init=False)
    measured: dict[str, Callable[[], tf.Tensor]] = field(
        default_factory=dict, init=False
    )
    _drawn: list[tuple[Layout, Any]] = field(default_factory=list, init=False)

    @property
    def stopping(self) -> tf.Tensor:
        """Whether the phase shall end, in a graph; the same for all learners."""
        return self.shares.is_any(self.stop_flag.read_value())

    def counter(self, name: str) -> tf.Variable:
        """Return a new int64 [] counter, initially 0."""
        with tf.device(self.counter_device):
            counter = tf.Variable(0, trainable=False, dtype=tf.int64)
        self.variables[f"{COUNT}{name}"] = counter
        return counter

    def variable(self, name: str, start: float) -> tf.Variable:
        """Return a new trainable float32 [] variable."""
        self.variables[name] = tf.Variable(start)
        return self.variables[name]

    def policy_head(self, model: str, log_std: float | None = 0.0) -> PolicyHead:
        """Return the head of a policy network; see `PolicyHead`.

        Its variables belong to the weights of the model with this name.
        """
        head = PolicyHead(self.spec, log_std)
        if (own := head.variables.get("log_std")) is not None:
            self.measured["std"] = lambda: tf.reduce_mean(tf.exp(own))
        self.variables.update({f"{model}/{k}": v for k, v in head.variables.items()})
        if self.config.scales_actions and not self.spec.is_discrete:
            scales = tf.Variable(1.0, trainable=False)  # recorded in weights files
            self.variables[f"{model}/action_scaling"] = scales
        return head

    def network(self, layout: Layout, name: str) -> Any:
        """Return a new network, a `keras.Model`; see `networks.keras.build_model`.

        Raises:
            UserError: an initializer of the user's draws the weights of an earlier
                network with this layout again.
        """
        earlier = [model for own, model in self._drawn if own == layout]
        model = self._build(layout, name, redrawn=bool(earlier))
        for each in earlier:
            networks.check_redrawn(layout, each, model)
        self._drawn.append((layout, model))
        self.models[name] = model
        return self._called(layout, model)

    def with_target(
        self, layout: Layout, name: str, target_name: str | None = None
    ) -> tuple[Any, Any]:
        """Return a new network and its target network, with the same weights.

        The target is registered as `NAME-target` by default.
        """
        own_name = f"{name}-target"
        called, target = self.network(layout, name), self._build(layout, own_name)
        model = self.models[name]
        target.set_weights(model.get_weights())
        self.models[target_name or own_name] = target
        self.targets.append((target, model))
        return called, self._called(layout, target)

    def final_state(self, layout: Layout, name: str) -> Any:
        """Return the model of a network's final state; see `final_state_model`."""
        model = networks.final_state_model(layout, self.models[name])
        return self._called(layout, model)

    def optimizer(
        self, variables: list[Any], key: str = "optimizer", lr: float | None = None
    ) -> Any:
        """Return a new optimizer, registered by a key; see `make_optimizer`."""
        optimizer = make_optimizer(self.config, variables, lr)
        self.measured.setdefault(
            "learning_rate", lambda: tf.convert_to_tensor(optimizer.learning_rate)
        )
        self.optimizers[key] = optimizer
        if lr is None and isinstance(self.config.lr, str):
            self.lr_schedules[key] = schedule_of(self.config.lr)
        return optimizer

    def step(
        self,
        optimizer: Any,
        tape: tf.GradientTape,
        loss: tf.Tensor,
        variables: list[Any],
        largest_norm: float | None,
    ) -> tf.Tensor:
        """Take one gradient step, for which all learners compute a share.

        The arguments and the result are those of `gradient_step`.
        """
        return gradient_step(
            optimizer, tape, loss, variables, largest_norm, self.shares
        )

    def value(self, setting: float | str) -> Any:
        """Return a setting's number, or in a graph the value of its schedule.

        That is float32 [], at the fraction of the run before the phase's batch.
        """
        if not isinstance(setting, str):
            return setting
        done, values = schedule_of(setting)
        widths = np.diff(done)
        shares = (1 - self.remaining() - done[:-1]) / widths
        return values[0] + tf.reduce_sum(
            tf.clip_by_value(shares, 0, 1) * np.diff(values)
        )

    def _called(self, layout: Layout, model: Any) -> Any:
        """Return a model as this learner calls it."""
        return self.shares.network(model, has_memory=layout.state_units > 0)

    def _build(self, layout: Layout, name: str, redrawn: bool = False) -> Any:
        takes_noise, dtype = layout.noise_units > 0, self.config.precision
        return networks.build_model(
            layout, self.seed, name, dtype, takes_noise, redrawn
        )
