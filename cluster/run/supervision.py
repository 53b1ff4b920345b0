"""What the training loop asks of the parts' supervision on Ray."""

import importlib
import time
from collections.abc import Mapping
from typing import Any

from xagents_ray.cluster.ray.calls import FailureLog
from xagents_ray.cluster.run.fleet import Fleet

_SECONDS = 2.0
_PREFIX = "xagents_ray_"


class Supervision:
    """Reports the failures of a run's parts, and publishes its metrics.

    They are Ray's gauges `xagents_ray_<name>`, which Prometheus reads from every node.

    Args:
        agent: of the run; a label of every gauge.
        log: where the parts count and report their failures.
        fleet: its actors' weights versions are published.
    """

    def __init__(self, agent: str, log: FailureLog, fleet: Fleet) -> None:
        self._agent, self._fleet = agent, fleet
        self.failures, self.take_warnings = log.counts, log.take_warnings
        self._gauge = importlib.import_module("ray.util.metrics").Gauge
        self._gauges: dict[str, Any] = {}
        self._published = 0.0

    def publish(self, metrics: Mapping[str, float]) -> None:
        """Set all gauges, the weights version of each env actor too.

        Args:
            metrics: by name, at most every two seconds; `share/acting` is the gauge
                `share` with the label `of="acting"`.
        """
        now = time.monotonic()
        if now - self._published < _SECONDS:
            return
        self._published = now
        versions = enumerate(self._fleet.versions)
        actors = {f"weights_version/actor {n}": version for n, version in versions}
        for name, number in {**metrics, **actors}.items():
            group, _, label = name.partition("/")
            if group not in self._gauges:
                self._gauges[group] = self._gauge(
                    _PREFIX + group,
                    description=f"{group} of a run of xagents-ray",
                    tag_keys=("agent", "of"),
                )
            tags = {"agent": self._agent, "of": label or group}
            self._gauges[group].set(float(number), tags=tags)
