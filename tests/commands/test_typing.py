"""What editors, type checkers and `help` know of `train` and `tune`."""

import pydoc
import re
from pathlib import Path

import pytest
from mypy import api

import xagents_ray
from xagents_ray.algorithms.table import ALGORITHMS
from xagents_ray.commands.typed import STUB, stub_text
from xagents_ray.settings.config import train_options
from xagents_ray.tuning.plan import tune_options

SNIPPET = """
from pathlib import Path

from xagents_ray import PPO, AgentName, agents, train, tune

train("dqn", env="CartPole-v1", epsilon_start=1, run_dir=Path("runs"))
train("ppo", lr=lambda left: left, clip_norm=[(0, 0.2), (1, 0.1)])
train("ppo", lr=1, weights=["a.tf"], target_reward=None)
train(AgentName("reinforce"), baseline=True)
tune("ppo", lr=[1e-4, 1e-2], n_envs=8, trial_steps=1_000)
train("ppo", seeds=[1, 2], lr=1e-3, callbacks=[print]).iqm_interval
train(config=Path("run.yaml"), lr=1).directory
train(config="run.yaml", seeds=[1, 2]).iqm_interval
tune(config="run.yaml", n_trials=3)
train(lr=1)  # type: ignore[call-overload]
train("ppo", seeds=1)  # type: ignore[call-overload]
agents["ppo"]["agent"] is PPO
train("ppo", gamma="x")  # type: ignore[call-overload]
train("ppo", epsilon_start=1)  # type: ignore[call-overload]
train("pp0", lr=1e-3)  # type: ignore[call-overload]
train("ppo", optimizer="sgd")  # type: ignore[call-overload]
train("ppo", gamma=[0.9, 0.99])  # type: ignore[call-overload]
tune("ppo", quiet=[True, False])  # type: ignore[call-overload]
tune("ppo", max_steps=1_000)  # type: ignore[call-overload]
"""
# What they name; the rest of the package would take mypy ten seconds more.
READ = (
    *("", ".algorithms", ".algorithms.definition", ".commands", ".commands.public"),
    *(".settings", ".settings.from_python", ".core", ".core.schedule"),
)
SETTINGS = """
[mypy]
strict = true
disallow_subclassing_any = false
follow_imports = skip
mypy_path = {root}
cache_dir = {cache}
[mypy-{read}]
follow_imports = normal
"""


def test_the_stub_says_what_the_options_say() -> None:
    advice = "write it again: python -m xagents_ray.commands.typed"
    assert STUB.read_text(encoding="utf-8") == stub_text(), advice


def test_mypy_knows_the_settings_of_each_agent(tmp_path: Path) -> None:
    """It would name an ignored line without an error, too."""
    root = Path(__file__).resolve().parents[2]
    read = ",".join(f"xagents_ray{name}" for name in READ)
    settings = SETTINGS.format(root=root, cache=tmp_path / "cache", read=read)
    (tmp_path / "mypy.ini").write_text(settings)
    (tmp_path / "snippet.py").write_text(SNIPPET)
    found, errors, code = api.run(["--config-file", "mypy.ini", "snippet.py"])
    assert code == 0, found + errors


@pytest.mark.parametrize("agent", ALGORITHMS)
def test_help_lists_every_setting(agent: str) -> None:
    config = ALGORITHMS[agent].config
    known = train_options(config), tune_options(config)
    for command, own in zip((xagents_ray.train, xagents_ray.tune), known, strict=True):
        text = pydoc.plain(pydoc.render_doc(command))
        _, *parts = re.split(r"\n    Settings of (.+):\n", text)
        sections = dict(zip(parts[::2], parts[1::2], strict=True))
        lines = [*sections["every agent"].splitlines(), *sections[agent].splitlines()]
        for each in own:
            start = rf" +{each.name}(=.+)?: {re.escape(each.help)}"
            assert any(re.match(start, line) for line in lines), each.name
