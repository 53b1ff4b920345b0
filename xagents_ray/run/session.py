"""One start or resumption of a run, until it ends; the loop of both drivers."""

import math
import signal
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from xagents_ray.core.errors import Broken, Diverged, Stopped
from xagents_ray.core.signals import Signals
from xagents_ray.core.trajectory import Weights
from xagents_ray.run.checkpointing import Saver
from xagents_ray.run.display import Display
from xagents_ray.run.driver import Collected, Driver, Run, StartDriver
from xagents_ray.run.episodes import play
from xagents_ray.run.plateau import Plateau
from xagents_ray.run.profile import Profile
from xagents_ray.run.progress import Progress
from xagents_ray.run.recorder import Attempts, Recorder
from xagents_ray.run.result import Result, summary
from xagents_ray.run.resume import Resumed
from xagents_ray.run.update_schedule import Owed
from xagents_ray.settings.episodes import PlayConfig
from xagents_ray.storage.history import History
from xagents_ray.storage.run_directory import RunDirectory


class Session:
    """One start or resumption of a run, until it ends."""

    def __init__(
        self,
        run: Run,
        start: StartDriver,
        resumed: Resumed | None,
        display: Display,
        signals: Signals,
        watch: Callable[[Progress], None] | None = None,
    ) -> None:
        self._run, self._start, self._resumed = run, start, resumed
        self._display, self._signals, self._watch = display, signals, watch
        self._number = resumed.session if resumed else 0
        self._training = run.config.training
        rows = run.config.algorithm.batch_steps * run.config.env.n_envs
        window: deque[float] = deque(maxlen=self._training.reward_buffer_size)
        self._progress = Progress(window, rows)
        self._plateau, self._owed = Plateau(), Owed(run)
        self._attempt = Attempts(display.warn)
        self._numbers: dict[str, float] = {}
        self._losses: dict[str, int] = {}
        self._profile: Profile | None = None
        self._learner_threads = 0

    def train(self) -> Result:
        """Train until the run ends."""
        run, progress, resumed = self._run, self._progress, self._resumed
        named = run.config.run.history_checkpoint
        histories = [History(named)] if named is not None else []
        self._go_on(histories)
        reason = progress.over(self._training)
        if reason is not None:
            reason = f"{reason}: raise --max-steps or --target-reward to go on"
            return self._end(reason, 0, resumed.directory if resumed else None)
        if resumed is not None:
            directory = resumed.directory
        else:
            agent = run.algorithm.name
            directory = RunDirectory.create(run.config, agent, run.seed)
        try:
            with closing(self._start(run, self._signals)) as driver:
                return self._train(driver, directory, histories)
        except Stopped:
            return self._end(self._stopped(), 0, None)
        finally:
            with suppress(OSError):  # it is empty when nothing has begun
                directory.path.rmdir()

    def _go_on(self, histories: list[History]) -> None:
        """Take counters from the checkpoint, or from the history that is continued."""
        progress = self._progress
        if self._resumed is not None:
            facts = self._resumed.checkpoint.facts
            progress.restore(facts["progress"])
            self._plateau.restore(facts["plateau"])
            self._owed.steps = int(facts["owed"])
            for history in histories:
                history.cut(progress.env_steps)
        elif histories and histories[0].last is not None:
            last, size = histories[0].last, self._training.reward_buffer_size
            progress.env_steps, progress.before = last.step, last.time
            progress.best_reward = histories[0].best_mean(size)
            progress.games = histories[0].rows
            progress.rewards.extend(histories[0].newest_rewards(size))

    def _train(
        self, driver: Driver, directory: RunDirectory, histories: list[History]
    ) -> Result:
        run, progress = self._run, self._progress
        if self._resumed is not None:
            progress.dropped += driver.restore(self._resumed.checkpoint, self._number)
        self._attempt(
            "The run's settings",
            lambda: directory.begin(run.config, run.algorithm.name, run.seed),
        )
        own = History(directory.history)
        own.cut(progress.env_steps if self._resumed else -1)
        step = progress.env_steps
        others = [h for h in histories if h.path != own.path]
        self._recorder = Recorder(run, directory, [own, *others], self._attempt, step)
        flush = self._recorder.flush
        self._saver = Saver(
            run,
            driver,
            directory,
            self._facts,
            self._attempt,
            flush,
            lambda: self._learnt(driver.drain()),
            progress,
        )
        self._profile = Profile(run.config, driver.n_actors)
        self._learner_threads = driver.learner_threads
        self._display.profile = self._profile
        self._say(driver, directory)
        reason = self._run_to_the_end(driver, directory)
        return self._end(reason, driver.n_actors, directory)

    def _say(self, driver: Driver, directory: RunDirectory) -> None:
        actors = f"{driver.n_actors} env actor{'s' * (driver.n_actors > 1)}"
        self._display.note(f"{directory.path}: {actors}, seed {self._run.seed}")
        for note in (*self._run.notes, *driver.notes):
            self._display.note(note)
        if self._resumed is not None:
            step, dropped = self._progress.env_steps, self._progress.dropped
            self._display.note(
                f"Resumed at {step} env steps; unfinished episodes dropped: {dropped}"
            )

    def _run_to_the_end(self, driver: Driver, directory: RunDirectory) -> str:
        self._progress.began = time.perf_counter()
        try:
            reason = self._loop(driver)
            self._learnt(driver.drain())
        except Stopped:
            reason = self._stopped()
        except (Diverged, Broken) as error:
            self._tell(driver)
            with suppress(Broken, Stopped):
                if isinstance(error, Diverged):  # the newest state is worth nothing
                    self._saver.write_best()
                else:
                    self._saver.at_the_end(with_replay=False)
            self._recorder.close(self._progress.env_steps, {}, None)
            self._summarize(self._result(str(error), driver.n_actors, directory))
            raise
        except Exception:
            with suppress(Exception):  # the first error is the one to show
                self._saver.at_the_end(with_replay=False)
            raise
        finally:
            if self._profile is not None:
                self._profile.stop()
        run, stopped = self._run.config.run, self._signals.received is not None
        try:
            self._saver.at_the_end(with_replay=not stopped)
            self._take_evaluations(driver, is_last=not stopped)
            if note := self._saver.finish():
                self._display.note(note)
        except Stopped:
            self._display.warn("The learner was busy: the newest checkpoint is older.")
        video = None
        if run.monitor_session is not None and not stopped:
            folder = directory.path / "video"
            if self._attempt("The video", lambda: self._film(driver, folder)):
                video = next(folder.glob("*.mp4"), None)
        self._tell(driver)
        self._recorder.close(self._progress.env_steps, self._numbers, video)
        return reason

    def _film(self, driver: Driver, folder: Path) -> None:
        """Play and film one game with the final weights."""
        run, state = self._run, driver.fetch(driver.snapshot()).learner
        arrays = run.algorithm.models[0].own(state)
        config = PlayConfig(video_dir=str(folder), seed=run.evaluation_seed)
        parts = run.algorithm, run.config.env, run.config.algorithm, run.layout
        play(*parts, Weights(1, arrays), config, lambda _: None)

    def _loop(self, driver: Driver) -> str:
        """Collect and learn in turn until the run ends; return why it did."""
        progress, config = self._progress, self._run.config
        self._show()
        while True:
            self._saver.between_phases()
            if self._signals.received is not None:
                raise Stopped
            before, clock = progress.env_steps, time.perf_counter()
            round_ = driver.collect(before)
            self._collected(round_, time.perf_counter() - clock)
            games, reason = progress.collected(round_.reports, self._training)
            self._recorder.games(games, progress.seconds)
            progress.replay_size = round_.replay.size if round_.replay else None
            if reason is not None:
                return reason
            reason = self._check_plateau(driver)
            batches = self._owed.batches(before, progress.env_steps, round_.replay)
            if batches:
                clock = time.perf_counter()
                phases = driver.learn(batches, progress.env_steps, progress.statistics)
                progress.statistics = {}
                self._learnt(phases, time.perf_counter() - clock)
            self._tell(driver)
            every = config.run.eval_every
            if every is not None and progress.env_steps // every > before // every:
                if driver.evaluate(progress.env_steps):
                    self._saver.begin_evaluation()
            self._take_evaluations(driver, is_last=False)
            self._show()
            reason = reason or progress.out_of_steps(self._training)
            if reason is not None:
                return reason

    def _show(self) -> None:
        self._display.show(self._progress)
        if self._watch is not None:
            self._watch(self._progress)

    def _collected(self, round_: Collected, waited: float) -> None:
        self._progress.lags.update(round_.lags)
        if self._profile is not None:
            self._profile.collected(
                round_.reports, round_.replay_seconds, waited, round_.dropped
            )

    def _learnt(self, phases: list[dict[str, float]], waited: float = 0.0) -> None:
        """Count learning phases that ended."""
        if self._profile is not None:
            self._profile.learnt(phases, waited)
        for metrics in phases:
            self._progress.learnt(int(metrics.pop("updates")))
            self._check(metrics)
            self._track(metrics)

    def _tell(self, driver: Driver) -> None:
        """Show what has failed, and keep what it has cost."""
        self._losses = dict(driver.losses)
        for sentence in driver.news():
            self._display.warn(sentence)
        driver.publish(self._watched())

    def _watched(self) -> dict[str, float]:
        """Return what is watched from outside while the run goes on."""
        progress, numbers = self._progress, {}
        numbers["env_steps"] = float(progress.env_steps)
        numbers["env_steps_per_second"] = progress.steps_per_second
        if progress.mean_reward is not None:
            numbers["mean_reward"] = progress.mean_reward
        groups: dict[str, Mapping[str, float]] = {
            "share": self._profile.shares if self._profile else {},
            "policy_lag": progress.policy_lag,
            "lost": self._losses,
        }
        for group, values in groups.items():
            numbers |= {f"{group}/{name}": value for name, value in values.items()}
        return numbers

    def _check(self, metrics: dict[str, float]) -> None:
        """Raise Diverged when a number of a learning phase is none."""
        for name, value in metrics.items():
            if not math.isfinite(value):
                raise Diverged(
                    f"{name} is {value} after {self._progress.env_steps} env steps: "
                    "lower --lr, and begin with the --weights of a checkpoint or anew."
                )

    def _check_plateau(self, driver: Driver) -> str | None:
        """Reduce the learning rate, or return why the run ends, on a plateau."""
        progress, plateau = self._progress, self._plateau
        mean = progress.mean_reward
        if mean is None or progress.games - plateau.games < self._run.config.env.n_envs:
            return None
        plateau.games = progress.games
        due = plateau.check(self._training, progress.env_steps, mean)
        if due is None:
            return None
        lr = driver.scale_lr(self._training.plateau_reduce_factor)
        self._display.note(f"Learning rate reduced to {lr:.3g}")
        return f"Stopped early at {progress.env_steps} steps" if due == "stop" else None

    def _take_evaluations(self, driver: Driver, is_last: bool) -> None:
        for step, mean in driver.evaluations(is_last):
            self._recorder.evaluated(step, mean)
            self._saver.end_evaluation(step, mean)
            self._display.note(f"Evaluation at {step} steps: mean reward {mean:.2f}")

    def _track(self, metrics: dict[str, float]) -> None:
        progress = self._progress
        self._numbers = {f"train/{name}": value for name, value in metrics.items()}
        rewards = {"mean": progress.mean_reward, "best": progress.best_reward}
        for name, value in rewards.items():
            if value is not None:
                self._numbers[f"reward/{name}"] = value
        watched = self._watched()
        kept = ("policy_lag/", "lost/", "share/")
        self._numbers |= {k: v for k, v in watched.items() if k.startswith(kept)}
        self._numbers["run/steps_per_second"] = progress.steps_per_second
        self._numbers["run/games"] = progress.games
        self._recorder.metrics(progress.env_steps, self._numbers)

    def _facts(self) -> dict[str, Any]:
        """Return what a checkpoint holds beside the parts' states."""
        return {
            "seed": self._run.seed,
            "session": self._number,
            "progress": self._progress.state(),
            "plateau": asdict(self._plateau),
            "owed": self._owed.steps,
        }

    def _stopped(self) -> str:
        number = self._signals.received
        assert number is not None
        return f"Stopped by {signal.Signals(number).name}"

    def _end(
        self, reason: str, n_actors: int, directory: RunDirectory | None
    ) -> Result:
        """Say how the run ended, and write it where something was trained."""
        self._display.end(self._progress, reason)
        result = self._result(reason, n_actors, directory)
        if n_actors:
            self._summarize(result)
        if result.losses:
            lost = ", ".join(f"{name}: {n}" for name, n in result.losses.items())
            self._display.note(f"Lost and replaced: {lost}")
        return result

    def _summarize(self, result: Result) -> None:
        directory = RunDirectory(Path(result.directory))
        self._attempt("The summary", lambda: directory.finish(summary(result)))

    def _result(
        self, reason: str, n_actors: int, directory: RunDirectory | None
    ) -> Result:
        progress = self._progress
        return Result(
            reason=reason,
            env_steps=progress.env_steps,
            games=progress.games,
            updates=progress.updates,
            seconds=progress.seconds,
            steps_per_second=progress.steps_per_second,
            mean_reward=progress.mean_reward,
            best_reward=progress.best_reward,
            best_evaluation=progress.best_evaluation,
            episodes=progress.episodes,
            dropped=progress.dropped,
            n_actors=n_actors,
            learner_threads=self._learner_threads,
            seed=self._run.seed,
            directory=str(directory.path) if directory else "",
            signal=self._signals.received,
            losses=self._losses,
            policy_lag=progress.policy_lag,
            profile=self._profile.summary() if self._profile else {},
        )
