"""A downloaded folder runs no code, unless the user or a run names its modules."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from xagents_ray.actors.envs import make, registry
from xagents_ray.core.errors import UserError
from xagents_ray.core.user_code import find_named, importing_from_here
from xagents_ray.run.child import Child, Job, Outcome
from xagents_ray.settings.training import EnvConfig
from xagents_ray.storage.history import History

PROGRAM = str(Path(sys.executable).with_name("xagents-ray"))
TRAPS = ["winreg", "dill", "jax", "torch", "vms_lib", "sitecustomize", "xgboost"]
"""Modules that libraries import where they are installed, which they aren't here."""
TRAIN = ["--max-steps", "20", "--quiet"]
TRAP = "with open('sprung', 'a') as file:\n    file.write(__name__)\n"
ENTRY_POINT = "[xagents_ray.algorithms]\nevil = evil:ROW\n"
MINE = """
import gymnasium

def make():
    import helper  # later than the module itself
    return gymnasium.make("CartPole-v1")

class Wrapped(gymnasium.Wrapper):
    pass

def after_rollout(ctx):
    pass
"""


@pytest.fixture(autouse=True)
def download(tmp_path: Path) -> None:
    for name in (*TRAPS, "evil"):
        Path(f"{name}.py").write_text(TRAP)
    info = Path("evil-1.0.dist-info")
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINT)
    history = History("history.parquet")
    for step in range(1, 9):
        history.add(step, float(step), 1.0, 1.0, None)
    history.flush()


@pytest.mark.parametrize(
    "words",
    [
        ["plot", "history.parquet"],
        ["presets"],
        ["train", "ppo", "--env", "CartPole-v1", *TRAIN, "--local"],
        pytest.param(
            ["train", "ppo", "--env", "mine_here:make", *TRAIN, "--n-actors", "1"],
            marks=pytest.mark.slow,
        ),
    ],
    ids=["plot", "presets", "train", "train on Ray"],
)
@pytest.mark.parametrize("program", [[PROGRAM], [sys.executable, "-m", "xagents_ray"]])
def test_commands_import_nothing_from_it(program: list[str], words: list[str]) -> None:
    if words[0] == "train" and program != [PROGRAM]:
        pytest.skip("the same process as that of the program, after its first line")
    Path("mine_here.py").write_text(MINE)
    Path("helper.py").write_text("")
    done = subprocess.run([*program, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not Path("sprung").exists(), Path("sprung").read_text()


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python has no safe path")
def test_child_processes_import_nothing_from_it() -> None:
    Path("multiprocessing.py").write_text(TRAP)
    Path("pickle.py").write_text(TRAP)
    with Child.start(Job("test_working_directory:environment_of")) as child:
        outcome = child.receive(time.monotonic() + 60)
    assert outcome == Outcome(value=(os.environ.get("PYTHONSAFEPATH"), os.getcwd()))
    assert not Path("sprung").exists()


def environment_of() -> tuple[str | None, str]:
    return os.environ.get("PYTHONSAFEPATH"), os.getcwd()


def made(**settings: Any) -> None:
    make.make_envs(EnvConfig(**settings), 1, 1).close()


def test_what_is_named_is_imported() -> None:
    Path("mine_here.py").write_text(MINE)
    Path("helper.py").write_text("")
    before = sys.path.copy()
    assert find_named("--callbacks", "mine_here:after_rollout")
    assert registry.find_factory("mine_here:make") is not None
    made(env="mine_here:make")
    made(env="CartPole-v1", wrappers=("mine_here:Wrapped",))
    assert sys.path == before
    for name in ("mine_here", "helper"):
        assert sys.modules.pop(name).__file__ == str(Path(f"{name}.py").resolve())


def test_only_while_it_is_named() -> None:
    with pytest.raises(ModuleNotFoundError):
        __import__("evil")
    with pytest.raises(UserError, match="evil has no nothing"):
        find_named("--callbacks", "evil:nothing")
    del sys.modules["evil"]
    with pytest.raises(ModuleNotFoundError):
        __import__("evil")


def test_a_path_that_is_there_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """A notebook's begins with the working directory; user code may change it."""
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    before = sys.path.copy()
    with importing_from_here(), importing_from_here():
        assert sys.path == [*before, "", ""]
    assert sys.path == before
    with importing_from_here():
        sys.path.remove("")
        sys.path.remove("")
    assert sys.path == before[1:]
    assert np.all([os.path.isabs(each) for each in sys.path if each])
