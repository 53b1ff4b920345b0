"""Lines beside the numbers: what a user of `train` should know."""

import io
import os
import re
import subprocess
from collections import deque

import forked
import pytest
from rich.console import Console

from xagents_ray.algorithms.presets import preset_hints
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.commands.doctor.machine import check_preset
from xagents_ray.settings.config import Config
from xagents_ray.watch.display import Display
from xagents_ray.watch.live import LastingOutput
from xagents_ray.watch.progress import Progress

PPO = find_algorithm("ppo")


def trained(*words: str) -> subprocess.CompletedProcess[str]:
    done = forked.run(["-m", "xagents_ray", "train", "ppo", "--local", *words], 120)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done


def test_a_preset_and_what_checkpoints_has_without_an_episode() -> None:
    """No episode of Acrobot ends within 20 steps."""
    words = ["--env", "Acrobot-v1", "--n-steps", "10", "--max-steps", "2e1"]
    out = trained(*words, "--name", "a", "--checkpoints", "a.npz").stdout
    assert "ppo has a preset for Acrobot-v1: add --preset. Its result: " in out
    assert re.search(r" after \S+ env steps \(this project, seeds .*\)\n", out)
    assert "--checkpoints has the final weights, as there is no best: fewer" in out


def test_a_display_that_nobody_reads_any_more(capsys: pytest.CaptureFixture) -> None:
    """As with `| head`: it ends, with a warning, and the run goes on."""
    readable, writable = os.pipe()
    os.close(readable)
    with open(writable, "w") as stream:
        console = Console(file=LastingOutput(stream))  # type: ignore[arg-type]
        for _ in range(2):
            console.print("text")
    assert capsys.readouterr().err == "Warning: the display ends: Broken pipe\n"


def test_an_outdated_environment_in_a_run() -> None:
    words = ["--env", "CartPole-v0", "--n-steps", "64", "--max-steps", "128"]
    out = trained(*words, "--checkpoints", "a.npz").stdout
    assert out.count("CartPole-v0 is outdated; its newest version is CartPole-v1") == 1
    assert "Warning" not in out and "a preset" not in out
    assert "\x1b" not in out


@pytest.mark.parametrize(
    ("given", "count"),
    [
        ({"env": "CartPole-v1"}, 1),
        ({"env": "CartPole-v1", "preset": "auto"}, 0),
        ({"env": "CartPole-v1", "preset": "own.yaml"}, 0),
        ({"env": "MountainCar-v0"}, 0),
        ({}, 0),
    ],
)
def test_a_preset_is_named_where_one_is_known(given: dict, count: int) -> None:
    assert len(preset_hints(PPO, given)) == count


def test_doctor_says_who_reached_what_a_preset_promises() -> None:
    given = {"env": "SpaceInvadersNoFrameskip-v4", "max_steps": 1}
    row = check_preset(PPO, Config.of(PPO.config, given))
    assert "RL Zoo, not run here" in row.found
    assert "reached" not in row.found


@pytest.mark.parametrize(
    ("learned", "speed"), [([(1000, 10.0), (5000, 20.0)], 400), ([], 125)]
)
def test_the_last_speed_is_that_of_the_run(
    learned: list[tuple[int, float]], speed: int
) -> None:
    """Not that of its last second, nor with the start of TensorFlow."""
    text = io.StringIO()
    config = Config.of(PPO.config, {"env": "CartPole-v1", "max_steps": 5000})
    progress = Progress(deque(maxlen=100), earlier_seconds=40.0, env_steps=5000)
    if learned:
        progress.steady, progress.learned_until = learned
    with Display(config, Console(file=text, width=200)) as display:
        display.end(progress, "Over")
    assert f"speed: {speed} steps/s" in text.getvalue()
