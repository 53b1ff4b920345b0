"""What presets promise: greedy games of final weights, on seeds apart from training."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import forked
import pytest

from xagents_ray.checkpoints import newest_valid
from xagents_ray.presets import Preset, presets

QUICK = {("ppo", "CartPole-v1"), ("trpo", "CartPole-v1")}
CASES = [
    pytest.param(
        preset,
        id=f"{preset.agent}-{preset.env}",
        marks=() if (preset.agent, preset.env) in QUICK else pytest.mark.slow,
    )
    for preset in presets()
    if preset.goal is not None
]


def run(*words: str) -> str:
    done = forked.run(["-m", "xagents_ray", *words], 2400)
    assert done.returncode == 0, done.stderr
    return done.stdout


def final_mean(agent: str, env: str, name: str) -> float:
    """Return the mean of 20 greedy episodes of a run's final weights."""
    path = newest_valid(Path("runs", agent, env, name, "checkpoints"))
    assert path is not None
    words = ["--run", str(path), "--episodes", "20", "--seed", "1000", "--json"]
    return float(json.loads(run("evaluate", agent, *words))["mean"])


@pytest.mark.parametrize("preset", CASES)
def test_the_final_weights_play_well(preset: Preset) -> None:
    agent, env = preset.agent, preset.env

    def mean(seed: int) -> float:
        name = f"seed-{seed}"
        words = ["--env", env, "--preset", "--local", "--seed", str(seed)]
        run("train", agent, *words, "--name", name, "--quiet")
        return final_mean(agent, env, name)

    with ThreadPoolExecutor(2) as pool:
        means = list(pool.map(mean, (1, 2, 3)))
    assert preset.goal is not None
    assert min(means) >= preset.goal, means


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["acer", "dqn", "trpo"])
def test_what_is_learnt_stays(agent: str) -> None:
    """CartPole presets on ten seeds: good final weights, and few bad ones before."""

    def steady(seed: int) -> tuple[float, list[float]]:
        name, env = f"seed-{seed}", "CartPole-v1"
        words = ["--env", env, "--preset", "--local", "--seed", str(seed)]
        words += ["--eval-every", "2000", "--eval-episodes", "20", "--name", name]
        said = run("train", agent, *words)
        means = re.findall(r"Evaluation at \d+ steps: mean reward ([\d.]+)", said)
        return final_mean(agent, env, name), list(map(float, means))

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(steady, range(1, 11)))
    finals = [final for final, _ in results]
    print(agent, finals, *(means for _, means in results), sep="\n")
    assert min(finals) >= 450
    assert sum(finals) / len(finals) >= 490
    for _, means in results:
        learnt = next(i for i, mean in enumerate(means) if mean > 475)
        later = means[learnt:]
        assert sum(mean < 400 for mean in later) <= len(later) / 10, means
