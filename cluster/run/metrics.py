"""A run's numbers as Ray metrics, which Prometheus reads from every node."""

import importlib
import time
from collections.abc import Mapping, Sequence
from typing import Any

_SECONDS = 2.0
_PREFIX = "xagents_ray_"


class Metrics:
    """Gauges of one run, `xagents_ray_<name>`.

    Args:
        agent: of the run; a label of every gauge.
    """

    def __init__(self, agent: str) -> None:
        self._agent = agent
        self._gauge = importlib.import_module("ray.util.metrics").Gauge
        self._gauges: dict[str, Any] = {}
        self._published = 0.0

    def publish(self, numbers: Mapping[str, float], versions: Sequence[int]) -> None:
        """Set all gauges, at most every two seconds.

        Args:
            numbers: by name; `share/acting` is the gauge `share` with the label
                `of="acting"`.
            versions: of the weights of each env actor.
        """
        now = time.monotonic()
        if now - self._published < _SECONDS:
            return
        self._published = now
        actors = {f"weights_version/actor {n}": v for n, v in enumerate(versions)}
        for name, number in {**numbers, **actors}.items():
            group, _, label = name.partition("/")
            if group not in self._gauges:
                self._gauges[group] = self._gauge(
                    _PREFIX + group,
                    description=f"{group} of a run of xagents-ray",
                    tag_keys=("agent", "of"),
                )
            tags = {"agent": self._agent, "of": label or group}
            self._gauges[group].set(float(number), tags=tags)
