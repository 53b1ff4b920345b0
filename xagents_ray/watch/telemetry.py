"""What is measured during a run, and where it is shown."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xagents_ray.core.errors import check_finite
from xagents_ray.core.reports import Collected, WatchedDriver
from xagents_ray.settings.config import Config
from xagents_ray.watch.callbacks import Callback, Callbacks
from xagents_ray.watch.profile import Profile
from xagents_ray.watch.progress import Progress, ProgressListener
from xagents_ray.watch.recorder import Recorder

if TYPE_CHECKING:
    from xagents_ray.watch.display import Display


class Telemetry:
    """Measures a session of a run; updates display, trackers and the cluster.

    Learning phases are counted in the progress, which `watch` gets when it is shown.
    """

    def __init__(
        self,
        config: Config,
        driver: WatchedDriver,
        progress: Progress,
        recorder: Recorder,
        display: "Display",
        watch: ProgressListener | None,
        callbacks: Callbacks,
    ) -> None:
        self._driver, self._supervision = driver, driver.supervision
        self._progress = progress
        progress.replay_size = driver.replay_size  # of a resumed run
        self._recorder, self._display, self._watch = recorder, display, watch
        self._callbacks, self._config = callbacks, config.algorithm
        self._has_advised = False
        self.profile = display.profile = Profile(
            config, driver.n_actors, driver.learns_on_gpu
        )
        self.failures: dict[str, int] = {}  # failed components and lost items by name
        self._metrics: dict[str, float] = {}  # metrics of the newest learning phase
        if self._supervision is not None:
            self._supervision.when_waiting(self._show_warnings)

    def show(self) -> None:
        self._display.show(self._progress)
        if self._watch is not None:
            self._watch(self._progress)

    def collected(self, round_: Collected, waited: float) -> None:
        """Measure a round of rollouts that arrived after `waited` seconds."""
        self._progress.lags.update(round_.lags)
        self._progress.replay_size = self._driver.replay_size
        self.profile.n_actors = self._driver.n_actors  # they may come and go
        self.profile.collected(
            round_.reports, round_.replay_seconds, waited, round_.dropped
        )

    def learned(self, phases: Sequence[dict[str, float]], waited: float = 0.0) -> None:
        """Count phases that arrived after `waited` seconds, and track their metrics.

        Raises:
            Diverged: a metric is not finite.
            Broken: a callback raised.
        """
        self.profile.learned(phases, waited)
        for metrics in phases:
            self._progress.learned(int(metrics.pop("updates")))
            if not metrics:  # it was stopped before its first update, or lost its data
                continue
            check_finite(metrics, self._progress.env_steps)
            self._advise(metrics)
            self._metrics = self._display.metrics = metrics
            self._recorder.metrics(self._progress.env_steps, self._tracked)
            self._callbacks(Callback.on_update, metrics)

    def report_failures(self) -> None:
        """Show failures, and publish the metrics with the numbers of failures."""
        if self._supervision is not None:
            self.failures = dict(self._supervision.failures)
            self._show_warnings()
            self._supervision.publish(self._published())

    def _show_warnings(self) -> None:
        if self._supervision is not None:
            for line in self._supervision.take_printed():
                self._display.note(line)
            for warning in self._supervision.take_warnings():
                self._display.warn(warning)

    def summary(self) -> dict[str, Any]:
        """Return the profile and the supervision's values for the run's summary."""
        supervised = {} if self._supervision is None else self._supervision.summary()
        return {**self.profile.summary(), **supervised}

    def close(self, video: Path | None) -> None:
        """Record the last metrics."""
        values = self._tracked() if self._metrics else {}
        self._recorder.close(self._progress.env_steps, values, video)

    def _advise(self, metrics: Mapping[str, float]) -> None:
        """Show the algorithm's advice on the metrics, once."""
        if not self._has_advised and (warning := self._config.warning(metrics)):
            self._has_advised = True
            self._display.warn(warning)

    def _published(self) -> dict[str, float]:
        """Return the metrics that can be watched from outside during the run."""
        progress = self._progress
        metrics = {
            "env_steps": float(progress.env_steps),
            "env_steps_per_second": progress.steps_per_second,
        }
        if progress.mean_reward is not None:
            metrics["mean_reward"] = progress.mean_reward
        if progress.success_rate is not None:
            metrics["success_rate"] = progress.success_rate
        return metrics | self._health()

    def _tracked(self) -> dict[str, float]:
        """Return the newest learning phase's metrics for trackers."""
        progress = self._progress
        rewards = {"mean": progress.mean_reward, "best": progress.best_reward}
        epsilon = self._config.exploration_rate(progress.env_steps)
        return {
            **_grouped("train", self._metrics),
            **_grouped("reward", rewards),
            **_grouped("length", {"mean": progress.mean_length}),
            **_grouped("success", {"rate": progress.success_rate}),
            **_grouped("run", {"epsilon": epsilon}),
            **self._health(),
            "run/steps_per_second": progress.steps_per_second,
            "run/games": progress.episode_count,
        }

    def _health(self) -> dict[str, float]:
        return {
            **_grouped("share", self.profile.shares),
            **_grouped("policy_lag", self._progress.policy_lag),
            **_grouped("lost", self.failures),
        }


def _grouped(group: str, values: Mapping[str, float | None]) -> dict[str, float]:
    """Return the values that are not None, under the names `group/name`."""
    return {f"{group}/{k}": value for k, value in values.items() if value is not None}
