"""Learning phases of several learners in one process, compared with those of one.

A process of its own, since TensorFlow needs more threads than others leave it.
"""

import json
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from float64 import DoublePhases
from learner_cases import ACTIONS, STEADY, Case, batch
from learner_support import make_learner, publish

from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.batches import Batch
from xagents_ray.core.spec import EnvSpec
from xagents_ray.learners.learner import Learner
from xagents_ray.learners.math.shares import ALONE, Shares
from xagents_ray.learners.replicas import Replicas

PHASES = 20
_MORE: dict[str, dict[str, Any]] = {
    "trpo": STEADY,
    "acer": {"replay_ratio": 1},
    "sac-critics": {"critics": 3, "gradient_steps": 2},
    "dqn-rainbow": {
        "distributional": True,
        "double": True,
        "dueling": True,
        "noisy": "factorised",
        "v_min": -2.0,
        "v_max": 2.0,
    },
    "ppo-decoupled": {"decoupled_loss": True, "target_kl": 0.01},
    "impala-share": {"replay_share": 0.5},
}
"""Settings by agent, or by agent and a name."""


def case_of(name: str) -> Case:
    """Return a case by its name, such as `ppo` or `dqn-rainbow`."""
    row = find_algorithm(name.partition("-")[0])
    kind = "discrete" if row.discrete else "continuous"
    spec = EnvSpec((4,), "float32", 1, **ACTIONS[kind])
    return Case(row, spec, _MORE.get(name, {}))


def recorded(case: Case) -> list[Batch]:
    """Return what a learner learns from while its policy changes."""
    learner = make_learner(case.row.name, case.config(), case.spec)
    batches, weights = list[Batch](), publish(learner)
    for i in range(PHASES):
        batches.append(batch(case, weights, k=2, n=20, seed=i))
        weights = learner.learn(batches[-1], 100 * i, {}, i + 2).weights
    return batches


def made(case: Case, shares: Shares) -> Learner:
    """Return a learner of a case with a share of the work."""
    config = case.config()
    row = case.row.adapted(config)
    layouts = row.layouts(config, case.spec)
    return Learner(row, config, case.spec, layouts, seed=0, shares=shares)


def learned(phases: DoublePhases, batches: Sequence[Batch]) -> dict[str, Any]:
    """Return the variables by name, float64, after phases in float64."""
    for i, each in enumerate(batches):
        phases.learn(each, 100 * i, i + 2)
    return {name: x.numpy() for name, x in phases.variables.items()}


def ends_of(many: Replicas, batches: Sequence[Batch]) -> list[dict[str, Any]]:
    """Return the variables of each learner after phases in float64."""
    doubles = {id(each): DoublePhases(each) for each in many.learners}
    return many.together(lambda each: learned(doubles[id(each)], batches))


def moved(one: dict[str, Any], learner: Learner) -> float:
    """Return the smallest of the largest changes of a learner's kernels."""
    first = learner.state.arrays()
    kernels = {k: x for k, x in first.items() if k.endswith("kernel")}
    return float(min(np.abs(one[name] - x).max() for name, x in kernels.items()))


def losses_of(metrics: dict[str, float]) -> dict[str, float]:
    """Return the losses and gradient norms among the metrics."""
    kinds = "loss", "grad_norm"
    return {name: x for name, x in metrics.items() if name.endswith(kinds)}


def differences(name: str, sizes: Sequence[int]) -> dict[str, float]:
    """Return the largest difference from one learner, by the number of learners.

    `moved` is the change of the weights, `ranks` the difference between the learners.
    `float32` is that of losses and gradient norms in a first phase in float32, relative
    to them, or to 1 if they are smaller.
    """
    case = case_of(name)
    batches, alone = recorded(case), made(case, ALONE)
    one = learned(DoublePhases(alone), batches)
    found = {"moved": moved(one, alone), "ranks": 0.0, "float32": 0.0}
    first = losses_of(alone.learn(batches[0], 0, {}, 2).metrics)
    for size in sizes:
        many = Replicas(lambda shares: made(case, shares), size)
        ends = ends_of(many, batches)
        gaps = [np.abs(ends[0][key] - x).max() for key, x in one.items()]
        found[str(size)] = float(max(gaps))
        own = [np.abs(ends[0][k] - end[k]).max() for end in ends for k in one]
        found["ranks"] = max(found["ranks"], float(max(own)))
        together = losses_of(many.learn(batches[0], 0, {}, 2).metrics)
        errors = [abs(together[k] - x) / max(abs(x), 1.0) for k, x in first.items()]
        found["float32"] = max(found["float32"], *errors)
    return found


if __name__ == "__main__":
    tf.config.threading.set_inter_op_parallelism_threads(8)
    names, sizes = sys.argv[1].split(","), [*map(int, sys.argv[2].split(","))]
    json.dump({name: differences(name, sizes) for name in names}, sys.stdout)
