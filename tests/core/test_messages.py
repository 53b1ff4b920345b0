"""Text of files and settings doesn't control the terminal that shows it."""

import json
from pathlib import Path

import pytest

from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.commands.tables import print_list, print_table
from xagents_ray.core.errors import (
    Broken,
    EnvironmentFault,
    UserError,
    printable,
    shown,
)
from xagents_ray.settings.config import Config
from xagents_ray.storage.run_directory import RunDirectory
from xagents_ray.watch.display import Display

HOSTILE = "\x1b]0;owned\x07\x1b[2Jx\r\x9b1m\u202e"
ESCAPED = r"\x1b]0;owned\x07\x1b[2Jx\r\x9b1m\u202e"


def test_control_characters_are_escaped() -> None:
    assert printable(HOSTILE) == ESCAPED == printable(ESCAPED)
    assert printable("×\n\té…") == "×\n\té…"
    assert printable("\udcff") == r"\udcff"  # of a file name that is no UTF-8


@pytest.mark.parametrize("kind", [UserError, EnvironmentFault, Broken])
def test_errors_escape_them(kind: type[Exception]) -> None:
    assert str(kind(f"{HOSTILE}: remove it.")) == f"{ESCAPED}: remove it."


def test_settings_of_a_run_have_none(tmp_path: Path) -> None:
    config = Config.of(find_algorithm("ppo").config, {"env": "CartPole-v1"})
    directory = RunDirectory(tmp_path)
    for agent, groups in ((HOSTILE, {}), ("ppo", {"env": {HOSTILE: 1}})):
        directory.begin(agent, 1, {**config.groups(), **groups}, {})
        with pytest.raises(UserError, match="was edited or damaged"):
            directory.settings()
    directory.begin("ppo", 1, {**config.groups(), "env": {"env": HOSTILE}}, {})
    with pytest.raises(UserError) as error:
        Config.of(find_algorithm("ppo").config, directory.settings()[1])
    expected = f"--env takes text without control characters, got {HOSTILE!r}."
    assert str(error.value) == expected


def test_nor_do_its_summary_and_its_starts(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    directory.finish({HOSTILE: [HOSTILE, 1], "reason": "two\nlines"})
    assert directory.summary() == {ESCAPED: [ESCAPED, 1], "reason": "two\nlines"}
    (tmp_path / "run.json").write_text(json.dumps([{"command": HOSTILE}]))
    assert directory.starts() == [{"command": ESCAPED}]


def test_notes_and_tables_escape_them(capsys: pytest.CaptureFixture[str]) -> None:
    with Display(Config.of(find_algorithm("ppo").config, {})) as display:
        display.note(HOSTILE)
        display.warn(HOSTILE)
    print_table(["a"], [[HOSTILE]], [])
    print_list("a", [HOSTILE])
    said = capsys.readouterr()
    assert (said.out + said.err).count(ESCAPED) == 4
    assert not set(HOSTILE) & {*"\x1b\x07\r\x9b\u202e"} & {*said.out, *said.err}


def test_values_are_cut() -> None:
    assert shown("a") == "'a'"
    assert shown("\x1b" * 100) == repr("\x1b" * 100)[:79] + "…"
    assert shown([1] * 100)[-1] == "…"
    assert shown(10**5_000) == "a value of int with too many digits"
