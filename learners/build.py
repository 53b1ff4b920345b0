"""Builds the learner of a run."""

import os
from functools import partial

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.core.errors import UserError
from xagents_ray.core.process import available_cores
from xagents_ray.learners import precision, runtime
from xagents_ray.learners.learner import Learner
from xagents_ray.learners.math.shares import ALONE, Shares
from xagents_ray.learners.peers import join
from xagents_ray.learners.replicas import Replicas
from xagents_ray.networks import keras_models


def build_learner(
    run: RunSpec, rank: int = 0, addresses: tuple[str, ...] = ()
) -> Learner | Replicas:
    """Return the learner of a run, with initial weights from its Keras files, if any.

    Args:
        run: the run.
        rank: index of the learner among several processes.
        addresses: host and port of each of these; () if this process has all learners.
    Raises:
        UserError: the run's precision would be slow on this machine, or TensorFlow has
            too few threads here for several learners.
    """
    if run.config.placement.learner_gpus == 0:  # read when GPUs are first listed
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    runtime.configure(run.learner_threads, run.is_seeded)
    precision.check_precision(run.config)
    count = run.config.placement.n_learners
    if addresses:
        return _built(run, join(rank, addresses))
    if count == 1:
        return _built(run, ALONE)
    if (runtime.threads().across or available_cores()) < count:
        raise UserError(
            "TensorFlow is in use in this process already, with too few threads for "
            f"--n-learners {count}: start a new process."
        )
    return Replicas(partial(_built, run), count)


def _built(run: RunSpec, shares: Shares) -> Learner:
    """Return a run's learner that computes a share of the work."""
    row, config = run.algorithm, run.config.algorithm
    max_steps = run.config.training.max_steps
    compiled = run.compiles(on_gpu=bool(runtime.usable_gpus()))
    # Updates on single rollouts need no padding: those have one or two widths.
    varies = compiled and row.on_policy and not config.learns_each_rollout
    n_envs = run.config.env.n_envs if varies else None
    learner = Learner(
        row,
        config,
        run.spec,
        run.layouts,
        run.seed,
        max_steps,
        compiled,
        n_envs,
        shares,
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
    if shares.size > 1:  # now, since Keras can't trace in several threads at once, and
        learner.traced  # noqa: B018 - other processes would wait for the first sum
    return learner
