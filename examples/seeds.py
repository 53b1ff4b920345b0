"""Compare two agents on several seeds, since one run says little about an algorithm.

Prints each agent's interquartile mean with its 95 % interval, and draws ppo.png and
a2c.png.
"""

import xagents_ray

for agent in ("ppo", "a2c"):
    result = xagents_ray.train(
        agent,
        env="CartPole-v1",
        preset=True,
        max_steps=100_000,
        seeds=[1, 2, 3],
        local=True,
        quiet=True,
    )
    low, high = result.iqm_interval
    print(f"{agent}: {result.iqm:.1f} [{low:.1f}, {high:.1f}]")
    xagents_ray.plot_seeds(result.directory, env=agent, output=f"{agent}.png")
