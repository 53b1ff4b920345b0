"""What failures have cost a run, counted and reported."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class FailureLog:
    """Failures of a run's parts; every one is counted and reported.

    Attributes:
        counts: what failed, and what was lost with it, by name.
        warnings: sentences for the user, oldest first.
    """

    counts: Counter[str] = field(default_factory=Counter)
    warnings: list[str] = field(default_factory=list)

    def count(self, name: str, number: int = 1) -> None:
        """Count something that failed or was lost; a number of 0 leaves no entry."""
        if number:
            self.counts[name] += number

    def warn(self, sentence: str) -> None:
        """Report something to the user."""
        self.warnings.append(sentence)

    def take_warnings(self) -> list[str]:
        """Return the sentences that have not been taken yet."""
        taken, self.warnings = self.warnings, []
        return taken
