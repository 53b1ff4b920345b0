"""What an agent's final weights are worth: greedy games, seeds apart from training."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from xagents_ray.checkpoints import newest_valid

CARTPOLE, PENDULUM = "--env CartPole-v1 --local", "--env Pendulum-v1 --local"
A2C = f"a2c {CARTPOLE} --n-envs 8 --entropy-coef 0"
ACER = (
    f"acer {CARTPOLE} --n-envs 8 --entropy-coef 0 --lr 2e-3 --buffer-initial-size 200"
)
TRPO = (
    f"trpo {CARTPOLE} --n-envs 2 --n-steps 512 --lam 0.98 --lr 1e-3 "
    "--critic-iterations 20 --max-kl 0.01 --fvp-n-steps 1"
)
TRPO_PENDULUM = (
    f"trpo {PENDULUM} --n-envs 2 --n-steps 1024 --gamma 0.9 --lam 0.95 --lr 1e-3 "
    "--critic-iterations 15 --max-kl 0.01"
)
OFF_POLICY = (
    f"{PENDULUM} --gamma 0.98 --lr 1e-3 --buffer-batch-size 256 "
    "--buffer-max-size 200000 --buffer-initial-size 1000"
)
# Command, env steps, and what the mean of 20 games must reach.
GOALS = {
    "a2c-cartpole": (A2C, 500_000, 475),
    "acer-cartpole": (ACER, 100_000, 475),
    "trpo-cartpole": (TRPO, 100_000, 475),
    "trpo-pendulum": (TRPO_PENDULUM, 300_000, -200),
    "ddpg-pendulum": (f"ddpg {OFF_POLICY}", 12_000, -200),
    "td3-pendulum": (f"td3 {OFF_POLICY}", 20_000, -200),
}
QUICK = {"trpo-cartpole"}
CASES = [
    pytest.param(goal, seed, marks=() if goal in QUICK else pytest.mark.slow)
    for goal in GOALS
    for seed in (1, 2, 3)
]


def run(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "xagents_ray", *words],
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("goal", "seed"), CASES)
def test_the_final_weights_play_well(goal: str, seed: int) -> None:
    command, steps, enough = GOALS[goal]
    words = command.split()
    run("train", *words, "--max-steps", str(steps), "--seed", str(seed), "--name", "a")
    path = newest_valid(Path("runs", words[0], words[2], "a", "checkpoints"))
    assert path is not None
    more = ["--run", str(path), "--episodes", "20", "--seed", "1000", "--json"]
    result = json.loads(run("evaluate", words[0], *more))
    assert result["mean"] >= enough, result
