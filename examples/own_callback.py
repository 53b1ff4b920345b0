"""Watch a run with code of your own: record a metric, and decide when to stop.

Prints why the run ended, and draws the policy's entropy, which falls as it grows surer.
"""

import xagents_ray


class Watch(xagents_ray.Callback):
    """Records the entropy, and ends the run at ten perfect episodes in a row."""

    def on_start(self, ctx):
        """Begin to count."""
        self.perfect = 0

    def on_update(self, ctx, metrics):
        """Add a column to the history, and a curve to TensorBoard."""
        ctx.log("entropy", metrics["entropy"])

    def on_episode(self, ctx, episode):
        """Return False to end the run."""
        self.perfect = self.perfect + 1 if episode.episode_return == 500 else 0
        return self.perfect < 10


result = xagents_ray.train(
    "ppo",
    env="CartPole-v1",
    preset=True,
    callbacks=[Watch()],
    max_steps=100_000,
    local=True,
)
print(f"{result.reason}; the last mean is {result.mean_reward:.1f}")
xagents_ray.plot(result.directory, plot="entropy", output="entropy.png")
