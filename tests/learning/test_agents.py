"""What presets promise: greedy games of final weights, on seeds apart from training."""

import json
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


@pytest.mark.parametrize("preset", CASES)
def test_the_final_weights_play_well(preset: Preset) -> None:
    agent, env = preset.agent, preset.env

    def mean(seed: int) -> float:
        name = f"seed-{seed}"
        words = ["--env", env, "--preset", "--local", "--seed", str(seed)]
        run("train", agent, *words, "--name", name, "--quiet")
        path = newest_valid(Path("runs", agent, env, name, "checkpoints"))
        assert path is not None
        more = ["--run", str(path), "--episodes", "20", "--seed", "1000", "--json"]
        return float(json.loads(run("evaluate", agent, *more))["mean"])

    with ThreadPoolExecutor(2) as pool:
        means = list(pool.map(mean, (1, 2, 3)))
    assert preset.goal is not None
    assert min(means) >= preset.goal, means
