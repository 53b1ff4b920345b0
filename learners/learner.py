"""A run's learner: what all algorithms have, around the one that learns."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pkgutil import resolve_name
from typing import Any, Protocol, final

import numpy as np
import tensorflow as tf

from xagents_ray.algorithms.row import Algorithm
from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.core.errors import UserError
from xagents_ray.core.moments import OBSERVATION, Statistics
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import VERSION, Array, Batch, Weights, WeightsFile
from xagents_ray.learners import formats, precision, runtime
from xagents_ray.learners.metrics import Means
from xagents_ray.learners.normalizer import Normalizer
from xagents_ray.learners.setup import LearnerSetup, counter
from xagents_ray.learners.tensors import Phase, signature
from xagents_ray.networks import keras as networks
from xagents_ray.networks.layout import Layout
from xagents_ray.settings.algorithm import AlgorithmConfig

COUNT = "count/"
"""Begins the names of counters, which are 0 where a checkpoint lacks them."""
Metrics = dict[str, float]
"""Means over one learning phase by name, and its number of `updates`."""


class LearningAlgorithm(Protocol):
    """What an algorithm gives the learner.

    Attributes:
        data: NamedTuple of the tensors that it learns from; `of` makes it of a batch.
        models: networks by the names that a checkpoint gives them.
        targets: pairs of a target network and the one that it follows.
        optimizers: likewise by name; the learning rate shown is the first one's.
        variables: all else that a checkpoint holds, by name.
    """

    data: type[Any]
    models: Mapping[str, Any]
    targets: Sequence[tuple[Any, Any]]
    optimizers: Mapping[str, Any]
    variables: Mapping[str, Any]

    def learn(self, data: Any, phase: Phase) -> tuple[Means, tf.Tensor]:
        """Return means of metrics and the int32 [] updates of one learning phase.

        It runs in the graph; rewards are normalized already.
        """


@final
class Learner:
    """An algorithm with its state, normalizer, counters and weights to publish.

    Args:
        row: of the table.
        config: the algorithm's settings.
        spec: of the environments.
        layouts: of the networks; the first one acts.
        seed: of the run.
        max_steps: env steps over which settings decay, or None.
    Attributes:
        algorithm: that learns.
        normalizer: of observations and rewards.
        state: what a checkpoint holds.
    """

    def __init__(
        self,
        row: Algorithm,
        config: AlgorithmConfig,
        spec: EnvSpec,
        layouts: Sequence[Layout],
        seed: int,
        max_steps: int | None = None,
    ) -> None:
        self._row, self._config, self._max_steps = row, config, max_steps
        self.normalizer = Normalizer(config, spec)
        with tf.device("CPU"):
            self._stopping = tf.Variable(False, trainable=False)
        inputs = partial(self.normalizer.inputs, layouts[0])
        parts = config, spec, tuple(layouts), seed, inputs, self._stopping
        make: Callable[..., LearningAlgorithm] = resolve_name(row.learner)
        self.algorithm = algorithm = make(LearnerSetup(*parts))
        self._version, self._env_steps = counter(), counter()
        others = {
            **self.normalizer.named(row.models[0].name),
            **algorithm.variables,
            VERSION: self._version,
            f"{COUNT}env_steps": self._env_steps,
        }
        self.state = LearnerState(algorithm, others)
        tensors = signature(algorithm.data, spec), signature(Phase, spec)
        self._phase = tf.function(self._learn, input_signature=tensors)

    @property
    def version(self) -> int:
        """Of the newest published weights."""
        return int(self._version)

    @property
    def remaining(self) -> float:
        """The part of the run that is ahead of the newest batch; 1 without an end."""
        if self._max_steps is None:
            return 1.0
        return float(np.float32(max(0.0, 1 - int(self._env_steps) / self._max_steps)))

    def learn(
        self, batch: Batch, env_steps: int, statistics: Statistics, version: int
    ) -> tuple[Metrics, Weights]:
        """Run one learning phase; return its metrics and the weights after it.

        Args:
            batch: to learn from.
            env_steps: of the whole run, after the batch was collected.
            statistics: of the steps since the last phase. This phase normalizes with
                them, except with those of observations where it learns from a fresh
                round: they are part of the policy, so the phase keeps those that
                acted, if any did.
            version: of the weights after it.
        """
        kept = self._row.on_policy and self.normalizer.has_seen(OBSERVATION)
        later = {k: m for k, m in statistics.items() if kept and k == OBSERVATION}
        now = {k: m for k, m in statistics.items() if k not in later}
        self.normalizer.take(now)
        if self._config.lr_decay:
            self.state.decay_lr(self.remaining)
        metrics = self.update(batch, env_steps)
        self.normalizer.take(later)
        return metrics, self.policy_weights(version)

    def update(self, batch: Batch, env_steps: int) -> Metrics:
        """Run the updates of one learning phase; return metrics, `updates` last."""
        remaining = np.float32(self.remaining)
        phase = Phase(np.int64(env_steps), remaining, np.int64(self.version))
        means, updates = self._phase(self.algorithm.data.of(batch), phase)
        self._env_steps.assign(env_steps)
        metrics = {
            name: float(total / np.float32(mean.count))
            for names, mean in means.items()
            if mean.count > 0
            for name, total in zip(names, mean.totals.numpy(), strict=True)
        }
        return {**metrics, "updates": int(updates)}

    def policy_weights(self, version: int) -> Weights:
        """Return the weights to act with, published under this version."""
        self._version.assign(version)
        start = f"{self._row.models[0].name}/"
        arrays = {
            name.removeprefix(start): np.array(variable.numpy())
            for name, variable in self.state.variables.items()
            if name.startswith(start)
        }
        return Weights(version, arrays)

    def load(self, arrays: Mapping[str, Array]) -> None:
        """Start with these weights, by name: `policy/dense-0/kernel`.

        Raises:
            UserError: a name or shape is not this learner's.
        """
        self.state.assign(arrays)
        for target, model in self.algorithm.targets:
            target.set_weights(model.get_weights())

    def stop(self) -> None:
        """Make an update in progress, and all later ones, end after the current pass.

        A pass is an epoch or a batch; one that hasn't begun is left out.
        """
        self._stopping.assign(True)

    def _learn(self, data: Any, phase: Phase) -> tuple[Means, tf.Tensor]:
        rewards = self.normalizer.rewards(data.rewards)
        return self.algorithm.learn(data._replace(rewards=rewards), phase)


class LearnerState:
    """Variables of a learner by name, which checkpoints hold.

    Their names are like `policy/dense-0/kernel` and `count/version`.
    """

    def __init__(self, algorithm: LearningAlgorithm, others: Mapping[str, Any]) -> None:
        self.variables: dict[str, Any] = {}
        for name, model in algorithm.models.items():
            for key, variable in networks.named_weights(model).items():
                self.variables[f"{name}/{key}"] = variable
        for name, optimizer in algorithm.optimizers.items():
            for i, variable in enumerate(optimizer.variables):
                self.variables[f"{name}/{i}"] = variable
        self._lr_scale = tf.Variable(1.0, trainable=False)
        self.variables |= {**others, "lr-scale": self._lr_scale}
        self._optimizers = list(algorithm.optimizers.values())
        self._first_lr = [float(x.learning_rate) for x in self._optimizers]

    def arrays(self) -> dict[str, Array]:
        """Return a copy of all variables and counters by name."""
        return {k: np.array(v.numpy()) for k, v in self.variables.items()}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Restore everything from a copy.

        Raises:
            UserError: it is of another learner.
        """
        counters = {k for k in self.variables if k.startswith(COUNT)}
        if missing := self.variables.keys() - counters - arrays.keys():
            raise UserError(
                f"The checkpoint has no {min(missing)}: it is of another agent or "
                "model; resume with the versions that wrote it."
            )
        self.assign({**dict.fromkeys(counters, np.array(0, np.int64)), **arrays})

    def assign(self, arrays: Mapping[str, Array]) -> None:
        """Assign some variables from arrays.

        Raises:
            UserError: one has another name or shape than here.
        """
        for name, array in arrays.items():
            variable = self.variables.get(name)
            if variable is None or tuple(variable.shape) != array.shape:
                has = None if variable is None else tuple(variable.shape)
                raise UserError(
                    f"{name} has shape {array.shape} there and {has or 'no place'} "
                    "here: take what the same agent, --env and --model saved."
                )
        for name, array in arrays.items():
            self.variables[name].assign(array)

    def scale_lr(self, factor: float) -> float:
        """Multiply every optimizer's learning rate; return the first one's new one."""
        self._lr_scale.assign(self._lr_scale * factor)
        for optimizer in self._optimizers:
            optimizer.learning_rate.assign(optimizer.learning_rate * factor)
        return float(self._optimizers[0].learning_rate)

    def decay_lr(self, remaining: float) -> None:
        """Set every optimizer's learning rate for what remains of the run, 1 to 0."""
        scale = float(self._lr_scale) * remaining
        for optimizer, first in zip(self._optimizers, self._first_lr, strict=True):
            optimizer.learning_rate.assign(first * scale)


def make_learner(run: RunSpec) -> tuple[Learner, list[str]]:
    """Return the learner of a run with its first weights, and notes on these.

    Raises:
        UserError: a weights file is damaged, or of other models; or this machine has no
            fast way to compute in the run's precision.
    """
    runtime.configure(run.cores, run.is_seeded)
    precision.check(run.config)
    row, config = run.algorithm, run.config.algorithm
    max_steps = run.config.training.max_steps
    learner = Learner(row, config, run.spec, run.layouts, run.seed, max_steps)
    notes: list[str] = []
    for model, layout, file in zip(row.models, run.layouts, run.weights, strict=False):
        extras = row.extras(model, config, run.spec)
        arrays, more = formats.decode(file, layout, extras)
        learner.load({f"{model.name}/{name}": array for name, array in arrays.items()})
        notes += more
    return learner, notes


def encode_models(
    run: RunSpec, arrays: Mapping[str, Array], paths: Sequence[str]
) -> list[WeightsFile]:
    """Return the models within a learner's state as weights files.

    The state's names are like `policy/dense-0/kernel`; the paths, one per model, say
    the formats by their endings.
    """
    parts = zip(run.algorithm.models, run.layouts, paths, strict=True)
    return [
        formats.encode(model.own(arrays), layout, path) for model, layout, path in parts
    ]
