"""Tune two settings, then train the best on seeds that the sweep didn't use.

Prints the best settings, what they reached in the sweep, and what they reach again; the
best of many trials was lucky too.
"""

import xagents_ray
from xagents_ray import categorical, log_uniform

sweep = xagents_ray.tune(
    "ppo",
    env="CartPole-v1",
    preset=True,
    local=True,
    n_trials=12,
    n_jobs=2,
    trial_steps=20_000,
    lr=log_uniform(1e-4, 1e-2),
    n_steps=categorical(32, 64, 128),
)
print(f"lr {sweep.best['lr']:.2g}, n_steps {sweep.best['n_steps']}")
settings = dict(sweep.best, max_steps=20_000)
again = xagents_ray.train("ppo", **settings, seeds=[11, 12], quiet=True)
print(f"{sweep.best_reward:.1f} in the sweep, {again.mean:.1f} on other seeds")
