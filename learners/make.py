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
    learner: Learner = make(run.config.algorithm, run.spec, run.layout, run.seed)
    notes: list[str] = []
    for model, file in zip(run.algorithm.models, run.weights, strict=False):
        extras = run.algorithm.extras(run.spec)
        arrays, more = formats.decode(file, run.layout, extras)
        learner.load({f"{model}/{name}": array for name, array in arrays.items()})
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
        formats.encode(run.algorithm.model_arrays(model, arrays), run.layout, path)
        for model, path in zip(run.algorithm.models, paths, strict=True)
    ]
