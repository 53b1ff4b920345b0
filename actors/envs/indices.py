"""Which index each environment gets, so that all that are open have different ones.

A run with n environments has 0 to n - 1 for training, n to 2n - 1 for evaluations, 2n
for the film at its end, and one from 2n + 1 on for each replay that relabels goals.
Environments that users step themselves come after those of a run.
"""

import itertools

from xagents_ray.settings.training import EnvConfig

_own = itertools.count()


def first_evaluation_index(config: EnvConfig) -> int:
    """Return the index of the first environment that evaluates during a run."""
    return config.n_envs


def film_index(config: EnvConfig) -> int:
    """Return the index of the environment that is filmed at the end of a run."""
    return 2 * config.n_envs


def goal_rewards_index(config: EnvConfig, shard: int = 0) -> int:
    """Return the index of the environment whose rewards a replay shard computes."""
    return 2 * config.n_envs + 1 + shard


def next_own_index(config: EnvConfig) -> int:
    """Return the index of another environment that the user of this process steps."""
    return 3 * config.n_envs + 1 + next(_own)
