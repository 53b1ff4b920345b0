"""One session of a run, from config to result, with the training loop."""

import time
from collections.abc import Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from xagents_ray.algorithms.definition import Algorithm
from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.core.errors import Broken, Diverged, Stopped, one_line, shortage
from xagents_ray.core.reports import Collected, Evaluated
from xagents_ray.core.signals import Signals
from xagents_ray.run.announcements import SaveReport, introduce, shortage_error
from xagents_ray.run.checkpointing import CheckpointPolicy
from xagents_ray.run.driver import Driver, StartDriver
from xagents_ray.run.film import film_monitored
from xagents_ray.run.prepare import Resumed, begin_in, new_directory, prepare_run
from xagents_ray.run.run_state import RunState
from xagents_ray.settings.config import Config
from xagents_ray.storage.history import History
from xagents_ray.storage.lock import locked_directory
from xagents_ray.storage.run_directory import RunDirectory
from xagents_ray.watch.callbacks import Callback, Callbacks, RunContext
from xagents_ray.watch.hooks import loop_step
from xagents_ray.watch.progress import ProgressListener
from xagents_ray.watch.recorder import BestEffort, Recorder
from xagents_ray.watch.result import Result, result_summary, stopped_by
from xagents_ray.watch.telemetry import Telemetry

if TYPE_CHECKING:
    from xagents_ray.watch.display import Display


def run_session(
    algorithm: Algorithm,
    config: Config,
    signals: Signals,
    start: StartDriver,
    resumed: Resumed | None = None,
    watch: ProgressListener | None = None,
    threads: int | None = None,
    notes: Sequence[str] = (),
    listeners: Sequence[Callback] = (),
) -> Result:
    """Train until the run ends; all training commands call this.

    Args:
        algorithm: the algorithm that learns.
        config: settings of the run.
        signals: signals that end the run early.
        start: function that starts the driver.
        resumed: the run to resume; None for a new one.
        watch: function called before the first rollout and after each phase.
        threads: number of cores that each component may use; None for all of them.
        notes: further notes for the user, one sentence each.
        listeners: the user's callbacks, in the order in which they are called.
    """
    with resolve_name("xagents_ray.watch.display:Display")(config) as display:
        run = prepare_run(algorithm, config, resumed)
        run = replace(run, notes=(*run.notes, *notes), threads=threads)
        try:
            return _train(run, start, resumed, display, signals, watch, listeners)
        except Exception as error:
            if lacking := shortage_error(error, run, 0, "Nothing is lost."):
                raise lacking from error
            raise


def _train(
    run: RunSpec,
    start: StartDriver,
    resumed: Resumed | None,
    display: "Display",
    signals: Signals,
    watch: ProgressListener | None,
    callbacks: Sequence[Callback],
) -> Result:
    named = [run.config.run.history_checkpoint]
    files = [History(path) for path in named if path is not None]
    state = RunState(run, resumed, files)

    def end(reason: str, directory: str = "") -> Result:
        display.end(state.progress, reason)
        return Result.of(
            reason, run.config, run.seed, state.progress, signals.received, directory
        )

    if reason := state.progress.over(run.config.training):
        path = str(resumed.directory.path) if resumed else ""
        return end(f"{reason}: raise --max-steps or --target-reward to continue", path)
    if resumed is None:  # fail before Ray starts, which takes seconds
        new_directory(run).path.rmdir()
    try:
        display.begin("TensorFlow" if run.config.placement.local else "Ray, TensorFlow")
        with ExitStack() as stack:
            driver = stack.enter_context(closing(start(run, signals, display.note)))
            if resumed is not None:
                dropped = driver.restore(resumed.checkpoint, resumed.session)
                state.progress.dropped += dropped
            # Not earlier, because Ray may end this process while it starts.
            directory = resumed.directory if resumed else new_directory(run)
            stack.enter_context(locked_directory(directory.path))
            return Session(
                run, driver, state, directory, files, display, signals, watch, callbacks
            ).train()
    except Stopped:
        return end(stopped_by(signals.received))


class Session:
    """Collects and learns in turn until the run ends, and saves the results.

    Driver and counters are restored already; `histories` record every episode.
    """

    def __init__(
        self,
        run: RunSpec,
        driver: Driver,
        state: RunState,
        directory: RunDirectory,
        histories: Sequence[History],
        display: "Display",
        signals: Signals,
        watch: ProgressListener | None,
        callbacks: Sequence[Callback],
    ) -> None:
        self._run, self._driver, self._state = run, driver, state
        self._directory, self._display, self._signals = directory, display, signals
        self._progress, self._training = state.progress, run.config.training
        self._best_effort = BestEffort(display.warn)
        self._best_effort("The run's settings", begin_in, directory, run)
        own, step = History(directory.history), state.progress.env_steps
        own.cut(step if state.session else -1, is_held=state.goes_back)
        files = [own, *(h for h in histories if h.path != own.path)]
        recorder = Recorder(
            run.algorithm.name, run.config, directory, files, self._best_effort, step
        )
        self._recorder = recorder
        context = RunContext(state.progress, directory.path, recorder.own)
        self._callbacks = called = Callbacks(callbacks, context)
        self._step = loop_step(callbacks)
        self._saves = CheckpointPolicy(run, driver, directory, state, recorder, called)
        self._report = SaveReport(self._saves, self._best_effort, display.note)
        self._telemetry = Telemetry(
            run.config, driver, state.progress, recorder, display, watch, called
        )

    def train(self) -> Result:
        """Train until the run ends.

        Raises:
            Diverged: a loss, gradient or reward is not finite.
            Broken: a required component is lost for good, or a callback raised.
        """
        state, directory = self._state, self._directory
        introduce(self._run, self._driver, state, directory, self._display.note)
        self._progress.started_at = time.perf_counter()
        try:
            try:
                reason = self._loop()
                self._settle()
            except Stopped:
                reason = stopped_by(self._signals.received)
            self._close()
        except BaseException as error:  # including SystemExit of user code
            self._save_after(error)
            steps, saved = self._progress.env_steps, self._report.text()
            if lacking := shortage_error(error, self._run, steps, saved):
                raise lacking from error
            raise
        finally:
            self._telemetry.profile.stop()
        self._display.end(self._progress, reason)
        result = self._summarize(reason, completed=self._signals.received is None)
        if failed := ", ".join(f"{name}: {n}" for name, n in result.failures.items()):
            self._display.note(f"Lost and replaced: {failed}")
        if result.unsaved or self._signals.received is not None:
            self._report.show()
        return result

    def _loop(self) -> str:
        """Collect and learn in turn until the run ends; return why it did."""
        self._telemetry.show()
        self._callbacks(Callback.on_start)
        while True:
            self._save_between_phases()
            if self._signals.received is not None:
                raise Stopped
            if reason := self._callbacks.reason or self._step(self._update):
                return reason

    def _update(self) -> str | None:
        """Collect and learn once; return why the run ends with it, else None."""
        progress, before = self._progress, self._progress.env_steps
        round_, reason = self._collect()
        if reason is not None:
            return reason
        reason = self._state.plateau.respond(
            self._run.config, progress, self._driver.scale_lr, self._display.note
        )
        self._learn(before, round_)
        self._telemetry.report_failures()
        self._evaluate(before)
        self._telemetry.show()
        return reason or progress.out_of_steps(self._training)

    def _collect(self) -> tuple[Collected, str | None]:
        """Take a round of rollouts; return why the run ends with it, else None."""
        progress, clock = self._progress, time.perf_counter()
        round_ = self._driver.collect(progress.env_steps)
        self._telemetry.collected(round_, time.perf_counter() - clock)
        ended, reason = progress.collected(round_.reports, self._training)
        self._recorder.episodes(ended, progress.seconds)
        self._callbacks.collected(ended)
        return round_, reason

    def _learn(self, before: int, round_: Collected) -> None:
        progress, steps = self._progress, self._progress.env_steps
        if batches := self._state.schedule.batches(before, steps, round_.replay):
            clock = time.perf_counter()
            statistics, progress.statistics = progress.statistics, {}
            phases = self._driver.learn(batches, steps, statistics)
            self._telemetry.learned(phases, time.perf_counter() - clock)

    def _settle(self) -> None:
        """Wait for the learning phases in progress, and count them."""
        self._telemetry.learned(self._driver.drain())

    def _evaluate(self, before: int) -> None:
        """Begin an evaluation if due, and process those that ended."""
        every, steps = self._run.config.run.eval_every, self._progress.env_steps
        is_due = every is not None and steps // every > before // every
        if is_due and self._driver.evaluate(steps, self._progress.longest_episode):
            self._settle()
            self._saves.begin_evaluation()
        self._take_evaluations(is_last=False)

    def _take_evaluations(self, is_last: bool) -> None:
        for evaluation in self._driver.evaluations(is_last):
            self._saves.end_evaluation(evaluation)
            if isinstance(evaluation, Evaluated):
                self._recorder.evaluated(evaluation)
                self._display.note(str(evaluation))
                self._callbacks(Callback.on_evaluation, *evaluation[:2])

    def _save_between_phases(self) -> None:
        if self._saves.is_due:
            self._settle()
        self._saves.between_phases()

    def _save_newest(self, with_replay: bool) -> None:
        """Write the best and the newest state, if they have not been written."""
        self._saves.write_best()
        if self._saves.is_behind:
            self._settle()
            self._saves.write_newest(with_replay)

    def _save_after(self, error: BaseException) -> None:
        """Write the state that an error leaves intact, and the summary."""
        is_known = isinstance(error, Diverged | Broken)
        with suppress(Exception):  # the first error is the one to show
            if isinstance(error, Diverged):  # the newest state is useless
                self._saves.write_best()
            else:
                with suppress(Broken, MemoryError):  # without phases that failed
                    self._settle()
                self._save_newest(with_replay=False)
        self._telemetry.report_failures()  # those of saving, too
        with suppress(Exception):
            self._recorder.close(self._progress.env_steps, {}, None)
        with suppress(Exception):
            self._summarize(str(error) if is_known else one_line(error))
        if not isinstance(error, Diverged) and not shortage(error):
            self._report.show()

    def _close(self) -> None:
        """Write the newest state, the last evaluations, the video and the metrics."""
        is_stopped = self._signals.received is not None
        try:
            if not is_stopped:
                self._save_between_phases()
            self._save_newest(with_replay=not is_stopped)
            try:
                self._take_evaluations(is_last=not is_stopped)
            except Stopped:  # while waiting for the last; others may have ended
                self._take_evaluations(is_last=False)
            if note := self._saves.finish():
                self._display.note(note)
        except Stopped:
            self._display.warn("The learner was busy: its newest state is not saved.")
        video, path = None, self._directory.path
        if not is_stopped:
            run = replace(self._run, longest_episode=self._progress.longest_episode)
            video = film_monitored(run, self._driver, path, self._best_effort)
        self._telemetry.report_failures()
        self._telemetry.close(video)

    def _summarize(self, reason: str, completed: bool = False) -> Result:
        """Return the result of the session, after writing it and calling callbacks."""
        result = Result.of(
            reason,
            self._run.config,
            self._run.seed,
            self._progress,
            self._signals.received,
            directory=str(self._directory.path),
            n_actors=self._driver.n_actors,
            learner_threads=self._driver.learner_threads,
            failures=self._telemetry.failures,
            profile=self._telemetry.summary() | self._driver.shares.summary(),
            completed=completed,
            unsaved=self._report.unsaved,
        )
        self._best_effort("The summary", self._directory.finish, result_summary(result))
        result = replace(result, unsaved=self._report.unsaved)
        self._callbacks(Callback.on_end, result)
        return result
