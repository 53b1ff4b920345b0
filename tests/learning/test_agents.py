"""What presets promise: greedy games of final weights, on seeds apart from training."""

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import forked
import pytest

from xagents_ray.algorithms.presets import Preset, all_presets

Mean = Callable[[str, Path], float]
QUICK = {(agent, "CartPole-v1", "auto") for agent in ("ppo",)}
CASES = [
    pytest.param(
        preset,
        seeds,
        id=f"{preset.agent}-{preset.env}-{preset.name}-{seeds}",
        marks=marks,
    )
    for preset in all_presets()
    if preset.goal is not None
    for quick in [(preset.agent, preset.env, preset.name) in QUICK]
    for seeds, marks in (
        ((1,), () if quick else pytest.mark.slow),
        ((2, 3), pytest.mark.slow),
    )
]


def run(*words: str) -> str:
    done = forked.run(["-m", "xagents_ray", *words], 2400)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("preset", "seeds"), CASES)
def test_the_final_weights_play_well(
    preset: Preset, seeds: tuple[int, ...], greedy_mean: Mean
) -> None:
    agent, env = preset.agent, preset.env
    module, colon, _ = env.partition(":")
    if colon:
        pytest.importorskip(module)

    def mean(seed: int) -> float:
        name = f"seed-{seed}"
        words = ["--env", env, "--preset", preset.name, "--local", "--seed", str(seed)]
        run("train", agent, *words, "--name", name, "--quiet")
        return greedy_mean(agent, Path("runs", agent, env.replace(":", "-"), name))

    with ThreadPoolExecutor(2) as pool:
        means = list(pool.map(mean, seeds))
    assert preset.goal is not None
    assert min(means) >= preset.goal, means


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "seeds"),
    [
        ("--dueling", (1, 2, 3)),
        ("--distributional --v-min 0 --v-max 10", (1, 2, 3)),
        ("--prioritized", (101, 102, 103)),
        (
            "--noisy factorised --noisy-sigma 2 --normalize-observations "
            "--max-steps 75000 --buffer-max-size 75000",
            (2, 3, 4),
        ),
    ],
)
def test_parts_of_dqn_learn_alone(
    part: str, seeds: tuple[int, ...], greedy_mean: Mean
) -> None:
    """Each with the rest of the CartPole preset, but for what noise needs."""

    def mean(seed: int) -> float:
        name, env = f"seed-{seed}", "CartPole-v1"
        words = ["--env", env, "--preset", "--local", "--seed", str(seed)]
        run("train", "dqn", *words, *part.split(), "--name", name, "--quiet")
        return greedy_mean("dqn", Path("runs", "dqn", env, name))

    with ThreadPoolExecutor(2) as pool:
        means = list(pool.map(mean, seeds))
    assert min(means) >= 475, means


@pytest.mark.slow
@pytest.mark.parametrize("more", ["", "--critics 5 --layer-norm"])
def test_many_updates_of_few_env_steps(more: str, greedy_mean: Mean) -> None:
    """SAC plays Pendulum after an eighth of its preset's env steps."""

    def mean(seed: int) -> float:
        name, env = f"seed-{seed}", "Pendulum-v1"
        words = ["--env", env, "--preset", "--local", "--seed", str(seed)]
        words += "--max-steps 2500 --buffer-batch-size 64 --gradient-steps 10".split()
        run("train", "sac", *words, *more.split(), "--name", name, "--quiet")
        return greedy_mean("sac", Path("runs", "sac", env, name))

    with ThreadPoolExecutor(2) as pool:
        means = list(pool.map(mean, (11, 12, 13)))
    assert min(means) >= -200, means


@pytest.mark.slow
@pytest.mark.parametrize("agent", ["acer", "dqn", "trpo"])
def test_what_is_learned_stays(agent: str, greedy_mean: Mean) -> None:
    """CartPole presets on ten seeds: good final weights, and few bad ones before."""

    def steady(seed: int) -> tuple[float, list[float]]:
        name, env = f"seed-{seed}", "CartPole-v1"
        words = ["--env", env, "--preset", "--local", "--seed", str(seed)]
        words += ["--eval-every", "2000", "--eval-episodes", "20", "--name", name]
        said = run("train", agent, *words)
        means = re.findall(r"Evaluation at \d+ steps: mean reward ([\d.]+)", said)
        final = greedy_mean(agent, Path("runs", agent, env, name))
        return final, list(map(float, means))

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(steady, range(1, 11)))
    finals = [final for final, _ in results]
    print(agent, finals, *(means for _, means in results), sep="\n")
    assert min(finals) >= 450
    assert sum(finals) / len(finals) >= 490
    for _, means in results:
        learned = next(i for i, mean in enumerate(means) if mean > 475)
        later = means[learned:]
        assert sum(mean < 400 for mean in later) <= len(later) / 10, means
