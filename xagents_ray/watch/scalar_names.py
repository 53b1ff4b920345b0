"""Names of the scalars that TensorBoard shows: our own, or Stable-Baselines3's."""

from collections.abc import Mapping

_Renamed = Mapping[str, tuple[str, float]]
"""Names in Stable-Baselines3 and factors that convert values, by our own names."""

_SHARED: _Renamed = {
    "reward/mean": ("rollout/ep_rew_mean", 1),
    "length/mean": ("rollout/ep_len_mean", 1),
    "success/rate": ("rollout/success_rate", 1),
    "run/epsilon": ("rollout/exploration_rate", 1),
    "reward/evaluation": ("eval/mean_reward", 1),
    "length/evaluation": ("eval/mean_ep_length", 1),
    "success/evaluation": ("eval/success_rate", 1),
    "run/steps_per_second": ("time/fps", 1),
    "train/entropy": ("train/entropy_loss", -1),
    "train/approximate_kl": ("train/approx_kl", 1),
    "train/clip_norm": ("train/clip_range", 1),
    "train/alpha": ("train/ent_coef", 1),
}
_CRITICS: _Renamed = {
    "train/policy_loss": ("train/actor_loss", 1),
    "train/value_loss": ("train/critic_loss", 1),
}
_OF_AGENT: Mapping[str, _Renamed] = {
    "ppo": {
        "train/policy_loss": ("train/policy_gradient_loss", 1),
        "train/value_loss": ("train/value_loss", 2),  # ours is half the squared error
    },
    "trpo": {"train/kl": ("train/kl_divergence_loss", 1)},
    "ddpg": _CRITICS,
    "td3": _CRITICS,
    "sac": {
        **_CRITICS,
        "train/value_loss": ("train/critic_loss", 0.5),  # theirs is half of ours
        "train/entropy": ("train/entropy", 1),  # they have none
    },
}


def sb3_scalars(agent: str, values: Mapping[str, float]) -> dict[str, float]:
    """Return scalars under the names, and with the signs, of Stable-Baselines3.

    Those that it has no name for keep their own.

    Args:
        agent: name of the agent, such as `ppo`.
        values: scalars by our own names, such as `train/entropy`.
    """
    table = {**_SHARED, **_OF_AGENT.get(agent, {})}
    renamed = {}
    for name, value in values.items():
        theirs, factor = table.get(name, (name, 1))
        renamed[theirs] = factor * value
    return renamed
