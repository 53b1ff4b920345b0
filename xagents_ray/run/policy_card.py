"""The card that a weights file gets from a run or a policy."""

import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.core.version import __version__
from xagents_ray.run.user_networks import file_copies
from xagents_ray.storage.weights_card import Card


def policy_card(
    run: RunSpec, facts: Mapping[str, Any], files: Mapping[str, bytes] | None = None
) -> Card:
    """Return the card of a policy.

    Args:
        run: the run specification of the policy.
        facts: training's env steps, rewards and seed; see `training_facts`.
        files: the network's files; None for those that the settings name.
    Raises:
        OSError: such a file can't be read.
    """
    config, network = run.config, run.algorithm.models[0].file
    groups = config.groups()
    settings = {**groups["env"], **groups["algorithm"]}
    known = {**facts, "version": __version__, "written": time.strftime("%Y-%m-%d")}
    copies = file_copies(config.algorithm) if files is None else files
    own = {name: each for name, each in copies.items() if Path(name).stem == network}
    return Card(run.algorithm.name, settings, known, own)


def training_facts(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the env steps, newest and best mean reward, and seed.

    Args:
        stored: the facts of a checkpoint, which may be from someone else.
    """
    facts: dict[str, Any] = {}
    with suppress(AttributeError, KeyError, TypeError, ValueError, OverflowError):
        progress = stored["progress"]
        facts["env_steps"] = int(progress["env_steps"])
        facts["seed"] = int(stored["seed"])
        if progress["rewards"]:
            facts["mean_reward"] = float(np.mean(progress["rewards"]))
        if progress["best_reward"] is not None:
            facts["best_reward"] = float(progress["best_reward"])
    return facts
