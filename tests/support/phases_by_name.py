"""A learning phase of each way that data takes, whatever the order of fields is."""

import json
import sys
from collections import namedtuple
from itertools import pairwise
from typing import Any

import numpy as np

from xagents_ray.core import trajectory as records

ENVS, LENGTH, BATCHES, BATCH_SIZE = 6, 8, 2, 4
BOUNDS = (0, 2, ENVS)
"""Of two shards of a replay."""
SETTINGS: dict[str, dict[str, Any]] = {
    "ppo": {},
    "acer": {"replay_ratio": 1, "noisy": "factorised"},
    "impala": {"replay_share": 0.5},
    "dqn": {"prioritized": True},
}


def reorder(record: Any, *bases: Any) -> Any:
    """Return a kind of record with its fields reversed, and another among them."""
    defaults = record._field_defaults
    required = records.required_fields(record)
    names = [*required[::-1], "inserted", *[*defaults][::-1]]
    values = [None, *[*defaults.values()][::-1]]
    own: Any = namedtuple(record.__name__, names, defaults=values)
    kept = {k: x for k, x in vars(record).items() if isinstance(x, property)}
    return type(record.__name__, (own,), {**kept, "__slots__": ()})


def reorder_all() -> None:
    """Reorder the records before anything else imports them."""
    trajectory: Any = reorder(records.Trajectory)
    records.Trajectory = trajectory  # type: ignore[misc]
    records.Replayed = type("Replayed", (trajectory,), {"__slots__": ()})  # type: ignore[misc]
    records.Transitions = reorder(records.Transitions)  # type: ignore[misc]


def phases() -> dict[str, list[float]]:
    """Return the numbers of a learning phase of some agents, by agent."""
    from learner_cases import Case, trajectory
    from learner_support import make_learner, publish

    from xagents_ray.algorithms.table import find_algorithm
    from xagents_ray.core.batches import assemble_batch
    from xagents_ray.core.spec import EnvSpec
    from xagents_ray.learners.padding import pad_batches
    from xagents_ray.replay.trajectories import TrajectoryReplay
    from xagents_ray.replay.transitions import TransitionReplay

    spec, numbers = EnvSpec((4,), "float32", 1, 3), dict[str, list[float]]()
    for agent, settings in SETTINGS.items():
        case = Case(find_algorithm(agent), spec, settings)
        learner = make_learner(agent, case.config(), spec, n_envs=ENVS + 2)
        weights = publish(learner)
        rolled = [
            trajectory(case, weights, LENGTH, ENVS // 2, seed) for seed in range(2)
        ]
        rolled[1] = rolled[1]._replace(first_env=ENVS // 2)
        parts: list[Any] = list(rolled) if case.row.on_policy else []
        for first, end in pairwise(BOUNDS):
            count, size = end - first, 40 * (end - first)
            place = spec, size, count, LENGTH, 1
            if case.row.on_policy:
                behavior = "probabilities" if agent == "acer" else "log_probs"
                units = learner.setup.layouts[0].noise_units
                replay: Any = TrajectoryReplay(*place, behavior, units)
            else:
                replay = TransitionReplay(*place, n_step=2, gamma=0.9, alpha=0.6)
            for each in rolled:
                own = records.slice_envs(each, first, end)
                if own is not None:
                    replay.insert(own._replace(first_env=own.first_env - first))
            if agent != "ppo":
                parts.append(replay.sample(1, 1 if case.row.on_policy else BATCH_SIZE))
        batch = assemble_batch(parts, BATCH_SIZE, [1])
        outputs = learner.learn(batch, 10, {}, 2)
        totals = [float(np.abs(x).sum()) for x in outputs.weights.arrays.values()]
        numbers[agent] = [*outputs.metrics.values(), *totals]
        if outputs.priorities is not None:
            numbers[agent] += outputs.priorities.errors.tolist()
            numbers[agent] += pad_batches(batch.sampled).rewards.ravel().tolist()
    return numbers


if __name__ == "__main__":
    reorder_all()
    print(json.dumps([records.Trajectory._fields, phases()]), file=sys.stdout)
