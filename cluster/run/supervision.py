"""What the training loop asks of the parts' supervision on Ray."""

from collections import Counter
from collections.abc import Mapping

from xagents_ray.cluster.ray.failures import FailureLog
from xagents_ray.cluster.run.fleet import Fleet
from xagents_ray.cluster.run.metrics import Metrics


class Supervision:
    """Reports the failures of a run's parts, and publishes its metrics.

    Args:
        agent: of the run.
        log: where the parts count and report their failures.
        fleet: its actors' weights versions are published.
    """

    def __init__(self, agent: str, log: FailureLog, fleet: Fleet) -> None:
        self._log, self._fleet, self._metrics = log, fleet, Metrics(agent)

    @property
    def failures(self) -> Counter[str]:
        """What failures and the bound on lag have cost, by name."""
        return self._log.counts

    def take_warnings(self) -> list[str]:
        """Return what has failed since the last call, one sentence each."""
        return self._log.take_warnings()

    def publish(self, metrics: Mapping[str, float]) -> None:
        """Set Ray's gauges, the weights version of each env actor too."""
        self._metrics.publish(metrics, self._fleet.versions)
