"""The checkpoint of a run whose weights act."""

from pathlib import Path

from xagents_ray.core.errors import UserError
from xagents_ray.storage import checkpoints
from xagents_ray.storage.run_directory import RunDirectory


def load_chosen(
    directory: RunDirectory, named: Path | None, which: str | None
) -> tuple[checkpoints.Checkpoint, list[str]]:
    """Return a run's checkpoint, and notes: the reason for it, and what was skipped.

    Args:
        directory: directory of the run.
        named: path of one of its checkpoints; None if the user named none.
        which: best, last or an env step; None for the default.
    Raises:
        UserError: there is no such checkpoint, or it is damaged; of the newest ones,
            all are.
    """
    path, reason = _choose_checkpoint(directory, named, which)
    if path is not None:
        checkpoint = checkpoints.load_checkpoint(path, "give --run")
        return checkpoint, [f"Weights of {checkpoint.path}: {reason}"]
    checkpoint, skipped = checkpoints.load_newest(directory.checkpoints)
    return checkpoint, [f"Weights of {checkpoint.path}: {reason}", *skipped]


def _choose_checkpoint(
    directory: RunDirectory, named: Path | None, which: str | None
) -> tuple[Path | None, str]:
    """Return the path, None for the newest valid one, and the reason for the choice."""
    if named is not None:
        if which is not None:
            raise UserError(
                "--which chooses a checkpoint of a run and --run names one already: "
                "drop one of the two."
            )
        return named, "named by --run"
    found = checkpoints.all_checkpoints(directory.checkpoints)
    if not found:
        raise UserError(
            f"{directory.path} has no checkpoint yet: train it longer, or name another "
            "run."
        )
    best = checkpoints.best_checkpoint(directory.checkpoints)
    evaluation = None if best is None else checkpoints.best_evaluation(best)
    if which is not None and which.isdecimal():
        steps = {checkpoints.step_of(path): path for path in reversed(found)}
        if int(which) not in steps:
            raise UserError(
                f"--which {int(which)}: the run has checkpoints of env steps "
                f"{', '.join(map(str, steps))}; name one of them, best or last."
            )
        return steps[int(which)], "chosen by --which"
    if which == "last" or (which is None and evaluation is None):
        without = "" if which else "; no evaluation ranked them, see --eval-every"
        return None, f"the newest checkpoint{without}"
    if best is None:
        raise UserError(
            f"{directory.path} has no best checkpoint yet: use --which last, or train "
            "it until its reward buffer is full."
        )
    if evaluation is None:
        return best, "the best mean reward in training"
    return best, f"the best evaluation, mean reward {evaluation:.2f}"
