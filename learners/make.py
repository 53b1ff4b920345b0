"""Make the learner of a run, and weights files of what it learned."""

import os
from collections.abc import Mapping, Sequence

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.core.trajectory import Array, WeightsFile
from xagents_ray.learners import formats, precision, runtime
from xagents_ray.learners.learner import Learner
from xagents_ray.networks import keras_models


def make_learner(run: RunSpec) -> tuple[Learner, list[str]]:
    """Return the learner of a run with its first weights, and notes on these.

    Raises:
        UserError: a weights file is damaged, or of other models; or this machine has no
            fast way to compute in the run's precision.
    """
    if run.config.placement.learner_gpus == 0:  # read when GPUs are first listed
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    runtime.configure(run.learner_threads, run.is_seeded)
    precision.check_precision(run.config)
    row, config = run.algorithm, run.config.algorithm
    max_steps = run.config.training.max_steps
    notes: list[str] = []
    compiled = run.compiles(on_gpu=bool(runtime.usable_gpus()))
    # Where each rollout is learned from alone, they have one width, or two.
    varies = compiled and row.on_policy and not config.learns_each_rollout
    n_envs = run.config.env.n_envs if varies else None
    facts = run.spec, run.layouts, run.seed, max_steps, compiled
    learner = Learner(row, config, *facts, n_envs=n_envs)
    begun = set[str]()
    for model, layout, keras_file in zip(
        row.models, run.layouts, run.networks, strict=False
    ):
        if keras_file is not None:
            # Critics of one network would be one critic if they began alike.
            redrawn = f"{run.seed} {model.name}" if model.file in begun else None
            arrays = keras_models.weights_of(model.name, keras_file, layout, redrawn)
            learner.load({f"{model.name}/{name}": a for name, a in arrays.items()})
            begun.add(model.file)
    for model, layout, file in zip(row.models, run.layouts, run.weights, strict=False):
        extras = row.extras(model, config, run.spec)
        arrays, more = formats.decode_weights(file, layout, extras)
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
        formats.encode_weights(model.own(arrays), layout, path)
        for model, layout, path in parts
    ]
