"""What a user types and reads. None of these needs TensorFlow or Ray."""

import re
import time
from pathlib import Path

import forked
import pytest
from processes import python

from xagents_ray import __version__
from xagents_ray.algorithms.table import ALGORITHMS
from xagents_ray.commands import all_commands, cli
from xagents_ray.settings.config import GROUPS
from xagents_ray.settings.options import options

CARTPOLE = ["--env", "CartPole-v1"]
END = ["--max-steps", "10"]
RUN = [*CARTPOLE, *END]


def test_bare_command_prints_version_usage_and_commands(capsys) -> None:
    assert cli.run([]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"xagents-ray {__version__}\n\nUsage:\n")
    assert "xagents-ray <command> <agent> [options] [args]" in out
    assert re.search(r"train +Train given an agent and environment", out)


def test_bare_train_prints_the_shared_options(capsys) -> None:
    assert cli.run(["train"]) == 0
    out = capsys.readouterr().out
    for group in GROUPS.values():
        for option in options(group):
            assert f"| {option.flag} " in out
    assert "--clip-norm" not in out
    assert f"Agents: {', '.join(ALGORITHMS)}" in out


@pytest.mark.parametrize("name", ALGORITHMS)
def test_bare_agent_prints_the_combined_table(name, capsys) -> None:
    assert cli.run(["train", name]) == 0
    out = capsys.readouterr().out
    assert re.search(r"\| flags +\| help +\| default +\| hp_type +\|", out)
    for group in (*GROUPS.values(), ALGORITHMS[name].config):
        for option in options(group):
            row = next(s for s in out.splitlines() if s.startswith(f"| {option.flag} "))
            cells = [cell.strip() for cell in row.strip("|").split("|")]
            default = option.default
            words = {None: "-", False: "-", True: "on"}
            is_word = default is None or isinstance(default, bool)
            assert cells[2] == (words[default] if is_word else str(default))
            assert cells[3] == (option.hp_type or "-")


@pytest.mark.parametrize("words", [[], ["train"], ["train", "ppo"], ["train", "dqn"]])
def test_help_everywhere(words, capsys) -> None:
    assert cli.run([*words, "--help"]) == 0
    assert "Usage: xagents-ray" in capsys.readouterr().out


def test_reference_defaults() -> None:
    """The defaults that the reference's tables give."""
    given = {
        "acer": "buffer-batch-size 1, buffer-max-size 10000, delta 1, ema-alpha 0.99, "
        "entropy-coef 0.01, epsilon 1e-6, grad-norm 10, importance-c 10, n-steps 20, "
        "replay-ratio 4, trust-region 1, value-loss-coef 0.5",
        "ppo": "gamma 0.99, lr 0.0007, beta1 0.9, beta2 0.999, opt-epsilon 1e-7, "
        "n-envs 1, display-precision 2, reward-buffer-size 100, clip-norm 0.1, "
        "advantage-epsilon 1e-8, entropy-coef 0.01, grad-norm 0.5, lam 0.95, "
        "mini-batches 4, n-steps 128, ppo-epochs 4, value-loss-coef 0.5",
        "dqn": "buffer-batch-size 32, buffer-max-size 10000, epsilon-end 0.02, "
        "epsilon-decay-steps 150000, epsilon-start 1, target-sync-steps 1000, double 0",
    }
    for name, text in given.items():
        groups = (*GROUPS.values(), ALGORITHMS[name].config)
        ours = {o.flag: o.default for group in groups for o in options(group)}
        for words in text.split(", "):
            flag, value = words.split()
            assert ours[f"--{flag}"] == float(value), (name, flag)


MISTAKES = {  # of flags; tests/commands/test_refusals.py has those of settings
    "unknown flag": ([*CARTPOLE, "--max-stpes", "10"], "--max-steps"),
    "flag of another library": (
        [*RUN, "--learning-rate", "1e-3"],
        "There is no flag --learning-rate; did you mean --lr?",
    ),
    "flag of other agents": (
        [*RUN, "--epsilon-end", "0.1"],
        "ppo has no flag --epsilon-end, which is one of dqn: leave it out.",
    ),
    "flag of before, bare": (
        ["--verbose", *RUN],
        "--verbose isn't a setting of this agent: a run prints its progress",
    ),
    "flag of before, values": (
        [*RUN, "--verbose", "1", "2"],
        "--verbose isn't a setting of this agent: a run prints its progress",
    ),
    "flag of nobody": ([*RUN, "--xyzzy"], "train ppo --help"),
    "flag without value": ([*CARTPOLE, "--n-envs"], "requires an argument"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_end_with_2_and_one_sentence(mistake, capsys) -> None:
    arguments, expected = MISTAKES[mistake]
    assert cli.run(["train", "ppo", *arguments]) == 2
    captured = capsys.readouterr()
    assert expected in captured.err
    assert captured.err.startswith("xagents-ray: ")
    assert captured.err.count("\n") == 1
    assert "Traceback" not in captured.err + captured.out


@pytest.mark.parametrize(
    "words", [["--seeds", "1", "2"], ["--resume"], ["--checkpoints", "a.npz", "b.npz"]]
)
def test_what_a_sweep_lacks_is_refused_with_its_reason(words, capsys) -> None:
    assert cli.run(["tune", "ppo", *words, *CARTPOLE]) == 2
    assert f"{words[0]} isn't a setting of tune: " in capsys.readouterr().err


@pytest.mark.parametrize("command", ["train", "play", "tune", "doctor", "plot"])
@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("caf\udce9", r"The argument 'caf\udce9' is not UTF-8: rename what it names"),
        ("a\x7f", r"The argument 'a\x7f' has the control character U+007F: leave that"),
        ("\x1b[2J", r"The argument '\x1b[2J' has the control character U+001B"),
    ],
)
def test_arguments_that_are_no_text_are_refused(
    command: str, word: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [word] if command == "plot" else ["ppo", *CARTPOLE, "--name", word]
    assert cli.run([command, *words]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith(f"xagents-ray: {sentence}")
    assert len(said.err.splitlines()) == 1


def test_help_has_defaults_of_zero(capsys) -> None:
    assert cli.run(["train", "ppo", "--help-all"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert re.search(r" --policy-lag INT [^\[]*\[[^\]]*default: 0\]", words)


def test_a_run_that_nobody_may_look_at(capsys) -> None:
    assert cli.run(["evaluate", "ppo", "--run", "n" * 300]) == 2
    assert "there is no such directory" in capsys.readouterr().err


def test_ctrl_c_before_anything_runs(monkeypatch, capsys) -> None:
    def press(*given, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr(all_commands, "print_options", press)
    assert cli.run(["train", "ppo"]) == 130
    assert capsys.readouterr().err.strip() == "xagents-ray: stopped by SIGINT"


@pytest.mark.parametrize("command", ["train", "presets"])
@pytest.mark.parametrize(
    ("agent", "more"), [("PPO", "; did you mean ppo"), ("sarsa", "")]
)
def test_an_unknown_agent(command, agent, more, capsys) -> None:
    assert cli.run([command, agent]) == 2
    assert f"There is no agent '{agent}'{more}" in capsys.readouterr().err


def test_flags_without_an_agent(capsys) -> None:
    assert cli.run(["train", *CARTPOLE]) == 2
    err = capsys.readouterr().err
    assert "--env comes after the agent: xagents-ray train AGENT --env" in err
    assert err.count("\n") == 1


def test_replay_larger_than_memory(capsys) -> None:
    arguments = ["--env", "PongNoFrameskip-v4", "--preprocess", "--local", *END]
    size = ["--buffer-max-size", "100000000"]
    assert cli.run(["train", "dqn", *arguments, *size]) == 2
    assert "more memory than this machine has free" in capsys.readouterr().err


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nowhere", "no.such.host:6379"])
def test_cluster_that_does_not_answer(address, capsys) -> None:
    began = time.perf_counter()
    assert cli.run(["train", "ppo", *CARTPOLE, *END, "--address", address]) == 2
    assert time.perf_counter() - began < 20
    assert address in capsys.readouterr().err


def test_unambiguous_beginnings_of_flags(capsys) -> None:
    """The reference itself writes --n-env."""
    assert cli.run(["train", "ppo", *CARTPOLE, "--n-env", "0"]) == 2
    assert "--n-envs must be ≥ 1" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["play", "evaluate"])
@pytest.mark.parametrize(
    ("agent", "env", "flag"),
    [
        ("dqn", "CartPole-v1", ["--epsilon-end", "0.1"]),
        ("ddpg", "Pendulum-v1", ["--noise", "ou"]),
        ("td3", "Pendulum-v1", ["--step-noise-coef", "0.2"]),
    ],
)
def test_settings_of_drawn_actions_need_sample(
    command, agent, env, flag, capsys
) -> None:
    given = [command, agent, "--env", env, "--weights", "a.npz", *flag]
    assert cli.run(given) == 2
    assert f"{flag[0]} is for actions that are drawn: add" in capsys.readouterr().err
    assert cli.run([*given, "--sample"]) == 2  # there is no such file
    assert "actions that are drawn" not in capsys.readouterr().err


@pytest.mark.parametrize("command", ["play", "evaluate"])
def test_greedy_is_the_opposite_of_sample(command, capsys) -> None:
    assert cli.run([command, "ppo", "--greedy"]) == 2
    assert "either --weights" in capsys.readouterr().err
    assert cli.run([command, "ppo", "--help"]) == 0
    assert "--sample / --greedy" in capsys.readouterr().out


def test_what_names_no_command_imports_none() -> None:
    """The version, help and a typo take 0.1 s."""
    script = (
        "import sys; from xagents_ray.commands import cli\n"
        "for words in [['--version'], ['--help'], ['trian'], []]: cli.run(words)\n"
        "late = {'numpy', 'rich', 'yaml', 'xagents_ray.algorithms.table'}\n"
        "assert not late & sys.modules.keys()\n"
        "cli.run(['train']); assert late <= sys.modules.keys()"
    )
    done = python("-c", script)
    assert done.returncode == 0, done.stderr
    assert "There is no command 'trian'; did you mean train?" in done.stderr
    assert cli.HELP["presets"] in done.stdout


def test_each_command_is_listed() -> None:
    assert cli.HELP == {name: x.help for name, x in all_commands.COMMANDS.items()}


def test_help_and_mistakes_import_neither_tensorflow_nor_ray() -> None:
    script = (
        "import sys; from xagents_ray.commands import cli;"
        "cli.run(['train', 'ppo']); cli.run(['train', 'ppo', '--n-envs', '0']);"
        "sys.exit('tensorflow' in sys.modules or 'ray' in sys.modules)"
    )
    assert python("-c", script).returncode == 0


THREADS = """
import threadpoolctl
import xagents_ray

def threads():
    found = threadpoolctl.threadpool_info()
    return {x["filepath"]: x["num_threads"] for x in found if x["user_api"] == "blas"}

seen = []
threadpoolctl.threadpool_limits(2, user_api="blas")
before = threads()
assert 2 in before.values(), before
run = dict(env="CartPole-v1", max_steps=50, eval_every=20, quiet=True, local=True)
xagents_ray.train("a2c", callbacks=[lambda ctx: seen.append(threads())], **run)
assert seen and all(set(each.values()) == {1} for each in seen), seen
assert before.items() <= threads().items(), threads()
"""


def test_numpy_has_its_threads_again_after_a_run() -> None:
    done = forked.run(["-c", THREADS], 120)
    assert done.returncode == 0, done.stderr


def test_module_runs_from_a_bare_checkout() -> None:
    done = python("-m", "xagents_ray", "--version", cwd=Path(__file__).parents[2])
    assert done.stdout == f"xagents-ray {__version__}\n"
