"""Learning-rate reduction and early stopping when the mean reward stands still."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xagents_ray.settings.training import TrainingConfig


@dataclass
class Plateau:
    """Counts checks without a new best mean reward.

    Attributes:
        misses: checks without one since the newest reduction or new best.
        reduces: reductions since the newest new best.
        best: largest mean reward at a check.
        episodes: that had ended at the newest check.
    """

    misses: int = 0
    reduces: int = 0
    best: float | None = None
    episodes: int = 0

    def check(
        self, config: TrainingConfig, env_steps: int, mean_reward: float
    ) -> str | None:
        """Return `reduce` when the learning rate is due, `stop` when the run is."""
        if self.best is None or mean_reward > self.best:
            self.best, self.misses, self.reduces = mean_reward, 0, 0
            return None
        begins = config.divergence_monitoring_steps
        if begins is None or env_steps < begins:
            return None
        self.misses += 1
        if self.misses < config.plateau_reduce_patience:
            return None
        self.misses = 0
        self.reduces += 1
        return "stop" if self.reduces >= config.early_stop_patience else "reduce"

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint holds of it, as JSON."""
        counts = {"misses": self.misses, "reduces": self.reduces, "best": self.best}
        return {**counts, "games": self.episodes}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state` returned."""
        self.misses, self.reduces = int(state["misses"]), int(state["reduces"])
        self.episodes = int(state["games"])
        self.best = None if state["best"] is None else float(state["best"])
