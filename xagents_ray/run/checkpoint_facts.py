"""What a checkpoint says of a run beside its arrays, which may be from someone else."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from xagents_ray.core.errors import UserError
from xagents_ray.storage.checkpoints import Checkpoint


def unresumable(checkpoint: Checkpoint) -> UserError:
    """Return the error of a checkpoint whose facts are missing or of another type."""
    return UserError(
        f"{checkpoint.path} lacks what a run needs to resume: take another "
        "checkpoint of the run, or begin a new run with the --weights of this one."
    )


def sessions_before(checkpoint: Checkpoint) -> int:
    """Return how often a run has been resumed; UserError if data for it is missing."""
    facts = checkpoint.facts
    try:
        int(facts["seed"]), int(facts["pending_steps"])
        int(facts["progress"]["env_steps"]), dict(facts["plateau"])
        for state in facts["actors"]:
            len(state["noise"]), int(state["unfinished"])
        return int(facts["session"])
    except (KeyError, TypeError, ValueError):
        raise unresumable(checkpoint) from None


def actor_states(
    checkpoint: Checkpoint, shares: Sequence[int]
) -> list[dict[str, Any]] | None:
    """Return the env actors' states, if these have so many environments each.

    None if the saved actors had other numbers, because a state can't be split.
    """
    states: list[dict[str, Any]] = checkpoint.facts["actors"]
    fits = [len(state["noise"]) for state in states] == list(shares)
    return states if fits else None


def longest_episode(checkpoint: Checkpoint | None) -> int:
    """Return the env steps of the run's longest episode; 0 if they are unknown."""
    if checkpoint is None:
        return 0
    with suppress(AttributeError, KeyError, TypeError, ValueError, OverflowError):
        return int(checkpoint.facts["progress"].get("longest_episode", 0))
    return 0


def count_unfinished(checkpoint: Checkpoint, n_envs: int) -> int:
    """Return the number of environments in the middle of an episode.

    All of them if the checkpoint has no states of env actors.
    """
    states = checkpoint.facts["actors"]
    return sum(int(state["unfinished"]) for state in states) if states else n_envs
