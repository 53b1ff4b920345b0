"""Train SAC on continuous actions, and use the policy in a loop of your own.

Prints the return of ten episodes, near -150 each; the policy is kept in pendulum.npz.
"""

import xagents_ray

result = xagents_ray.train(
    "sac", env="Pendulum-v1", preset=True, max_steps=20_000, local=True
)
policy = xagents_ray.load(result.directory)  # from here on without TensorFlow
policy.save("pendulum.npz")

env = policy.make_env()
for seed in range(10):
    observation, info = env.reset(seed=seed)
    episode_return, is_over = 0.0, False
    while not is_over:
        action, _ = policy.predict(observation)
        observation, reward, terminated, truncated, info = env.step(action)
        episode_return += float(reward)
        is_over = terminated or truncated
    print(f"episode {seed}: {episode_return:.1f}")
