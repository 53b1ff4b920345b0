"""Twin delayed deep deterministic policy gradient."""

from dataclasses import dataclass, replace

from xagents_ray.algorithms.off_policy import (
    DETERMINISTIC_MODELS,
    CriticsConfig,
    DeterministicConfig,
    with_critics,
)
from xagents_ray.algorithms.row import Algorithm, add
from xagents_ray.settings.options import coefficient, count


@dataclass(frozen=True, kw_only=True)
class TD3Config(DeterministicConfig, CriticsConfig):
    """Twin delayed DDPG, arXiv:1802.09477."""

    policy_noise_coef: float = coefficient(
        0.2, "Standard deviation of the noise added to target actions"
    )
    noise_clip: float = coefficient(0.5, "Target noise clipping value")
    policy_delay: int = count(
        2,
        "Delay after which, actor weights and target models will be updated",
        unit="updates",
        hp_type="categorical",
    )


add(
    Algorithm(
        name="td3",
        config=TD3Config,
        learner="xagents_ray.learners.td3:TD3",
        policy="xagents_ray.actors.policies.exploring:DeterministicPolicy",
        models=(
            *DETERMINISTIC_MODELS,
            replace(DETERMINISTIC_MODELS[1], name="critic-2"),
        ),
        on_policy=False,
        replay="xagents_ray.replay.transitions:TransitionReplay",
        discrete=False,
        adapt=with_critics,
    )
)
