"""Builds the learner of a run."""

import os

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.learners import precision, runtime
from xagents_ray.learners.learner import Learner
from xagents_ray.networks import keras_models


def build_learner(run: RunSpec) -> Learner:
    """Return the learner of a run, with initial weights from its Keras files, if any.

    Raises:
        UserError: the run's precision would be slow on this machine.
    """
    if run.config.placement.learner_gpus == 0:  # read when GPUs are first listed
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    runtime.configure(run.learner_threads, run.is_seeded)
    precision.check_precision(run.config)
    row, config = run.algorithm, run.config.algorithm
    max_steps = run.config.training.max_steps
    compiled = run.compiles(on_gpu=bool(runtime.usable_gpus()))
    # Updates on single rollouts need no padding: those have one or two widths.
    varies = compiled and row.on_policy and not config.learns_each_rollout
    n_envs = run.config.env.n_envs if varies else None
    learner = Learner(
        row, config, run.spec, run.layouts, run.seed, max_steps, compiled, n_envs
    )
    begun = set[str]()
    for model, layout, keras_file in zip(
        row.models, run.layouts, run.networks, strict=False
    ):
        if keras_file is not None:
            # Critics from one file would stay identical with the same weights.
            redrawn = f"{run.seed} {model.name}" if model.file in begun else None
            arrays = keras_models.weights_of(model.name, keras_file, layout, redrawn)
            learner.load({f"{model.name}/{name}": a for name, a in arrays.items()})
            begun.add(model.file)
    return learner
