"""Format numbers of the package's files, and migrations of older files.

Checkpoints, `.npz` weights files, `config.yaml` and `summary.json` have a format
number; without one, it is 1. To change a format, append a `Migration` to `MIGRATIONS`:
new files get the next number, and readers migrate older files.
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from xagents_ray.core.errors import UserError
from xagents_ray.core.trajectory import Array

Arrays = dict[str, Array]
_COMMENT = "xagents-ray format {}"
_STATISTICS = re.compile("(.*/)?(observation|return)/(size|mean|variance)")


class Migration(NamedTuple):
    """Functions that convert files of one format to the next one.

    Attributes:
        settings: function of an agent's name and its settings by flat name.
        checkpoint: function of a checkpoint's arrays and facts.
        weights: function of a weights file's arrays by name.
        summary: function of the contents of `summary.json`.
    """

    settings: Callable[[str, dict[str, Any]], dict[str, Any]] = lambda _, values: values
    checkpoint: Callable[[Arrays, dict[str, Any]], tuple[Arrays, dict[str, Any]]] = (
        lambda arrays, facts: (arrays, facts)
    )
    weights: Callable[[Arrays], Arrays] = lambda arrays: arrays
    summary: Callable[[dict[str, Any]], dict[str, Any]] = lambda values: values


def _name_pending_steps(
    arrays: Arrays, facts: dict[str, Any]
) -> tuple[Arrays, dict[str, Any]]:
    """Rename `owed` to `pending_steps`."""
    renamed = {"owed": "pending_steps"}
    return arrays, {renamed.get(name, name): fact for name, fact in facts.items()}


def _name_failures(summary: dict[str, Any]) -> dict[str, Any]:
    """Rename `losses` to `failures`."""
    renamed = {"losses": "failures"}
    return {renamed.get(name, name): value for name, value in summary.items()}


def _act_as_trained(agent: str, values: dict[str, Any]) -> dict[str, Any]:
    """Keep unscaled actions of Gaussian policies, and unbounded means of SAC's gSDE."""
    if agent in ("a2c", "a3c", "impala", "ppo", "trpo"):
        return {**values, "action_scaling": False}
    if agent == "sac" and values.get("sde_frequency") is not None:
        return {**values, "clip_mean": 0.0}
    return values


def _widen_statistics(arrays: Arrays) -> Arrays:
    """Convert the statistics of normalization from float32 to float64."""
    return {
        name: array.astype(np.float64) if _STATISTICS.fullmatch(name) else array
        for name, array in arrays.items()
    }


def _keep_policy_delay(agent: str, values: dict[str, Any]) -> dict[str, Any]:
    """Set SAC's `policy_delay` to 1, which it was with any number of critics."""
    return {**values, "policy_delay": 1} if agent == "sac" else values


def _ignore_masks(_: str, values: dict[str, Any]) -> dict[str, Any]:
    """Keep to ignore the masks of environments, as all runs did."""
    return {**values, "action_masks": False}


def _sum_rewards(agent: str, values: dict[str, Any]) -> dict[str, Any]:
    """Leave the entropy of the steps between out of SAC's targets of several steps."""
    if agent != "sac":
        return values
    if values.get("n_step") in (None, 1):  # it had no effect, and may not be False now
        return {name: x for name, x in values.items() if name != "n_step_entropy"}
    return {"n_step_entropy": False, **values}


MIGRATIONS: list[Migration] = [
    Migration(checkpoint=_name_pending_steps, summary=_name_failures),
    Migration(settings=_act_as_trained),
    Migration(
        settings=_keep_policy_delay,
        checkpoint=lambda arrays, facts: (_widen_statistics(arrays), facts),
        weights=_widen_statistics,
    ),
    Migration(settings=_ignore_masks),
    Migration(settings=_sum_rewards),
]
"""The migration from format 1 to 2, from 2 to 3, and so on."""


class NewerFormatError(UserError):
    """A newer version of the package wrote a file."""


def newest_format() -> int:
    """Return the number of the format that this version writes."""
    return len(MIGRATIONS) + 1


def migrations_from(number: Any, path: object) -> list[Migration]:
    """Return the migrations from a format to the newest one.

    Args:
        number: format number of a file.
        path: path of the file, for the message.
    Raises:
        NewerFormatError: a newer version wrote the file.
        ValueError: `number` is not a format number.
    """
    if type(number) is not int or number < 1:
        raise ValueError(f"its format is {number!r:.80}")
    if number > newest_format():
        raise NewerFormatError(
            f"{path} has format {number}, and this version of xagents-ray reads "
            f"formats up to {newest_format()}: upgrade xagents-ray"
        )
    return MIGRATIONS[number - 1 :]


def npz_comment() -> bytes:
    """Return the comment of a new `.npz` archive, which has the format number."""
    return _COMMENT.format(newest_format()).encode()


def number_in(archive_comment: bytes) -> int:
    """Return the format number in the comment of an `.npz` archive; 1 without one.

    Raises:
        ValueError: the comment is damaged.
    """
    if not archive_comment:
        return 1
    pattern = _COMMENT.format(r"([1-9]\d{0,8})").encode()
    found = re.fullmatch(pattern, archive_comment)
    if found is None:
        raise ValueError("its comment is damaged")
    return int(found[1])
