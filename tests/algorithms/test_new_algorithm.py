"""A new algorithm is two files and one import: the REINFORCE of examples/reinforce."""

import os
import shutil
from pathlib import Path

from processes import python

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "reinforce"
IMPORT = "from xagents_ray.algorithms import reinforce  # noqa: F401\n"
# All commands in one process: importing TensorFlow takes longer than they do.
COMMANDS = """
from xagents_ray.commands import cli

def run(line):
    assert cli.run(line.split()) == 0, line

RUN = "--env CartPole-v1 --n-envs 2 --n-steps 32 --run-dir runs --seed 3"
run("train reinforce --help")
run(f"train reinforce {RUN} --local --max-steps 256 --name a --checkpoints a.npz")
run("train reinforce --resume runs/reinforce/CartPole-v1/a --max-steps 320")
run(f"train reinforce {RUN} --local --max-steps 64 --name b --weights a.npz")
run("evaluate reinforce --run runs/reinforce/CartPole-v1/a --episodes 2")
run("play reinforce --weights a.npz --env CartPole-v1")
run(f"train reinforce {RUN} --n-actors 2 --max-steps 128 --name c --policy-lag 1")
run(f"tune reinforce {RUN} --local --trial-steps 128 --lr 1e-3 1e-2")
"""


def test_a_new_algorithm_has_all_commands(tmp_path: Path) -> None:
    """Local and on Ray, in a copy of the package that differs in nothing else."""
    package = tmp_path / "xagents_ray"
    shutil.copytree(ROOT / "xagents_ray", package)
    for room in ("actors", "cluster", "learners"):
        shutil.copytree(ROOT / room, package / room)
    shutil.copy(EXAMPLE / "algorithm.py", package / "algorithms" / "reinforce.py")
    shutil.copy(EXAMPLE / "learner.py", package / "learners" / "reinforce.py")
    with (package / "algorithms" / "table.py").open("a") as table:
        table.write(IMPORT)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = python("-c", COMMANDS, cwd=tmp_path, env=environment, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert "--baseline" in done.stdout and "--value-loss-coef" not in done.stdout
    assert (tmp_path / "a.npz").is_file()
