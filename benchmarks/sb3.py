"""The same works on Stable-Baselines3; imported only where it is to run.

Networks are its own default ones: NatureCNN as ours, and for vectors two stacks of
64-64 where ours share one, which costs it about a tenth of its speed.
"""

import time
from typing import Any

import torch
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_atari_env, make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecFrameStack

from benchmarks.works import Work
from xagents_ray.algorithms.ppo import PPOConfig
from xagents_ray.algorithms.table import find
from xagents_ray.settings.config import Config
from xagents_ray.settings.training import EnvConfig


def run(work: Work, steps: int, vec: str, threads: int | None) -> float:
    """Train and return the env steps a second after the first learning phase.

    Args:
        work: what to train.
        steps: env steps to learn from.
        vec: `dummy` or `subproc`, how Atari environments are stepped.
        threads: of PyTorch; None for its default.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    config = Config.of(find("ppo").config, {**work.settings, "max_steps": steps})
    assert isinstance(config.algorithm, PPOConfig)
    envs = _envs(config.env, vec)
    policy = "CnnPolicy" if config.env.preprocess else "MlpPolicy"
    model = PPO(policy, envs, device="cpu", **_settings(config.algorithm, envs))
    learn, ends = model.train, []

    def timed() -> None:
        learn()
        ends.append((model.num_timesteps, time.perf_counter()))

    model.train = timed
    model.learn(steps)
    envs.close()
    (first, began), (last, ended) = ends[0], ends[-1]
    return float((last - first) / (ended - began))


def _envs(config: EnvConfig, vec: str) -> Any:
    if not config.preprocess:
        return make_vec_env(config.env, config.n_envs)
    kind = {"dummy": DummyVecEnv, "subproc": SubprocVecEnv}[vec]
    # The prefix registers the ids, in worker processes too.
    env_id = f"ale_py:{config.env}"
    envs = make_atari_env(env_id, config.n_envs, vec_env_cls=kind)
    return VecFrameStack(envs, config.frame_stack)


def _settings(c: PPOConfig, envs: Any) -> dict[str, Any]:
    """Return our hyperparameters by their names there."""
    return {
        "learning_rate": c.lr,
        "n_steps": c.n_steps,
        "batch_size": c.n_steps * envs.num_envs // c.mini_batches,
        "n_epochs": c.ppo_epochs,
        "gamma": c.gamma,
        "gae_lambda": c.lam,
        "clip_range": c.clip_norm,
        "clip_range_vf": _value_clip(c),
        "ent_coef": c.entropy_coef,
        "vf_coef": c.value_loss_coef,
        "max_grad_norm": c.grad_norm,
    }


def _value_clip(c: PPOConfig) -> float | None:
    """Return the clipping of the value's change; None for none."""
    return c.clip_norm if c.clip_value is None else c.clip_value or None
