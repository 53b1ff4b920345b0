"""Write the files beside this script: a short run of each algorithm and its weights.

They were written by commit 3442e51, whose files have format 1. Later versions must
resume and load them, so they are never made again by a newer commit:

    git worktree add OLD 3442e51  # with an environment of its own
    cp make.py OLD && cd OLD && .venv/bin/python make.py EMPTY_FOLDER
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np

import xagents_ray
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.policy.loading import load_policy
from xagents_ray.run import weights_formats as formats
from xagents_ray.storage.weights import write_file

HIDDEN = "[dense-0]\nunits=4\nactivation=relu\n"
TWO_HEADS = f"{HIDDEN}common=1\n\n[dense-1]\noutput=1\n\n[dense-2]\noutput=1\n"
ONE_HEAD = f"{HIDDEN}\n[dense-1]\noutput=1\n"
TANH_HEAD = f"{HIDDEN}\n[dense-1]\nactivation=tanh\noutput=1\n"
EVERY = {
    "local": True,
    "seed": 7,
    "n_envs": 2,
    "max_steps": 420,
    "run_dir": "trained",
    "name": "before",
    "tensorboard": False,
    "reward_buffer_size": 1,
    "quiet": True,
    "keep_checkpoints": 1,
}
REPLAY = {
    "buffer_initial_size": 100,
    "buffer_max_size": 128,
    "buffer_batch_size": 8,
    "checkpoint_replay": True,
}
ACTOR_AND_CRITIC = {"actor_model": "actor.cfg", "critic_model": "critic.cfg"}
RUNS: dict[str, dict[str, Any]] = {
    "a2c": {"env": "CartPole-v1", "model": "two.cfg", "optimizer": "rmsprop"},
    "a3c": {"env": "CartPole-v1", "model": "two.keras"},
    "acer": {
        "env": "CartPole-v1",
        "model": "two.cfg",
        "buffer_initial_size": 4,
        "buffer_max_size": 8,
        "checkpoint_replay": True,
    },
    "ddpg": {"env": "Pendulum-v1", "noise": "ou", **ACTOR_AND_CRITIC, **REPLAY},
    "dqn": {"env": "CartPole-v1", "model": "q.cfg", "prioritized": True, **REPLAY},
    "impala": {
        "env": "CartPole-v1",
        "model": "two.cfg",
        "replay_ratio": 1.0,
        "buffer_initial_size": 4,
        "buffer_max_size": 8,
        "checkpoint_replay": True,
    },
    "ppo": {
        "env": "Pendulum-v1",
        "model": "two.cfg",
        "normalize_observations": True,
        "normalize_rewards": True,
    },
    "sac": {
        "env": "Pendulum-v1",
        "actor_model": "two.cfg",
        "critic_model": "critic.cfg",
        "normalize_observations": True,
        **REPLAY,
    },
    "td3": {"env": "Pendulum-v1", **ACTOR_AND_CRITIC, **REPLAY},
    "trpo": {
        "env": "Pendulum-v1",
        "n_steps": 64,
        "actor_model": "critic.cfg",
        "critic_model": "critic.cfg",
    },
}


def write_networks() -> None:
    """Write the networks' files to the working directory."""
    Path("two.cfg").write_text(TWO_HEADS)
    Path("q.cfg").write_text(ONE_HEAD)
    Path("critic.cfg").write_text(ONE_HEAD)
    Path("actor.cfg").write_text(TANH_HEAD)
    x = keras.Input((4,))
    h = keras.layers.Dense(4, activation="relu")(x)
    heads = [keras.layers.Dense(2)(h), keras.layers.Dense(1)(h)]
    keras.Model(x, heads).save("two.keras")


def write_policy(agent: str, run: str) -> list[Any]:
    """Write the policy of a run in each format; return its actions."""
    algorithm = find_algorithm(agent)
    trained = load_policy(algorithm, {"run": run, "which": "last"})
    for ending in (".npz", ".tf", ".weights.h5"):
        path = f"policies/{agent}{ending}"
        write_file(
            formats.encode_weights(trained.weights.arrays, trained.run.layout, path)
        )
    policy = xagents_ray.load(run, which="last")
    shape = (8, *policy.observation_space.shape)
    observations = np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32)
    return policy.act(observations.reshape(shape)).tolist()


def main(folder: Path) -> None:
    """Train each algorithm in a folder, so that all stored paths are relative to it."""
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    sys.argv = ["make.py"]  # which run.json has
    write_networks()
    actions = {}
    for agent, settings in RUNS.items():
        config = find_algorithm(agent).config.of(settings)
        models = find_algorithm(agent).adapted(config).models
        names = [f"weights/{agent}-{model.name}.npz" for model in models]
        xagents_ray.train(agent, **EVERY, **settings, checkpoints=names)
        run = f"trained/{agent}/{settings['env']}/before"
        actions[agent] = write_policy(agent, run)
    Path("actions.json").write_text(json.dumps(actions, indent=1))
    own_files = *Path().glob("*.cfg"), *Path().glob("*.keras")
    for path in (*own_files, *Path().rglob(".lock")):
        path.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
