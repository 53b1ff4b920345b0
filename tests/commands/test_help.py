"""`--help` is a page that a person reads; `--help-all` has every flag."""

import re

import click
import pytest
from screens import check_screen

from xagents_ray.algorithms.table import ALGORITHMS
from xagents_ray.commands import cli
from xagents_ray.commands.all_commands import COMMANDS
from xagents_ray.commands.flags import Command

SECTIONS = ["Environment:", "Agent:", "Run:", "Watching:", "Where it runs:"]
COMMANDS_OF_AGENTS = ("train", "doctor", "tune", "play", "evaluate")
LONGEST = 60
"""Lines of a page at 100 columns."""


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.run(words) == 0
    return capsys.readouterr().out


def command_of(name: str, agent: str) -> Command:
    group = COMMANDS[name]
    assert isinstance(group, click.Group)
    command = group.get_command(click.Context(group), agent)
    assert isinstance(command, Command)
    return command


def flags_in(text: str) -> set[str]:
    """Return the flags that a help lists, the first of each pair."""
    return set(re.findall(r"^  (?:-h, )?(--[a-z0-9-]+)", text, re.M))


@pytest.fixture(autouse=True)
def of_100_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cli.CONTEXT, "terminal_width", 98)


@pytest.mark.parametrize("agent", ALGORITHMS)
@pytest.mark.parametrize("name", COMMANDS_OF_AGENTS)
def test_help_is_a_page_and_help_all_is_whole(
    name: str, agent: str, capsys: pytest.CaptureFixture[str]
) -> None:
    page = shown(capsys, name, agent, "--help")
    known = command_of(name, agent).known
    common = {each.flag for each in known if each.common}
    assert flags_in(page) == {*common, "--help", "--help-all"}
    left = len(known) - len(common)
    lines = page.splitlines()
    assert lines[-1] == f"--help-all shows the other {left} flags."
    assert len(lines) <= LONGEST and left > 10
    whole = shown(capsys, name, agent, "--help-all")
    listed = {each.flag for each in known}
    assert flags_in(whole) == {*listed, "--help", "--help-all"}
    assert "shows the other" not in whole
    assert shown(capsys, "help", name, agent) == page


def test_a_page_has_what_a_training_requires_and_its_sections(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = shown(capsys, "train", "ppo", "--help")
    assert {"--env", "--max-steps", "--target-reward", "--lr"} <= flags_in(page)
    titles = [line for line in page.splitlines() if line in SECTIONS]
    assert titles == SECTIONS


def test_a_page_leaves_out_details(capsys: pytest.CaptureFixture[str]) -> None:
    line = r"  --n-actors INT +Number of env actors, which share the environments\.\n"
    assert re.search(line, shown(capsys, "train", "ppo", "--help"))
    words = " ".join(shown(capsys, "train", "ppo", "--help-all").split())
    assert "which share the environments; default: the fewest" in words
    assert "auto: one per core, as nodes join and leave. [≥ 1]" in words


def test_examples_name_an_environment_that_the_agent_takes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for agent, env in (("dqn", "CartPole-v1"), ("sac", "Pendulum-v1")):
        page = shown(capsys, "train", agent, "--help")
        assert f"  xagents-ray train {agent} --env {env} --max-steps 100k\n" in page


@pytest.mark.parametrize("width", [40, 80])
@pytest.mark.parametrize("words", ["", "train", "train ppo", "runs", "plot"])
def test_helps_as_they_are_stored(
    words: str,
    width: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """XAGENTS_RAY_SCREENS=write stores them anew; read the difference."""
    monkeypatch.setitem(cli.CONTEXT, "terminal_width", width - 2)
    page = shown(capsys, *words.split(), "--help")
    check_screen("-".join(["help", *words.split(), str(width)]), page)
    described = page.partition("\nExamples:\n")[0].splitlines()
    assert max(map(len, described)) <= width


@pytest.mark.parametrize("words", [["launch", "docker"], ["plot"], ["runs", "rm"]])
def test_a_help_without_common_flags_is_whole(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert "--help-all" not in shown(capsys, *words, "--help")
    assert cli.run([*words, "--help-all"]) == 2
