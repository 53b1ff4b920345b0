"""Soft actor-critic."""

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

from xagents_ray.algorithms.off_policy import (
    CriticsConfig,
    critic_of_actions,
    with_critics,
)
from xagents_ray.algorithms.row import Algorithm, Model, add
from xagents_ray.algorithms.state_dependent import StateDependentConfig
from xagents_ray.core.errors import UserError
from xagents_ray.networks.layout import Layout
from xagents_ray.settings.options import changed, option

AUTO = "auto"
"""Value of `--alpha` that is learned."""
LOG_STD_BOUNDS = -20.0, 2.0
"""Of the actor's second output; the code of the paper's authors clips it so."""
_CRITIC = critic_of_actions("sac-critic-{kind}.cfg")


def _text(value: Any) -> Any:
    """Return a number as the text that a config holds; other values as they are."""
    return str(value) if isinstance(value, Real) else value


@dataclass(frozen=True, kw_only=True)
class SACConfig(StateDependentConfig, CriticsConfig):
    """Soft actor-critic, arXiv:1812.05905."""

    lr: float = changed(CriticsConfig, "lr", 3e-4)
    buffer_max_size: int = changed(CriticsConfig, "buffer_max_size", 1_000_000)
    buffer_initial_size: int | None = changed(
        CriticsConfig,
        "buffer_initial_size",
        1_000,
        help="Replay buffer size at which learning starts",
    )
    buffer_batch_size: int = changed(CriticsConfig, "buffer_batch_size", 256)
    init_log_std: float = changed(
        StateDependentConfig,
        "init_log_std",
        -3.0,
        help="Logarithm of the standard deviation that the numbers in the matrices of "
        "--sde-frequency start with; it is learned from then on",
    )
    alpha: str = option(
        AUTO,
        "Entropy coefficient, or auto: it starts at 1 and is learned, so that the "
        "policy's entropy meets --target-entropy",
        takes="float",
        to_plain=_text,
        hp_type="categorical",
        known_as=("ent_coef", "entropy_coef", "temperature", "initial_alpha"),
    )
    target_entropy: float | None = option(
        None,
        "Entropy of actions, which span -1 to 1, that --alpha auto aims at; default: "
        "minus the number of an action's components",
        unit="nats",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.not_default("init_log_std") and not self.uses_sde:
            raise UserError(
                f"--init-log-std {self.init_log_std:g} is for state-dependent "
                "exploration: add --sde-frequency, or leave it out."
            )
        if self.alpha == AUTO:
            return
        if not 0 <= self.fixed_alpha < math.inf:
            raise UserError(
                f"--alpha takes auto or a number of 0 or more, got {self.alpha!r}."
            )
        if self.target_entropy is not None:
            raise UserError(
                f"--target-entropy is what --alpha auto aims at, and --alpha is "
                f"{self.alpha}: leave one of them out."
            )

    @property
    def fixed_alpha(self) -> float:
        """The entropy coefficient; NaN if it is learned."""
        with suppress(ValueError):
            return float(self.alpha)
        return math.nan


def _adapt(layout: Layout, config: SACConfig) -> Layout:
    return config.with_log_std(layout, config.actor_model, 1, learns_features=True)


add(
    Algorithm(
        name="sac",
        config=SACConfig,
        learner="xagents_ray.learners.sac:SAC",
        policy="xagents_ray.actors.policies.squashed:SquashedGaussianPolicy",
        models=(
            Model(
                "actor",
                "sac-actor-{kind}.cfg",
                ("actions", "actions"),
                "actor_model",
                adapt=_adapt,
            ),
            _CRITIC,
            replace(_CRITIC, name="critic-2"),
        ),
        on_policy=False,
        replay="xagents_ray.replay.transitions:TransitionReplay",
        discrete=False,
        adapt=with_critics,
    )
)
