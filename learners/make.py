"""A run's learner, and its models as weights files."""

from collections.abc import Mapping, Sequence
from typing import Any

from xagents_ray.core.batch import Batch
from xagents_ray.core.moments import OBSERVATION, Statistics
from xagents_ray.core.resolve import resolve
from xagents_ray.core.trajectory import Array, Weights
from xagents_ray.learners import formats, runtime
from xagents_ray.learners.learner import Learner, Metrics
from xagents_ray.run.driver import Run
from xagents_ray.storage.weights import WeightsFile


def make_learner(run: Run) -> tuple[Learner, list[str]]:
    """Return the learner of a run with its first weights, and notes on these.

    Args:
        run: whose learner.
    Raises:
        UserError: a weights file is damaged, or of other models.
    """
    runtime.configure(run.cores, run.is_seeded)
    make = resolve(run.algorithm.learner)
    learner: Learner = make(run.config.algorithm, run.spec, *run.layouts, run.seed)
    notes: list[str] = []
    for model, layout, file in zip(
        run.algorithm.models, run.layouts, run.weights, strict=False
    ):
        extras = run.algorithm.extras(model, run.config.algorithm, run.spec)
        arrays, more = formats.decode(file, layout, extras)
        learner.load({f"{model.name}/{name}": array for name, array in arrays.items()})
        notes += more
    return learner, notes


def learn(
    run: Run, learner: Learner, batch: Batch, env_steps: int, statistics: Statistics
) -> tuple[Metrics, Weights]:
    """Run one learning phase; return its metrics and the weights after it.

    Args:
        run: whose learner.
        learner: of that run.
        batch: what it learns from.
        env_steps: of the whole run, after the batch was collected.
        statistics: of the steps since the last phase. This phase normalizes with them,
            but for those of observations where it learns from a fresh round: they are
            part of the policy, so the phase keeps those that acted, if any did.
    """
    state, max_steps = learner.state, run.config.training.max_steps
    normalizer = learner.normalizer
    kept = run.algorithm.on_policy and normalizer.has_seen(OBSERVATION)
    later = {k: m for k, m in statistics.items() if kept and k == OBSERVATION}
    normalizer.take({k: m for k, m in statistics.items() if k not in later})
    if max_steps is not None:
        state.remaining.assign(max(0.0, 1 - state.counts["env_steps"] / max_steps))
    if run.config.algorithm.lr_decay:
        state.decay_lr()
    metrics = learner.update(_data(batch), env_steps)
    state.counts["env_steps"] = env_steps
    normalizer.take(later)
    return metrics, learner.policy_weights()


def _data(batch: Batch) -> Any:
    """Return what `update` takes: a round and what was drawn, or transitions."""
    if batch.fresh is None:
        return batch.sampled
    return [batch.fresh, *([] if batch.sampled is None else [batch.sampled])]


def encode_models(
    run: Run, arrays: Mapping[str, Array], paths: Sequence[str]
) -> list[WeightsFile]:
    """Return the models within a learner's state as weights files.

    Args:
        run: whose learner.
        arrays: the learner's state by name, `policy/dense-0/kernel`.
        paths: one per model; their endings say the format.
    """
    return [
        formats.encode(model.own(arrays), layout, path)
        for model, layout, path in zip(
            run.algorithm.models, run.layouts, paths, strict=True
        )
    ]
