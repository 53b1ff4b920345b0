"""The gate's rule: five scores of a preset beside those of recorded runs."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Literal

import numpy as np

from xagents_ray.tuning.scores import interquartile_mean

RUNS = 30
"""Recorded runs that a preset needs to be judged."""
SEEDS = 5
"""Seeds of a preset in the gate."""
FIRST_DRAWN, N_DRAWN = 10_000, 90_000
"""Smallest seed that a commit's hash can give, and the number of such seeds."""
_QUANTILE = 0.005
_RESAMPLES = 20_000


def lower_bound(scores: Sequence[float]) -> float:
    """Return the 0.5 % quantile of IQMs of five scores drawn with replacement.

    The generator is fixed, so that the same scores have the same bound.
    """
    generator = np.random.default_rng(0)
    drawn = generator.integers(len(scores), size=(SEEDS, _RESAMPLES))
    means = interquartile_mean(np.array(scores, np.float64)[drawn])
    return float(np.quantile(means, _QUANTILE))


def drawn_seeds(commit: str) -> tuple[int, ...]:
    """Return five distinct seeds that depend on a commit's hash only.

    Nothing is chosen or recorded on them, as other seeds are below 10,000.
    """
    drawn: dict[int, None] = {}
    for n in count():
        digest = hashlib.sha256(f"{commit} {n}".encode()).digest()
        drawn[FIRST_DRAWN + int.from_bytes(digest[:8], "big") % N_DRAWN] = None
        if len(drawn) == SEEDS:
            break
    return tuple(drawn)


@dataclass(frozen=True)
class Verdict:
    """Whether a preset still learns what it did.

    Attributes:
        preset: name of the preset.
        outcome: green or red; not judged with too few recorded runs; stale if the
            preset's settings differ from those of its recorded runs.
        reason: why it was not judged, or why the training failed.
        iqm: IQM of the seeds' scores; None without a training.
        bound: smallest IQM that passes; None if not judged.
        scores: score of each seed.
    """

    preset: str
    outcome: Literal["green", "red", "not judged", "stale"]
    reason: str = ""
    iqm: float | None = None
    bound: float | None = None
    scores: Mapping[int, float] = field(default_factory=dict)

    @property
    def is_failure(self) -> bool:
        return self.outcome in ("red", "stale")

    def line(self) -> str:
        """Return the verdict in a line."""
        parts = [self.reason] if self.reason else []
        if self.iqm is not None:
            parts.append(f"IQM {self.iqm:.2f}")
        if self.bound is not None:
            parts.append(f"bound {self.bound:.2f}")
        if self.scores:
            parts.append(f"seeds {' '.join(map(str, self.scores))}")
        return f"{self.preset}: {self.outcome}: {', '.join(parts)}"


def compare(preset: str, scores: Mapping[int, float], bound: float) -> Verdict:
    """Return the verdict on a preset's scores by seed."""
    iqm = float(interquartile_mean(np.array([*scores.values()], np.float64)))
    outcome: Literal["green", "red"] = "green" if iqm >= bound else "red"
    return Verdict(preset, outcome, iqm=iqm, bound=bound, scores=scores)
