"""`--set key=value` is the flag of that setting."""

from typing import Any

import pytest

from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.commands import all_commands, cli
from xagents_ray.commands import tune as tuning
from xagents_ray.commands.assignments import with_assignments
from xagents_ray.core.errors import UserError
from xagents_ray.run.request import Request
from xagents_ray.settings.config import train_options
from xagents_ray.tuning.sweep import plan_of

PPO = find_algorithm("ppo")
KNOWN = train_options(PPO.config)
BASE = {"env": "CartPole-v1", "max_steps": 9}


@pytest.mark.parametrize(
    ("word", "flags"),
    [
        ("n_envs=4", ["--n-envs", "4"]),
        ("max_steps=100k", ["--max-steps", "100k"]),
        ("lr=3e-4", ["--lr", "3e-4"]),
        ("gamma=1", ["--gamma", "1"]),
        ("name=5", ["--name", "5"]),
        ("name=on", ["--name", "on"]),
        ("name=2026-01-31", ["--name", "2026-01-31"]),
        ("jit=off", ["--jit", "off"]),
        ("local=true", ["--local"]),
        ("tensorboard=false", ["--no-tensorboard"]),
        ("preset=auto", ["--preset"]),
        ("weights=a.npz", ["--weights", "a.npz"]),
        ("seeds=[1, 2]", ["--seeds", "1", "2"]),
        ("env_kwargs=gravity=-5", ["--env-kwargs", "gravity=-5"]),
        ('env_kwargs={"a": 1, "b": "x"}', ["--env-kwargs", "a=1", "b=x"]),
        ("memory=lstm:128", ["--memory", "lstm:128"]),
        ("name=a: [", ["--name", "a: ["]),
    ],
)
def test_it_is_equivalent_to_the_flag(
    word: str, flags: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []

    def asks(_: Any, given: dict[str, Any]) -> None:
        asked.append(Request.of(PPO, {**BASE, **given}).config.values())
        raise UserError("enough")

    monkeypatch.setattr(all_commands, "_train_seeds", asks)
    monkeypatch.setattr(all_commands, "train_with", asks)
    for words in (["--set", word], flags):
        assert cli.run(["train", "ppo", *words]) == 2
    assert asked[0] == asked[1]


def test_null_takes_a_value_away() -> None:
    found = with_assignments(["target_reward=null"], {"local": True}, KNOWN)
    assert found == {"local": True, "target_reward": None}


def test_several_may_be_given() -> None:
    words = ["lr=0.1", " n_envs = 4 "]
    assert with_assignments(words, {}, KNOWN) == {"lr": 0.1, "n_envs": 4}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["lr"], "--set takes key=value, got 'lr': write it as in --set n_envs=4."),
        (["lr="], "--set takes key=value, got 'lr=': write it as in"),
        (["=3"], "--set takes key=value, got '=3': write it as in"),
        (["n_envs=4"], "--set n_envs=… and --n-envs give one setting: drop one of"),
        (["lr=1", "lr=2"], "--set lr=… and another --set give one setting: drop"),
    ],
)
def test_what_is_refused(words: list[str], said: str) -> None:
    with pytest.raises(UserError) as error:
        with_assignments(words, {"n_envs": 2}, KNOWN)
    assert str(error.value).startswith(said)


@pytest.mark.parametrize(
    ("command", "word", "said"),
    [
        ("train", "lrr=1", "There is no setting 'lrr'; did you mean lr?"),
        ("train", "her=future", "ppo has no setting her, which is one of ddpg"),
        ("train", "lr=fast", "--lr takes a number, or a schedule such as"),
        ("train", "n_envs=[1, 2]", "--n-envs takes a whole number, got (1, 2)."),
        ("train", "verbose=1", "--verbose isn't a setting of this agent"),
        ("doctor", "lr=-1", "--lr must be > 0, got -1."),
        ("tune", "lrr=1", "There is no setting 'lrr' of tune; did you mean lr?"),
        ("tune", "max_steps=9", "--max-steps isn't a setting of tune: --trial-steps"),
    ],
)
def test_a_setting_is_checked_as_its_flag_is(
    command: str, word: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run([command, "ppo", "--env", "CartPole-v1", "--set", word]) == 2
    assert said in capsys.readouterr().err


def test_a_sweep_varies_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def asks(algorithm: Any, given: Any, _: Any) -> None:
        asked.append(plan_of(algorithm, {**given, "n_trials": 2})[0])
        raise UserError("enough")

    monkeypatch.setattr(tuning, "run_sweep", asks)
    words = ["lr=[1e-4, 1e-2]", "optimizer=[adam, rmsprop]", "n_envs=2"]
    command = ["tune", "ppo", "--env", "CartPole-v1", "--gamma", "0.9", "0.99"]
    assert cli.run([*command, "--set", *words]) == 2
    (plan,) = asked
    assert plan.spaces["lr"].values == (1e-4, 1e-2)
    assert plan.spaces["optimizer"].values == ("adam", "rmsprop")
    assert plan.spaces.keys() == {"lr", "optimizer", "gamma"}
    assert plan.fixed["n_envs"] == 2


def test_only_what_trains_takes_it(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("play", "evaluate"):
        assert cli.run([command, "ppo", "--set", "lr=1"]) == 2
        assert "There is no flag --set" in capsys.readouterr().err
