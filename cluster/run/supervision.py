"""What a run on Ray tells its observers: failures, warnings and metrics."""

import importlib
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from xagents_ray.cluster.ray.calls import FailureLog
from xagents_ray.cluster.run.last_snapshot import LastSnapshot
from xagents_ray.cluster.run.rollout_scheduler import RolloutScheduler

_PUBLISH_SECONDS = 2.0


class RaySupervision:
    """Reports the failures of a run's components, and publishes its metrics.

    Metrics are Ray gauges `xagents_ray_<name>`, which Prometheus reads from each node.

    Args:
        agent: name of the run's agent; a label of every gauge.
        log: the log of failures.
        fleet: the scheduler whose actors' weights versions are published.
        snapshot: the learner's last snapshot, whose age is in the summary.
    Attributes:
        fleet: the scheduler, which the driver replaces when env actors come and go.
    """

    def __init__(
        self,
        agent: str,
        log: FailureLog,
        fleet: RolloutScheduler,
        snapshot: LastSnapshot,
    ) -> None:
        self._agent, self.fleet, self._snapshot = agent, fleet, snapshot
        self.failures, self.take_warnings = log.counts, log.take_warnings
        self.take_printed = log.printed.take
        self._log = log
        self._gauge = importlib.import_module("ray.util.metrics").Gauge
        self._gauges: dict[str, Any] = {}
        self._published = -math.inf

    def when_waiting(self, show: Callable[[], None]) -> None:
        self._log.show = show

    def summary(self) -> dict[str, float]:
        """Return the values for `summary.json`."""
        return {"snapshot_age": round(self._snapshot.age, 3)}

    def publish(self, metrics: Mapping[str, float]) -> None:
        """Set all gauges, including each env actor's weights version.

        Args:
            metrics: metrics by name, at most every two seconds; `share/acting` is the
                gauge `share` with the label `of="acting"`.
        """
        now = time.monotonic()
        if now - self._published < _PUBLISH_SECONDS:
            return
        self._published = now
        versions = enumerate(self.fleet.versions)
        actors = {f"weights_version/actor {n}": version for n, version in versions}
        for name, number in {**metrics, **actors}.items():
            group, _, label = name.partition("/")
            if group not in self._gauges:
                self._gauges[group] = self._gauge(
                    f"xagents_ray_{group}",
                    description=f"{group} of a run of xagents-ray",
                    tag_keys=("agent", "of"),
                )
            tags = {"agent": self._agent, "of": label or group}
            self._gauges[group].set(float(number), tags=tags)
