"""What a user may leave out, what a run says at its end, and commands about runs."""

import inspect
import io
import re
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import forked
import pytest
from rich.console import Console

import xagents_ray
from xagents_ray.algorithms.presets import all_presets
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.commands import cli, shortcuts
from xagents_ray.commands.doctor import this_machine
from xagents_ray.core.errors import UserError
from xagents_ray.settings.config import Config
from xagents_ray.storage.history import History
from xagents_ray.storage.lock import is_locked, locked_directory
from xagents_ray.storage.run_directory import RunDirectory
from xagents_ray.watch.display import Display
from xagents_ray.watch.progress import Progress

Make = Callable[..., RunDirectory]


@pytest.fixture
def make_run() -> Make:
    """Return a function that writes the directory of a run that has ended."""

    def make(name: str, agent: str = "ppo", **settings: Any) -> RunDirectory:
        run = RunDirectory.create("runs", agent, "CartPole-v1", name, 1)
        values = {"env": "CartPole-v1", "n_envs": 8, **settings}
        run.begin(agent, 1, {"env": values}, {})
        history = History(run.history)
        for step in range(1, 25):
            history.add(100 * step, step, step, step, None)
        history.flush()
        facts = {"env_steps": 2_400, "last_reward": 12.5, "completed": True}
        run.finish({**facts, "signal": None, "seconds": 3.0})
        return run

    return make


def test_an_environment_is_enough(capsys: pytest.CaptureFixture[str]) -> None:
    words = shortcuts.with_preset_of(["CartPole-v1", "--seed", "1"])
    preset = ["--env", "CartPole-v1", "--preset=auto"]
    assert words == ["ppo", *preset, "--seed", "1"]
    said = capsys.readouterr().out
    assert said.startswith("ppo for CartPole-v1, preset: ≥ 495 on 28 of 29 runs after")
    assert said.endswith("choose with train AGENT --env CartPole-v1\n")
    assert shortcuts.with_preset_of(["Pendulum-v1", "--quiet"])[0] == "sac"
    assert capsys.readouterr().out == ""


def test_another_preset_may_be_named() -> None:
    words = shortcuts.with_preset_of(["CartPole-v1", "--preset", "own.yaml"])
    assert words == ["ppo", "--env", "CartPole-v1", "--preset", "own.yaml"]


@pytest.mark.parametrize("words", [[], ["ppo", "--env", "CartPole-v1"], ["--help"]])
def test_words_that_name_an_agent_stay(words: list[str]) -> None:
    assert shortcuts.with_preset_of(words) == words


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["CartPol-v1"], "did you mean CartPole-v1"),
        (["CartPole-v0"], "No agent has a recorded result in CartPole-v0: choose one"),
        (["nowhere:Own-v0"], "No agent has a recorded result in nowhere:Own-v0: "),
        (["Taxi-v4"], "No agent has a recorded result in Taxi-v4: choose one, as in"),
        (["CartPole-v1", "--env", "Taxi-v4"], "leave out --env"),
        (["CartPole-v1", "--env=Taxi-v4"], "leave out --env"),
        (["pppo"], "There is no agent 'pppo'; did you mean ppo"),
    ],
)
def test_what_names_neither_is_refused(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["train", *words, "--max-steps", "10"]) == 2
    assert said in capsys.readouterr().err


def test_one_preset_is_recommended_for_each_environment() -> None:
    """The one with the best recorded result, which it therefore has."""
    found = [preset for preset in all_presets() if preset.is_recommended]
    assert len({preset.env for preset in found}) == len(found) > 8
    assert all(preset.expected != "not known" for preset in found)
    known = {p.env for p in all_presets() if p.expected != "not known"}
    assert known == {preset.env for preset in found}


def test_the_newest_run_is_taken(make_run: Make, monkeypatch: Any) -> None:
    make_run("first", "a2c")
    second = make_run("second")
    path = str(second.path)
    assert shortcuts.with_run([]) == ["ppo", "--run", path]
    assert shortcuts.with_run(["last", "--episodes", "2"])[-2:] == ["--episodes", "2"]
    assert shortcuts.with_run(["--seed", "1"]) == ["ppo", "--run", path, "--seed", "1"]
    first = "runs/a2c/CartPole-v1/first"
    assert shortcuts.with_run([first]) == ["a2c", "--run", first]
    assert shortcuts.with_run(["--run", first]) == ["a2c", "--run", first]
    assert shortcuts.with_run(["ppo", "--run", "last"]) == ["ppo", "--run", "last"]
    for given in (["--weights", "a.h5"], ["--weights=a.tf"], ["--help"]):
        assert shortcuts.with_run(given) == given
    with pytest.raises(UserError, match=r"a\.npz: no such weights file"):
        shortcuts.with_run(["--weights=a.npz"])
    with pytest.raises(UserError, match="runs/none: there is no such directory"):
        shortcuts.with_run(["runs/none"])
    assert shortcuts.run_to_resume([]) == ["ppo", "--resume", path]
    assert shortcuts.run_to_resume([first, "--quiet"])[:3] == ["a2c", "--resume", first]


def test_without_a_run_a_bare_command_shows_its_flags(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.run(["play"]) == 0
    assert "xagents-ray play <agent>" in capsys.readouterr().out
    filming = ["play", "--video-dir", "videos"]
    for words in (["resume"], ["plot"], ["play", "last"], filming):
        assert cli.run(words) == 2
        assert "There is no run in runs" in capsys.readouterr().err


def test_runs_are_listed(
    make_run: Make, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    make_run("first", "a2c")
    make_run("second")
    assert cli.run(["runs"]) == 0
    out = capsys.readouterr().out
    assert all(len(line) <= 120 for line in out.splitlines())
    a2c, ppo = (line for line in out.splitlines() if "CartPole-v1" in line)
    cells = [cell.strip() for cell in ppo.strip("|").split("|")]
    assert cells[:5] == ["ppo", "CartPole-v1", "second", "2,400", "12.50"]
    assert cells[5] == "▁▂▂▃▄▄▅▅▆▇▇█"
    assert cells[6] == "completed"
    assert cells[7].endswith(" s")
    assert "first" in a2c


def test_a_run_is_shown_and_compared(
    make_run: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run("first", n_envs=4)
    make_run("second", lr=0.001)
    assert cli.run(["runs", "show"]) == 0
    out = capsys.readouterr().out
    assert "agent: ppo\n" in out and "lr: 0.001\n" in out and "env_steps: 2400" in out
    assert cli.run(["runs", "diff", "ppo/CartPole-v1/first", "last"]) == 0
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in capsys.readouterr().out.splitlines()
    ]
    assert ["n_envs", "4", "8"] in rows and ["lr", "None", "0.001"] in rows
    assert ["mean_reward", "12.50", "12.50"] in rows
    assert not any(row[0] == "env" for row in rows)


def test_runs_are_deleted_if_nobody_trains_them(
    make_run: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    run, other = make_run("first"), make_run("second")
    assert cli.run(["runs", "rm", str(run.path)]) == 2
    assert "add --yes" in capsys.readouterr().err
    with locked_directory(run.path):
        assert is_locked(run.path)
        assert cli.run(["runs", "rm", "--yes", str(run.path)]) == 2
    assert "is being trained" in capsys.readouterr().err
    assert cli.run(["runs", "rm", "--yes", str(run.path)]) == 0
    assert not run.path.exists() and other.path.exists()
    Path("mine").mkdir()
    assert cli.run(["runs", "rm", "--yes", "mine"]) == 2
    assert Path("mine").exists()


def test_a_checkpoint_is_no_run_to_delete(
    make_run: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run("first")
    checkpoint = run.checkpoints / "step-000000002400"
    checkpoint.mkdir(parents=True)
    assert cli.run(["runs", "rm", "--yes", str(checkpoint)]) == 2
    said = capsys.readouterr().err
    assert f"is a checkpoint of {run.path}: name that run" in " ".join(said.split())
    assert checkpoint.exists()


def test_a_run_that_is_named_twice_is_deleted_once(
    make_run: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    run, other = make_run("first"), make_run("second")
    named = ["last", str(other.path), "ppo/CartPole-v1/first"]
    assert cli.run(["runs", "rm", "--yes", *named]) == 0
    assert "Deleted 2 runs" in capsys.readouterr().out
    assert not run.path.exists() and not other.path.exists()


@pytest.mark.parametrize("words", [["resume"], ["plot"], ["play"], ["runs"]])
def test_a_directory_of_runs_may_be_below_home(
    words: list[str],
    make_run: Make,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The shell leaves `--run-dir=~/empty` as it is."""
    monkeypatch.setenv("HOME", str(Path.cwd()))
    Path("empty").mkdir()
    assert cli.run([*words, "--run-dir=~/empty"]) == 2
    said = "".join(capsys.readouterr().err.split())
    assert f"Thereisnorunin{Path.cwd()}/empty" in said


@pytest.mark.parametrize(
    ("text", "number"),
    [("100k", 100_000), ("1.5M", 1_500_000), ("2m", 2_000_000), ("1e6", 1_000_000)],
)
def test_steps_may_have_a_suffix(text: str, number: int) -> None:
    given = {"env": "CartPole-v1", "max_steps": text}
    assert Config.of(find_algorithm("ppo").config, given).training.max_steps == number


@pytest.mark.parametrize("text", ["1.0001k", "k", "100kk", "1e", "-1k", "100", "1e99"])
def test_other_texts_are_no_numbers(text: str) -> None:
    given = {"env": "CartPole-v1", "max_steps": text}
    with pytest.raises(UserError, match="--max-steps"):
        Config.of(find_algorithm("ppo").config, given)


@pytest.mark.parametrize("width", [40, 80, 140])
def test_the_reward_is_visible_in_every_terminal(width: int) -> None:
    text = io.StringIO()
    console = Console(file=text, width=width, force_terminal=True, color_system=None)
    config = Config.of(
        find_algorithm("dqn").config, {"env": "CartPole-v1", "max_steps": 100_000}
    )
    progress = Progress(deque([12.5], maxlen=100), earlier_seconds=40.0, env_steps=5000)
    progress.steady, progress.learned_until = (1_000, 10.0), (5_000, 20.0)
    progress.updates = 1
    with Display(config, console) as display:
        display.metrics = {"loss": 0.0123, "q_value": 45.6, "grad_norm": 7.0}
        display.show(progress)
    lines = text.getvalue().splitlines()
    assert any("mean reward" in line for line in lines)
    assert any("12.50" in line for line in lines)
    assert any("left" in line for line in lines) and "0:03:57" in text.getvalue()
    assert "0.0123" in text.getvalue() and "45.6" in text.getvalue()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_complete_commands(
    shell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["completion", shell]) == 0
    assert "_XAGENTS_RAY_COMPLETE" in capsys.readouterr().out


def test_help_is_a_command_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["help", "train", "ppo"]) == 0
    assert "Usage: xagents-ray train ppo" in capsys.readouterr().out


def test_python_completes_settings_and_names() -> None:
    known = inspect.signature(xagents_ray.train).parameters
    assert {"agent", "env", "n_envs", "max_steps", "lr", "settings"} <= known.keys()
    assert known["n_envs"].default == 1 and known["lr"].default is None
    assert set(dir(xagents_ray)) == set(xagents_ray.__all__)


def test_a_run_ends_with_what_to_do_next() -> None:
    words = "train CartPole-v1 --local --max-steps 64 --n-envs 2 --jit off --name b"
    done = forked.run(["-m", "xagents_ray", *words.split(), "--n-steps", "32"], 120)
    assert done.returncode == 0, done.stderr
    first, *_, title, evaluate, play, plot, resume = done.stdout.splitlines()
    assert first.startswith("ppo for CartPole-v1, preset: ")
    path = "runs/ppo/CartPole-v1/b"
    assert title.endswith(f"; files in {path}. Next:")
    assert [evaluate, play, plot] == [
        f"  xagents-ray {word} {path}" for word in ("evaluate", "play", "plot")
    ]
    assert re.fullmatch(rf"  xagents-ray resume {path} --max-steps \d+", resume)
    done = forked.run(["-m", "xagents_ray", "evaluate", "--episodes", "1"], 120)
    assert re.search(r"^mean \d", done.stdout, re.M), done.stderr
    assert done.stderr == f"ppo of {path}\n"


def test_a_report_is_one_page(make_run: Make, capsys: Any) -> None:
    first, second = make_run("first"), make_run("second", state_to_input="<script>")
    words = [
        "report",
        str(first.path),
        str(second.path),
        "--no-video",
        "-o",
        "a/r.html",
    ]
    assert cli.run(words) == 0
    assert capsys.readouterr().out == "a/r.html\n"
    page = Path("a/r.html").read_text(encoding="utf-8")
    assert "<svg" in page and "ppo on CartPole-v1" in page
    assert "<script" not in page and "&lt;script&gt;" in page
    assert "src=" not in page and 'href="http' not in page


def test_files_from_others_are_listed_and_reported(make_run: Make, capsys: Any) -> None:
    """Their values may have any type."""
    path = make_run("first").path
    (path / "run.json").write_text('["no start", 5, {"started": 7, "versions": []}]')
    (path / "summary.json").write_text(
        '{"env_steps": "many", "last_reward": [], "failures": 3, "profile": {"shares": '
        '{"learning": "all"}}}'
    )
    assert cli.run(["runs"]) == 0
    cells = [c.strip() for c in capsys.readouterr().out.split("|") if c.strip()]
    assert cells[cells.index("first") + 1 :][:2] == ["-", "-"]
    assert cli.run(["runs", "show"]) == 0
    assert cli.run(["report", "--no-video"]) == 0
    assert "Unknown: the run has not ended in order" in Path("report.html").read_text()


def test_an_empty_report_is_refused() -> None:
    with pytest.raises(UserError, match="nothing to report; name one run or more"):
        xagents_ray.report([])


def test_a_report_says_what_could_not_be_filmed(make_run: Make) -> None:
    make_run("first")
    page = xagents_ray.report(output="r.html").read_text(encoding="utf-8")
    assert "It could not be filmed: " in page


@pytest.mark.parametrize("flag", ["--help", "--help-all"])
@pytest.mark.parametrize("width", [40, 80, 140])
def test_help_fits_the_terminal(
    width: int,
    flag: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(cli.CONTEXT, "terminal_width", width - 2)
    assert cli.run(["train", "ppo", flag]) == 0
    lines = capsys.readouterr().out.splitlines()
    titles = [line for line in lines if line.endswith(":") and line[:1].isupper()]
    sections = ["Environment:", "Agent:", "Run:", "Watching:", "Where it runs:"]
    assert titles == [*sections, "Options:", "Examples:"]
    wrapped = lines[: lines.index("Examples:")]
    wide = [line for line in wrapped if len(line) > width]
    assert all(line.startswith("  --") for line in wide)  # a flag can't be wrapped
    begin = next(i for i, line in enumerate(lines) if line.lstrip().startswith("--lr "))
    assert "earning rate" in " ".join(lines[begin : begin + 2])


def test_runs_below_a_directory_are_one_curve_with_a_band(make_run: Make) -> None:
    for name in ("first", "second", "third"):
        make_run(name)
    make_run("other", "a2c")
    figure = xagents_ray.plot("runs", output="all.pdf")
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert labels == ["other", "CartPole-v1, 3 runs"]
    assert len(figure.axes[0].collections) == 1  # the band
    assert Path("all.pdf").read_bytes().startswith(b"%PDF")


def test_a_bare_doctor_examines_this_machine(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(this_machine, "_RAY_SECONDS", 0.0)  # its tests start Ray
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("HOME", str(Path.cwd()))
    assert cli.run(["doctor"]) == 0
    out = capsys.readouterr().out
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in out.splitlines()
        if line.startswith("|")
    ]
    found = {row[0]: row[1:] for row in rows}
    assert f"xagents-ray {xagents_ray.__version__}" in found["versions"][1]
    assert {"GPU", "memory", "disk", "shared memory"} <= found.keys()
    assert found["W&B"][1].startswith("not logged in")
    assert found["Ray"] == ["warning", "not started within 0 s"]
    assert "use --local, which needs no Ray" in out
