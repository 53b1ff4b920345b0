"""A run's learner, and its models as weights files."""

from collections.abc import Mapping, Sequence

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.core.trajectory import Array, WeightsFile
from xagents_ray.learners import formats, runtime
from xagents_ray.learners.learner import Learner


def make_learner(run: RunSpec) -> tuple[Learner, list[str]]:
    """Return the learner of a run with its first weights, and notes on these.

    Raises:
        UserError: a weights file is damaged, or of other models.
    """
    runtime.configure(run.cores, run.is_seeded)
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

    Args:
        run: that has the learner.
        arrays: the learner's state by name, `policy/dense-0/kernel`.
        paths: one per model; their endings say the format.
    """
    return [
        formats.encode(model.own(arrays), layout, path)
        for model, layout, path in zip(
            run.algorithm.models, run.layouts, paths, strict=True
        )
    ]
