"""`xagents_ray.runs`: a table of the runs below a directory."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xagents_ray.core.errors import UserError
from xagents_ray.settings.paths import local_path
from xagents_ray.settings.run import RunConfig
from xagents_ray.storage import checkpoints
from xagents_ray.storage.run_directory import RunDirectory, run_directories

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = (
    "agent",
    "env",
    "name",
    "env_steps",
    "mean_reward",
    "best_reward",
    "best_evaluation",
    "seed",
    "seconds",
    "started",
    "reason",
    "directory",
)


def runs(folder: str | Path = RunConfig.run_dir) -> pd.DataFrame:
    """Return a table of all runs below a directory, in the order of their starts.

    Args:
        folder: directory to search recursively.
    Returns:
        A pandas DataFrame with a row for each run: `agent`, `env`, `name`,
        `env_steps`, `mean_reward` of its newest episodes, `best_reward`,
        `best_evaluation`, `seed`, `seconds` of training, `started` (local time),
        `reason` why it ended, `directory` (for `load`). Unknown values are missing:
        a run in progress, or one that was killed, has the env steps of its newest
        checkpoint and no reason.
    Raises:
        UserError: pandas is not installed, or the directory doesn't exist.

    >>> table = xagents_ray.runs("runs")
    >>> table[["agent", "env", "name", "seed"]].values.tolist()
    [['ppo', 'CartPole-v1', 'first', 1]]
    >>> policy = xagents_ray.load(table.directory.iloc[-1])
    """
    try:
        import pandas as pd
    except ImportError:
        raise UserError(
            "xagents_ray.runs needs the package pandas: pip install pandas."
        ) from None
    folder = local_path("runs", folder)
    if not os.path.isdir(folder):
        raise UserError(f"{folder}: there is no such folder; name one that has runs.")
    rows = [run_facts(directory) for directory in run_directories(Path(folder))]
    rows.sort(key=lambda row: str(row["started"]))
    return pd.DataFrame(rows, columns=list(_COLUMNS))


def run_facts(directory: RunDirectory) -> dict[str, Any]:
    """Return a run's values by the names of the columns of `runs`; None if unknown."""
    starts, summary = directory.starts(), dict[str, Any]()
    with suppress(UserError):  # of a newer version
        summary = directory.summary()
    row: dict[str, Any] = dict.fromkeys(_COLUMNS)
    row |= {"name": directory.path.name, "directory": str(directory.path)}
    with suppress(UserError):
        row["agent"], settings = directory.settings()
        row["env"] = settings.get("env")
    if starts:
        row["started"], row["seed"] = starts[0].get("started"), starts[-1].get("seed")
    for path in checkpoints.all_checkpoints(directory.checkpoints)[:1]:
        row["env_steps"] = checkpoints.step_of(path)
    row |= {name: summary[name] for name in _COLUMNS if name in summary}
    row["mean_reward"] = summary.get("last_reward")
    row["directory"] = str(directory.path)
    return row
