"""Learn CartPole in a loop of your own: act, step, observe, learn.

Prints the mean return of the newest ten episodes every 512 steps, then the policy's.
"""

import gymnasium as gym

import xagents_ray

agent = xagents_ray.Agent(
    "ppo", env="CartPole-v1", n_steps=512, ppo_epochs=10, lr=1e-3, seed=1
)
env = gym.make("CartPole-v1")
observation, info = env.reset(seed=1)
episode_return, returns = 0.0, []
for _ in range(30_000):
    action = agent.act(observation)
    observation, reward, terminated, truncated, info = env.step(action)
    agent.observe(observation, reward, terminated, truncated)
    metrics = agent.learn()  # empty but after every 512th step
    episode_return += float(reward)
    if terminated or truncated:
        returns.append(episode_return)
        episode_return, (observation, info) = 0.0, env.reset()
    if metrics:
        print(f"{agent.env_steps} steps: {sum(returns[-10:]) / 10:.1f}")
agent.policy.save("cartpole.npz")
print(agent.policy.evaluate(episodes=10, seed=1))
