"""A run's learner, and its models as weights files."""

from collections.abc import Mapping, Sequence

from xagents_ray.algorithms import resolve
from xagents_ray.backend import Run
from xagents_ray.learners import formats, runtime
from xagents_ray.learners.learner import Learner
from xagents_ray.trajectory import Array
from xagents_ray.weights import WeightsFile


def make_learner(run: Run, threads: int) -> tuple[Learner, list[str]]:
    """Return the learner of a run with its first weights, and notes on these.

    Args:
        run: whose learner.
        threads: cores that one operation may use.
    Raises:
        UserError: a weights file is damaged, or of other models.
    """
    runtime.configure(threads, run.is_seeded)
    make = resolve(run.algorithm.learner)
    learner: Learner = make(run.config.algorithm, run.spec, *run.layouts, run.seed)
    notes: list[str] = []
    for model, layout, file in zip(
        run.algorithm.models, run.layouts, run.weights, strict=False
    ):
        arrays, more = formats.decode(file, layout, model.extras(run.spec))
        learner.load({f"{model.name}/{name}": array for name, array in arrays.items()})
        notes += more
    return learner, notes


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
