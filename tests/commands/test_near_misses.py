"""What is nearly right is answered with what was meant."""

from pathlib import Path

import pytest
from processes import python

from xagents_ray.commands import cli
from xagents_ray.core.errors import did_you_mean
from xagents_ray.storage.run_directory import RunDirectory

RUN = "--env CartPole-v1 --max-steps 10"
PONG = "--env PongNoFrameskip-v4 --max-steps 10"
MISSES = {
    "tran": "There is no command 'tran'; did you mean train?",
    "help tran": "There is no command 'tran'; did you mean train?",
    "xyzzy": "There is no command 'xyzzy'; known: completion, doctor, evaluate, help",
    "runs lst": "There is no command 'lst'; known: diff, rm, show.",
    "runs shwo": "There is no command 'shwo'; did you mean show?",
    "launch dokcer": "There is no command 'dokcer'; did you mean docker?",
    "train pp0": "There is no agent 'pp0'; did you mean ppo?",
    "train PPO": "There is no agent 'PPO'; did you mean ppo?",
    "train xyzzy": "There is no agent 'xyzzy'; known: a2c, a3c",
    "play ppoo": "There is no agent 'ppoo'; did you mean ppo?",
    "train CartPole": "There is no environment 'CartPole'; did you mean CartPole-v1?",
    "train cartpole": "no agent or environment 'cartpole'; did you mean CartPole-v1?",
    "train cartpole-v1": "no environment 'cartpole-v1'; did you mean CartPole-v1 or",
    "doctor CartPol-v1": "no environment 'CartPol-v1'; did you mean CartPole-v1 or",
    "train ppo --env CartPole": "'CartPole'; did you mean CartPole-v1?",
    f"train ppo --enf {RUN}": "There is no flag --enf; did you mean --env?",
    f"train ppo {RUN} --loacl": "There is no flag --loacl; did you mean --local?",
    f"train ppo {RUN} --no-tensorbord": "did you mean --no-tensorboard",
    f"train ppo {RUN} --greedi": "There is no flag --greedi",
    "evaluate ppo --greedi": "There is no flag --greedi; did you mean --greedy",
    f"train ppo {RUN} --learning_rate 1": "no flag --learning_rate; did you mean --lr?",
    f"train ppo {RUN} --plot": "no flag --plot: see xagents-ray train ppo --help-all.",
    "launch docker --wrokers 2": "no flag --wrokers; did you mean --workers?",
    "launch docker --xyzzy 2": "--xyzzy: see xagents-ray launch docker --help.",
    "report --no-vidoe": "There is no flag --no-vidoe; did you mean --no-video?",
    f"train ppo {RUN} --inference learnr": "got 'learnr'; did you mean learner?",
    f"train ppo {RUN} --optimizer adm": "got 'adm'; did you mean adam?",
    f"train ppo {RUN} --jit xyz": "--jit takes one of auto, on, off, got 'xyz'.",
    "tune ppo --env CartPole-v1 --scheduler medain": "did you mean median?",
    f"train ppo {PONG} --preset atari": "--preset atari: No such file or directory; "
    "for PongNoFrameskip-v4, give no value, gpu or a file.",
    f"train ppo {RUN} --preset atari": "; for CartPole-v1, give no value or a file.",
    f"train dqn {RUN} --preset rainbw": "directory; did you mean rainbow?",
    "train ppo --env Taxi-v4 --preset atari": "; ppo has no preset for Taxi-v4: name a",
    "train ppo --preset atari": "; name a file, or no value for the preset of the",
    "presets ppo CartPole-v1 gpuu": "gpuu of ppo for CartPole-v1; did you mean gpu?",
    "presets ppo CartPole-v1 gpu": "for CartPole-v1, only for *NoFrameskip-v4, ALE/",
    "evaluate ppo --run lst": "there is no such directory; did you mean last?",
    "evaluate ppo --run last --which bst": "an env step, got 'bst'; did you mean best?",
    "resume runs/ppo/CartPole-v1/frist": "; did you mean runs/ppo/CartPole-v1/first?",
    "resume runs/ppo/CartPole-v1/xyz": "there is no such directory; name a run's, or",
}


@pytest.fixture(autouse=True)
def a_run() -> None:
    run = RunDirectory.create("runs", "ppo", "CartPole-v1", "first", 1)
    run.begin("ppo", 1, {"env": {"env": "CartPole-v1"}}, {})


@pytest.mark.parametrize("line", MISSES)
def test_a_near_miss_is_answered(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(line.split()) == 2
    said = capsys.readouterr()
    assert MISSES[line] in said.err and said.out == ""
    assert all(each.startswith("xagents-ray: ") for each in said.err.splitlines())
    assert not Path("report.html").exists()


def test_atari_is_known_before_anything_else_is_imported() -> None:
    """Other mistakes are said before an environment is created."""
    check = "from xagents_ray.actors.envs.registry import check_env_id as check"
    assert python("-c", f"{check}; check('PongNoFrameskip-v4')").returncode == 0


def test_flags_that_only_explain_themselves_are_not_suggested(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """--batch-size is a flag of PPO's in so far as it is refused with a reason."""
    assert cli.run(["train", "ppo", "--batch-sise", "1"]) == 2
    assert "batch-size" not in capsys.readouterr().err


def test_what_is_shown_may_differ_from_what_is_compared() -> None:
    known = {"first": "runs/first", "second": "runs/second"}
    assert did_you_mean("Frist", known, known) == "; did you mean runs/first?"
    assert did_you_mean("frist", known) == "; did you mean first?"
    assert did_you_mean("xyz", known) == ""
