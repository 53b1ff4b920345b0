"""What agents learn with other inputs, or with actions computed elsewhere."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import click

import xagents_ray
from benchmarks.learning import evaluate_from_same_starts, seeds_option
from benchmarks.provenance import clean_commit, resolved_settings
from benchmarks.report import markdown, ran_on, write
from benchmarks.works import Settings
from xagents_ray.algorithms.presets import AUTO_PRESET

_ENVS = "benchmarks.partly_seen"
_PLACES: Mapping[str, Settings] = {
    "local": {},
    "the env actor acts": {"local": False, "n_actors": 1, "inference": "actor"},
    "the learner acts": {"local": False, "n_actors": 1, "inference": "learner"},
}
_COMPASS: Settings = {
    "env": f"{_ENVS}:Compass",
    "n_envs": 16,
    "n_steps": 64,
    "mini_batches": 4,
    "ppo_epochs": 4,
    "gamma": 0.9,
    "lam": 0.9,
    "lr": 0.001,
    "entropy_coef": 0.01,
    "max_steps": 200_000,
}


@dataclass(frozen=True)
class Pair:
    """A training in variants that differ in what the network reads, or where it acts.

    Attributes:
        title: title in the table.
        agent: name of the agent.
        shared: settings of all variants.
        variants: further settings by title of the variant.
    """

    title: str
    agent: str
    shared: Settings
    variants: Mapping[str, Settings]


PAIRS = {
    "velocities": Pair(
        "CartPole-v1 without velocities",
        "ppo",
        {
            "env": "CartPole-v1",
            "wrappers": [f"{_ENVS}:WithoutVelocities"],
            "n_envs": 8,
            "n_steps": 32,
            "mini_batches": 1,
            "ppo_epochs": 20,
            "gamma": 0.98,
            "lam": 0.8,
            "lr": 0.001,
            "lr_decay": True,
            "entropy_coef": 0.0,
            "normalize_observations": True,
            "max_steps": 300_000,
        },
        {"LSTM of 64": {"memory": "lstm:64"}, "no memory": {}},
    ),
    "pendulum": Pair(
        "Pendulum-v1 without the velocity",
        "ppo",
        {
            "env": "Pendulum-v1",
            "wrappers": [f"{_ENVS}:WithoutVelocities"],
            "n_envs": 16,
            "n_steps": 64,
            "mini_batches": 8,
            "ppo_epochs": 10,
            "gamma": 0.9,
            "lam": 0.95,
            "lr": 0.001,
            "lr_decay": True,
            "clip_norm": 0.2,
            "clip_value": 0,
            "entropy_coef": 0.0,
            "normalize_rewards": True,
            "max_steps": 100_000,
        },
        {"LSTM of 64": {"memory": "lstm:64"}, "no memory": {}},
    ),
    "mountain-car": Pair(
        "MountainCarContinuous-v0 without the velocity",
        "ppo",
        {
            "env": "MountainCarContinuous-v0",
            "wrappers": [f"{_ENVS}:WithoutVelocities"],
            "n_envs": 8,
            "n_steps": 128,
            "mini_batches": 4,
            "ppo_epochs": 10,
            "gamma": 0.99,
            "lam": 0.95,
            "lr": 7.77e-5,
            "clip_norm": 0.1,
            "clip_value": 0,
            "entropy_coef": 0.00429,
            "value_loss_coef": 0.19,
            "grad_norm": 5.0,
            "sde_frequency": 8,
            "normalize_observations": True,
            "normalize_rewards": True,
            "max_steps": 300_000,
        },
        {"LSTM of 64": {"memory": "lstm:64"}, "no memory": {}},
    ),
    "maze": Pair(
        "T-maze of 20 steps",
        "ppo",
        {
            "env": f"{_ENVS}:TMaze",
            "n_envs": 16,
            "n_steps": 126,
            "mini_batches": 4,
            "ppo_epochs": 6,
            "gamma": 0.99,
            "lam": 1.0,
            "lr": 0.002,
            "entropy_coef": 0.02,
            "max_steps": 120_000,
        },
        {"GRU of 64": {"memory": "gru:64"}, "no memory": {}},
    ),
    "masks": Pair(
        "20 locks, 360 of 400 keys do not fit",
        "ppo",
        {
            "env": f"{_ENVS}:Combination",
            "n_envs": 8,
            "n_steps": 64,
            "mini_batches": 4,
            "ppo_epochs": 6,
            "gamma": 0.5,
            "lam": 0.9,
            "lr": 0.003,
            "entropy_coef": 0.02,
            "target_reward": 19.0,
            "reward_buffer_size": 20,
            "max_steps": 400_000,
        },
        {"masks": {}, "no masks": {"action_masks": False}},
    ),
    "compass": Pair(
        "Grid with a map and a compass",
        "ppo",
        _COMPASS,
        {
            "both": {},
            "map only": {"env_kwargs": {"shown": "map"}},
            "compass only": {"env_kwargs": {"shown": "compass"}},
        },
    ),
    "critic": Pair(
        "Pendulum-v1, noisy observations",
        "ppo",
        {
            "env": "Pendulum-v1",
            "n_envs": 16,
            "n_steps": 256,
            "mini_batches": 64,
            "ppo_epochs": 10,
            "gamma": 0.95,
            "lr": 0.001,
            "clip_norm": 0.2,
            "clip_value": 0,
            "entropy_coef": 0.0,
            "normalize_rewards": True,
            "target_reward": -200.0,
            "max_steps": 500_000,
        },
        {
            "critic sees the state": {
                "wrappers": [f"{_ENVS}:NoisyState"],
                "critic_inputs": "state",
            },
            "critic sees the noise": {"wrappers": [f"{_ENVS}:NoisyOnly"]},
        },
    ),
    "places": Pair(
        "CartPole-v1", "ppo", {"env": "CartPole-v1", "preset": AUTO_PRESET}, _PLACES
    ),
    "places-images": Pair("Grid with a map and a compass", "ppo", _COMPASS, _PLACES),
}
"""All settings were chosen on seeds 101 to 109, and 161 to 164."""


@dataclass(frozen=True)
class Bench:
    """Trains the pairs, and evaluates the final weights greedily.

    Attributes:
        seeds: seeds to train with.
        episodes: number of greedy episodes per seed.
        run_dir: directory of the runs.
        file: takes the results as JSON after each variant.
    """

    seeds: Sequence[int]
    episodes: int
    run_dir: Path
    file: Path

    def measure(self, names: Sequence[str]) -> list[list[str]]:
        """Train all variants of the pairs; return the table's rows."""
        facts = {"date": time.strftime("%Y-%m-%d"), "commit": clean_commit()}
        done: dict[str, Any] = {"seeds": [*self.seeds], **facts, **ran_on()}
        write(self.file, done)  # before hours of training, in case it can't be
        rows = [["environment", "agent and variant", "greedy means", "env steps"]]
        for name in names:
            pair = PAIRS[name]
            for variant, own in pair.variants.items():
                settings = {"local": True, **pair.shared, **own}
                runs = [self._run(pair.agent, settings, seed) for seed in self.seeds]
                resolved = resolved_settings(pair.agent, settings)
                done[f"{name}: {variant}"] = {"runs": runs, "settings": resolved}
                write(self.file, done)
                rows.append(_row(pair, variant, runs))
                click.echo(" | ".join(rows[-1]))
        return rows

    def _run(self, agent: str, settings: Settings, seed: int) -> dict[str, float]:
        """Return the greedy mean, and the env steps that the training took."""
        train: Any = xagents_ray.train
        result = train(
            agent,
            **settings,
            run_dir=str(self.run_dir),
            quiet=True,
            seed=seed,
        )
        policy = xagents_ray.load(result.directory, which="last")
        found = evaluate_from_same_starts(policy, self.episodes)
        return {"mean": found.mean, "env_steps": result.env_steps}


def _row(pair: Pair, variant: str, runs: Sequence[Mapping[str, float]]) -> list[str]:
    means = " · ".join(f"{each['mean']:.2f}" for each in runs)
    steps = " · ".join(f"{each['env_steps']:,}" for each in runs)
    mean = fmean(each["env_steps"] for each in runs)
    return [pair.title, f"{pair.agent}, {variant}", means, f"{steps} ({mean:,.0f})"]


@click.command()
@click.option(
    "--pair",
    "names",
    type=click.Choice(list(PAIRS)),
    multiple=True,
    help="What to train; repeatable. Default: all.",
)
@seeds_option("721-723")
@click.option(
    "--episodes",
    type=click.IntRange(min=1),
    default=200,
    show_default=True,
    help="Greedy episodes with each seed's final weights, from the same start states.",
)
@click.option(
    "--run-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default="runs/inputs",
    show_default=True,
    help="Holds the runs.",
)
@click.option(
    "--json",
    "file",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    required=True,
    help="Takes the results after each variant.",
)
def inputs(names: tuple[str, ...], **others: Any) -> None:
    """What is learned with other inputs, or where another process computes actions."""
    click.echo(markdown(Bench(**others).measure(names or list(PAIRS))))
