"""Settings of prioritized replay."""

from dataclasses import dataclass

from xagents_ray.core.errors import UserError
from xagents_ray.settings.algorithm import ReplayConfig
from xagents_ray.settings.options import flag, fraction, option


@dataclass(frozen=True, kw_only=True)
class PrioritizedConfig(ReplayConfig):
    """Settings of algorithms that may sample by priority, arXiv:1511.05952."""

    prioritized: bool = option(
        False,
        "If specified, transitions are sampled in proportion to a power of their last "
        "errors, and their losses weighted to correct for that",
        known_as=("prioritized_replay", "per", "use_per"),
    )
    priority_alpha: float = fraction(
        0.6,
        "Power of a transition's error in its priority; 0 samples uniformly",
        known_as=("prioritized_replay_alpha", "per_alpha"),
    )
    priority_beta: float = fraction(
        0.4,
        "Power of the weights that correct for --prioritized; rises to 1 over "
        "--max-steps, if given",
        known_as=("prioritized_replay_beta", "per_beta"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        unused = self.not_default("priority_alpha", "priority_beta")
        if unused and not self.prioritized:
            raise UserError(
                f"{flag(unused[0])} {getattr(self, unused[0])} is for prioritized "
                "replay: add --prioritized, or leave it out."
            )

    @property
    def takes_errors(self) -> bool:
        """Whether errors of sampled transitions go back to the replay."""
        return self.prioritized

    @property
    def replay_alpha(self) -> float | None:
        """Power of errors in priorities; None where all transitions are alike."""
        return self.priority_alpha if self.prioritized else None
