"""A new algorithm is a package, installed beside ours: examples/own_algorithm."""

import os
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from packages import describe, install
from processes import python

from xagents_ray.algorithms.a2c import A2CConfig
from xagents_ray.algorithms.noisy_layers import NoisyLayers
from xagents_ray.algorithms.table import ALGORITHMS, find_algorithm, register
from xagents_ray.core.errors import UserError
from xagents_ray.core.spec import EnvSpec
from xagents_ray.extend import AlgorithmConfig, models, noisy_layers, policy_gradient

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "own_algorithm"
# All commands in one process: importing TensorFlow takes longer than they do.
COMMANDS = """
from xagents_ray.commands import cli

def run(line):
    assert cli.run(line.split()) == 0, line

RUN = "--env CartPole-v1 --n-envs 2 --n-steps 32 --run-dir runs --seed 3"
run("train --help")
run("train reinforce --help-all")
run("presets reinforce")
run(f"doctor reinforce {RUN} --preset --local")
run(f"train reinforce {RUN} --local --max-steps 256 --name a --checkpoints a.npz")
SAME = "--resume runs/reinforce/CartPole-v1/a --checkpoints a.npz"
run(f"train reinforce {SAME} --max-steps 320")
run(f"train reinforce {RUN} --local --max-steps 64 --name b --weights a.npz")
run("evaluate reinforce --run runs/reinforce/CartPole-v1/a --episodes 2")
run("play reinforce --weights a.npz --env CartPole-v1")
run(f"train reinforce {RUN} --n-actors 1 --max-steps 128 --name c --policy-lag 1")
run(f"tune reinforce {RUN} --local --trial-steps 128 --lr 1e-3 1e-2")
"""
# Nothing that loads TensorFlow.
LISTING = """
from xagents_ray.commands import cli

for line in ("train", "train --help", "train broken", "train a2c", "train ours"):
    print("EXIT", cli.run(line.split()))
"""


def run(site: Path, code: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PYTHONPATH": str(site)}
    return python("-c", code, cwd=folder, env=environment, timeout=600)


@pytest.mark.slow
def test_an_installed_algorithm_has_all_commands(tmp_path: Path) -> None:
    """Local, on Ray, and in a sweep."""
    done = run(install(EXAMPLE, tmp_path), COMMANDS, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert (
        "Train REINFORCE" in done.stdout and "CartPole-v1 | auto | 453" in done.stdout
    )
    assert "--baseline" in done.stdout and "--value-loss-coef" not in done.stdout
    assert (tmp_path / "a.npz").is_file()


def test_the_order_of_algorithms_does_not_depend_on_imports(tmp_path: Path) -> None:
    names = "from xagents_ray.algorithms import dqn, table; print(*table.ALGORITHMS)"
    found = python("-c", names, cwd=tmp_path).stdout.split()
    assert found == sorted(found) and "dqn" in found


def test_packages_that_fail_leave_the_others_usable(tmp_path: Path) -> None:
    """Each is answered with one sentence, where agents are listed and where named."""
    site, group = tmp_path / "site", "xagents_ray.algorithms"
    describe(site, "first", group, broken="first_missing:ROW", ppo="rows:PPO")
    describe(site, "second", group, ours="rows:OURS", text="rows:__name__")
    describe(site, "third", group, ours="rows:OURS")
    (site / "rows.py").write_text(
        "from dataclasses import replace\n"
        "from xagents_ray.extend import find_algorithm\n"
        "PPO = find_algorithm('ppo')\n"
        "OURS = replace(PPO, name='ours')\n"
    )
    done = run(site, LISTING, tmp_path)
    assert done.stdout.count("EXIT 0") == 4 and "EXIT 2" in done.stdout, done.stderr
    ours = f"{', '.join(ALGORITHMS)}, ours"
    assert f"Agents: {ours}\n" in done.stdout
    sentences = set(done.stderr.splitlines())
    missing = (
        "broken of the package first can't be loaded (ModuleNotFoundError: No module "
        "named 'first_missing'): fix or uninstall it."
    )
    assert {missing, f"xagents-ray: {missing}"} <= sentences
    assert (
        "Both second and third have 'ours' among their xagents_ray.algorithms, and the "
        "first one is used: uninstall one."
    ) in sentences
    assert any(
        "'ppo' of xagents_ray.learners.ppo can't replace" in s for s in sentences
    )
    assert any("'rows' is not an Algorithm" in s for s in sentences)
    assert len(sentences) == 5
    assert "Traceback" not in done.stderr


def test_an_algorithm_without_the_length_of_a_rollout_is_refused() -> None:
    @dataclass(frozen=True, kw_only=True)
    class OwnConfig(AlgorithmConfig):
        model: str | None = models.model(None)

    with pytest.raises(UserError, match=r"'own' has rollouts of no length: add policy"):
        register(replace(find_algorithm("a2c"), name="own", config=OwnConfig))


def test_a_setting_that_is_no_option_is_refused() -> None:
    @dataclass(frozen=True, kw_only=True)
    class OwnConfig(A2CConfig):
        size: int = 3

    with pytest.raises(UserError, match=r"'own' has a setting size without option\(\)"):
        register(replace(find_algorithm("a2c"), name="own", config=OwnConfig))


def test_noise_that_no_layer_has_is_refused() -> None:
    """And a setting of its deviation may be left out."""

    @dataclass(frozen=True, kw_only=True)
    class OwnConfig(AlgorithmConfig):
        model: str | None = models.model(None)
        n_steps: int = policy_gradient.n_steps(256)
        noisy: str | None = noisy_layers.noisy(None)

    row = replace(find_algorithm("a2c"), name="own", config=OwnConfig)
    plain = replace(row.models[0], adapt=None)
    with pytest.raises(UserError, match=r"'own' has the setting noisy .* adapt=noi"):
        register(replace(row, models=(plain,)))
    adapted = replace(plain, adapt=noisy_layers.add_noise)
    spec = EnvSpec((4,), "float32", 1, 2)
    config = OwnConfig(noisy="factorised")
    assert config.part(NoisyLayers) is not None
    (layout,) = replace(row, models=(adapted,)).layouts(config, spec)
    assert layout.noise_units > 0
