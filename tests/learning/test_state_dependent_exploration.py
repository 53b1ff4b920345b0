"""State-dependent noise finds what independent noise never does: a far flag."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import forked
import pytest

ENV = "MountainCarContinuous-v0"
SETTINGS = """
    --max-steps 20000 --gamma 0.9999 --train-frequency 32 --gradient-steps 32
    --rollout-length 32 --buffer-batch-size 512 --buffer-max-size 50000
    --buffer-initial-size 512 --random-steps 0 --tau 0.01 --alpha 0.1
    --actor-model actor.cfg --critic-model critic.cfg
    --sde-frequency -1 --init-log-std -3.67
"""
HIDDEN = "[dense-0]\nunits=64\nactivation=relu\n[dense-1]\nunits=64\nactivation=relu\n"


@pytest.mark.slow
def test_sac_finds_the_flag(greedy_mean: Callable[[str, Path], float]) -> None:
    """With RL Zoo's settings; without --sde-frequency it stays at 0."""
    outputs = "common=1\n[dense-2]\noutput=1\n[dense-3]\noutput=1\n"
    Path("actor.cfg").write_text(HIDDEN + outputs)
    Path("critic.cfg").write_text(f"{HIDDEN}[dense-2]\noutput=1\n")

    def mean(seed: int) -> float:
        words = ["train", "sac", "--env", ENV, "--local", "--seed", str(seed)]
        words += [*SETTINGS.split(), "--name", f"seed-{seed}", "--quiet"]
        done = forked.run(["-m", "xagents_ray", *words], 2400)
        assert done.returncode == 0, done.stderr
        return greedy_mean("sac", Path("runs", "sac", ENV, f"seed-{seed}"))

    with ThreadPoolExecutor(2) as pool:
        means = list(pool.map(mean, (1, 11, 12)))
    assert min(means) >= 90, means
