"""`xagents-ray-actor` in an empty environment: it joins a cluster, and acts there."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.metadata import distributions
from itertools import takewhile
from pathlib import Path
from typing import Any

import forked
import numpy as np
import pytest
from checkout import ROOT
from processes import kill_with_children

from xagents_ray.extend import write_weights

# What each environment is made by, once Ray is there.
_ENV = """
import sys
from pathlib import Path
import gymnasium

def make():
    if "ray" in sys.modules:
        with Path(__file__).with_name("made-by").open("a") as file:
            file.write(f"{sys.prefix}\\n")
    return gymnasium.make("CartPole-v1")
"""
# Imports all that the parts of a run import on such a node, also within functions.
_IMPORT = """
import ast, importlib, pkgutil, xagents_ray.actors, xagents_ray.replay
names, lacking = {"xagents_ray.cluster.run.learner_service"}, set()
for room in (xagents_ray.actors, xagents_ray.replay):
    for each in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
        loader = each.module_finder.find_spec(each.name).loader
        for node in ast.walk(ast.parse(loader.get_source(each.name))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names.add(node.module)
for name in names:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        lacking.add(error.name)
print(len(names), *sorted(lacking))
"""
_HISTORY = ROOT / "docs" / "results" / "ppo-CartPole-v1.parquet"
_EXTRAS = {"atari_py", "envpool", "gym"}


def _uv(*words: object, cwd: Path | None = None) -> None:
    own = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    uv = shutil.which("uv", path=own)
    assert uv is not None, "this test needs uv: pip install uv"
    command = [uv, "-q", *map(str, words)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def actor_only(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel and return an environment that has it, with our versions."""
    folder = tmp_path_factory.mktemp("actor-only")
    pins = [f"{each.name}=={each.version}" for each in distributions()]
    kept = [pin for pin in pins if not pin.startswith("xagents")]
    (folder / "pins").write_text("\n".join(kept))
    _uv("build", "--wheel", ROOT / "packaging" / "actor", "-o", folder)
    (wheel,) = folder.glob("xagents_ray_actor-*.whl")
    made = folder / "environment"
    _uv("venv", "--python", sys.executable, made)
    target = ("--python", made / "bin" / "python")
    _uv("pip", "install", *target, "--constraint", folder / "pins", wheel)
    return made


def _run(environment: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [str(environment / "bin" / words[0]), *words[1:]]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@contextmanager
def _joined(environment: Path, address: str) -> Iterator[None]:
    """Let an environment be a node of a cluster, with two cores."""
    options = {"address": address, "num-cpus": 2, "object-store-memory": 200_000_000}
    options |= {"dashboard-agent-listen-port": 0}
    words = [f"--{name}={value}" for name, value in options.items()]
    command = [environment / "bin" / "ray", "start", "--block", *words]
    own = {"RAY_AUTH_MODE": "disabled", "RAY_worker_niceness": "0"}
    variables = {**os.environ, **own}
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    node: Any
    with subprocess.Popen(command, env=variables, **pipe) as node:
        lines = takewhile(lambda line: "Ray runtime started" not in line, node.stdout)
        try:
            said = [*lines]
            assert node.poll() is None, said
            yield
        finally:
            kill_with_children(node.pid)


def test_all_that_acting_imports_is_installed(actor_only: Path) -> None:
    done = _run(actor_only, "python", "-c", _IMPORT)
    assert done.returncode == 0, done.stderr
    count, *lacking = done.stdout.split()
    assert int(count) > 50
    assert {*lacking} == _EXTRAS


@pytest.mark.slow
def test_it_acts_for_a_learner_elsewhere(
    actor_only: Path, start_cluster: Callable[..., AbstractContextManager[str]]
) -> None:
    Path("own_env.py").write_text(_ENV)
    words = "train dqn --env own_env:make --n-envs 4 --n-actors 2 --actor-cpus 1"
    words += " --max-steps 2000 --buffer-initial-size 200 --jit off --quiet"
    with start_cluster("", 1) as address, _joined(actor_only, address):
        command = ["-m", "xagents_ray", *words.split(), "--address", address]
        done = forked.run(command, 180)
    assert done.returncode == 0, done.stderr
    (run,) = Path("runs/dqn").glob("*/*")
    assert json.loads((run / "summary.json").read_text())["env_steps"] >= 2_000
    # The learner takes the head's only core, so both env actors are on the other node.
    assert Path("made-by").read_text().split() == [str(actor_only)] * 4
    # What was learned plays there too, by itself.
    words = f"evaluate dqn --run {run} --episodes 2 --json"
    played = _run(actor_only, "xagents-ray", *words.split())
    assert played.returncode == 0, played.stderr
    assert json.loads(played.stdout)["mean"] > 0


def test_a_keras_network_acts_there(actor_only: Path) -> None:
    """Its weights are HDF5, which such a node can't read, and needn't."""
    policy = {"class_name": "DTypePolicy", "config": {"name": "float32"}}
    dense: dict[str, Any] = {
        "name": "d",
        "units": 2,
        "activation": "linear",
        "use_bias": True,
    }
    dense["dtype"] = {"module": "keras", **policy}
    layers = [("InputLayer", {"name": "i", "batch_shape": [None, 4]}), ("Dense", dense)]
    inner = [
        {"module": "keras.layers", "class_name": kind, "config": own}
        for kind, own in layers
    ]
    model = {"module": "keras", "class_name": "Sequential", "config": {"layers": inner}}
    with zipfile.ZipFile("own.keras", "w") as file:
        file.writestr("config.json", json.dumps(model))
        file.writestr("model.weights.h5", bytes(40))
    kernel, bias = np.ones((4, 2), np.float32), np.zeros(2, np.float32)
    write_weights("own.npz", {"dense-0/kernel": kernel, "dense-0/bias": bias})
    words = "evaluate dqn --env CartPole-v1 --model own.keras --weights own.npz --json"
    played = _run(actor_only, "xagents-ray", *words.split(), "--episodes", "1")
    assert played.returncode == 0, played.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("train ppo --env CartPole-v1 --max-steps 9", "Training needs TensorFlow, "),
        ("tune ppo --env CartPole-v1 --lr 1e-4 1e-3 --trial-steps 9", "Training needs"),
        (f"plot {_HISTORY}", "pyarrow isn't installed, "),
    ],
)
def test_what_it_lacks_is_said(actor_only: Path, words: str, said: str) -> None:
    done = _run(actor_only, "xagents-ray", *words.split())
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith(f"xagents-ray: {said}")
    assert "xagents-ray-actor leaves" in done.stderr
    assert done.stderr.endswith(": pip install xagents-ray.\n")
    assert not Path("runs").exists()


def test_doctor_says_what_it_is_for(actor_only: Path) -> None:
    words = ["doctor", "ppo", "--env", "CartPole-v1"]
    done = _run(actor_only, "xagents-ray", *words)
    assert done.returncode == 2
    verdicts = dict(re.findall(r"^\| (\w[\w ]*?) +\| (\w+)", done.stdout, re.M))
    assert verdicts.pop("TensorFlow") == "error"
    assert verdicts["acting"] == verdicts["Ray"] == "ok"
    assert "error" not in verdicts.values() and "GPU" not in verdicts
    assert "TensorFlow: Nodes that only act need none" in done.stdout
