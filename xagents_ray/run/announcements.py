"""What a session says when it begins, and of what it could not save."""

from collections.abc import Callable

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.core.errors import Broken, one_line, pluralize, shortage
from xagents_ray.run.checkpointing import CheckpointPolicy
from xagents_ray.run.driver import Driver
from xagents_ray.run.run_state import RunState
from xagents_ray.storage.run_directory import RunDirectory
from xagents_ray.watch.recorder import BestEffort

_REMEDIES = {
    "disk space": "free some, or name a --run-dir on another disk",
    "memory": "lower --n-envs, the batch, the network{buffer}, or close other programs",
}


def introduce(
    run: RunSpec,
    driver: Driver,
    state: RunState,
    directory: RunDirectory,
    note: Callable[[str], None],
) -> None:
    """Note what starts, and what the user should know of it."""
    actors = pluralize(driver.n_actors, "env actor")
    note(f"{directory.path}: {actors}, seed {run.seed}")
    for each in (*run.notes, *driver.notes):
        note(each)
    if state.session:
        step, dropped = state.progress.env_steps, state.progress.dropped
        note(f"Resumed at {step} env steps; unfinished episodes dropped: {dropped}")


class SaveReport:
    """What a run could not save, and how it is resumed.

    Args:
        saves: the policy that writes the run's checkpoints.
        best_effort: the writer of the run's other files.
        note: function that shows a sentence, unless the display is quiet.
    """

    def __init__(
        self,
        saves: CheckpointPolicy,
        best_effort: BestEffort,
        note: Callable[[str], None],
    ) -> None:
        self._saves, self._best_effort, self._note = saves, best_effort, note

    @property
    def unsaved(self) -> tuple[str, ...]:
        """Names of what could not be saved, such as `the history`."""
        others = map(_name_of_file, self._best_effort.unsaved)
        return (*self._saves.unsaved, *filter(None, others))

    def text(self) -> str:
        """Return one line: what could not be saved, if anything; how to resume."""
        then = self._saves.how_to_resume()
        if not (names := ", ".join(self.unsaved)):
            return then
        why = ", ".join(dict.fromkeys(self._best_effort.unsaved.values()))
        return f"Not saved{why and f' ({why})'}: {names}. {then}"

    def show(self) -> None:
        """Warn of what could not be saved, or note how to resume."""
        if self.unsaved:
            self._best_effort.warn(self.text())
        else:
            self._saves.hint_at_resume(self._note)


def _name_of_file(what: str) -> str:
    """Return the name of what `BestEffort` could not write; "" for checkpoints."""
    if what.startswith("A checkpoint"):
        return "the replay buffer" if what.endswith("replay") else ""
    if "TensorBoard" in what:
        return "TensorBoard's events"
    return f"t{what[1:]}" if what.startswith("The ") else what


def shortage_error(
    error: BaseException, run: RunSpec, env_steps: int, saved: str
) -> Broken | None:
    """Return the error of a run that lacks memory or disk space, in one line.

    Args:
        error: the error that ended the run.
        run: the run.
        env_steps: env steps of the run so far.
        saved: sentences on what was saved, and how the run can be continued.
    Returns:
        None if the error has another cause.
    """
    if not (lacking := shortage(error)):
        return None
    has_buffer = run.config.algorithm.replay is not None
    buffer = ", --buffer-max-size" if has_buffer else ""
    remedy = _REMEDIES[lacking].format(buffer=buffer)
    when = f"after {env_steps:,} env steps" if env_steps else "before the first step"
    return Broken(f"Out of {lacking} {when} ({one_line(error)}): {remedy}. {saved}")
