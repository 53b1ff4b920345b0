"""The benchmarks: what is measured, and what is made of it."""

import json
import os
import shlex
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

import click
import forked
import numpy as np
import psutil
import pyarrow.parquet as pq
import pytest
from checkout import ROOT
from click.testing import CliRunner
from policies import policy_of
from processes import has_ended, python, start, wait_for
from stepping import Stepping

from benchmarks import driver, learning, one_start, peer, peer_rlox, startup
from benchmarks.__main__ import cli
from benchmarks.cores import _weights
from benchmarks.learned import HEADS, Learned, Reached, comparison, read_all
from benchmarks.learning import RESULTS, evaluate_from_same_starts, pairs
from benchmarks.one_run import Clock
from benchmarks.parts import ActingParts, Parts, measure
from benchmarks.provenance import (
    clean_commit,
    has_changed,
    learning_sources,
    settings_digest,
)
from benchmarks.recording import Stopwatch
from benchmarks.report import Result, joined, losses, read, report, table
from benchmarks.roofline import costs, grid, variants
from benchmarks.throughput import Bench, parse_peers
from benchmarks.works import MODES, WORKS, parse_settings
from xagents_ray.core.errors import Stopped, UserError
from xagents_ray.run.prepare import prepare_run
from xagents_ray.watch.progress import Progress

LEARN_PPO = "learning --agent ppo --env CartPole-v1"


COMMIT = subprocess.run(
    ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
).stdout.strip()


@pytest.fixture
def committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let changes of whoever works on the tests count as committed."""
    monkeypatch.setattr("benchmarks.learning.clean_commit", lambda: COMMIT)


def run(words: str) -> str:
    """Run a command of the benchmarks in this process; return what it prints."""
    done = CliRunner().invoke(cli, words.split(), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_settings_have_their_types() -> None:
    texts = ["n-envs=8", "vectorization=envpool", "lr=3e-4", "double=true", "model=a=b"]
    assert parse_settings(texts) == {
        "n_envs": 8,
        "vectorization": "envpool",
        "lr": 3e-4,
        "double": True,
        "model": "a=b",
    }
    with pytest.raises(UserError, match="write one as n-envs=8"):
        parse_settings(["n-envs"])


def test_peers_are_named_with_their_interpreters() -> None:
    assert parse_peers([f"sbx={sys.executable}"]) == {"sbx": sys.executable}
    known = "sb3, sbx, rlox, contrib"
    with pytest.raises(UserError, match=f"takes one of {known}, got 'rllib'"):
        parse_peers([f"rllib={sys.executable}"])
    for given in ("sb3", "sb3=/nowhere/python", "sb3=/"):
        with pytest.raises(UserError, match=r"benchmarks/peers\.sh DIR makes one"):
            parse_peers([given])


@pytest.mark.parametrize(
    ("name", "library"),
    [(name, library) for name, work in WORKS.items() for library in work.peers],
)
def test_peers_update_as_often_as_ours(name: str, library: str) -> None:
    """Off-policy: equally many updates per env step, and as often in a run."""
    work = WORKS[name]
    for mode in work.modes:
        work.config(**MODES[mode])
    _, config = work.config()
    settings = config.values()
    if library == "rlox":
        theirs = peer_rlox._config(settings)
        collected = theirs["n_envs"] * theirs["n_steps"]
        assert theirs["batch_size"] * settings["mini_batches"] == collected
        assert theirs["n_epochs"] == settings["ppo_epochs"]
        return
    asked = {"library": library, "agent": work.agent, "settings": settings}
    asked |= {"steps": work.steps, "rollout": None}
    if "n_steps" in settings:
        theirs = peer._on_policy(asked)
        assert theirs["n_steps"] == settings["n_steps"]
        return
    for rollout in (None, 1):
        theirs = peer._off_policy({**asked, "rollout": rollout})
        collected = theirs["train_freq"] * settings["n_envs"]
        ours = settings["gradient_steps"] / settings["train_frequency"]
        assert theirs["gradient_steps"] / collected == ours
        assert theirs["train_freq"] == (rollout or settings["rollout_length"])


def test_a_measurement_that_is_terminated_ends_its_run() -> None:
    words = "throughput --work ppo-cartpole --mode local --runs 1".split()
    with start("-m", "benchmarks", *words, cwd=ROOT) as bench:
        while not (runs := psutil.Process(bench.pid).children()):
            time.sleep(0.05)
        bench.terminate()
        assert bench.wait(30) == 143
    wait_for(lambda: all(map(has_ended, runs)), 30)


def test_the_clock_starts_after_the_warmup() -> None:
    clock, progress = Clock(warmup=100), Progress(deque())
    for steps in (50, 120, 200, 260):
        progress.env_steps = steps
        progress.learned(3)
        clock(progress)
    measured = clock.measured()
    assert (measured["env_steps"], measured["updates"]) == (140, 6)
    assert measured["seconds"] > 0


def result() -> Result:
    result = Result("work", "Work", {"xagents-ray local": [], "sb3": []})
    for seconds in (1, 2, 4):
        run = {"env_steps": 8_000, "seconds": seconds, "updates": 4_000}
        result.add("xagents-ray local", run)
        versions = {"torch": "2"}
        result.add("sb3", {**run, "seconds": 2 * seconds, "versions": versions})
    return result


def test_the_table_has_medians_spreads_and_ratios() -> None:
    assert table([result(), Result("alone", "Alone", {"xagents-ray ray": [7.0]})]) == (
        "| work | mode | xagents-ray, env steps/s | sb3 | ÷ sb3 |\n"
        "| --- | --- | --- | --- | --- |\n"
        "| Work | local | 4,000 (2,000–8,000) | 2,000 (1,000–4,000) | 2.00 |\n"
        "| Alone | ray | 7 (7–7) | – | – |"
    )


def test_a_report_can_be_read() -> None:
    stored = json.loads(json.dumps(report({"runs": 3}, [result()])))
    assert read(stored) == [result()]
    (entry,) = stored["results"]
    assert entry["ratios"] == {"xagents-ray local": {"sb3": 2.0}}
    assert entry["updates"] == {"xagents-ray local": 0.5, "sb3": 0.5}
    assert entry["versions"] == {"sb3": {"torch": "2"}}
    assert stored["machine"]["cores"] >= 1 and stored["versions"]["tensorflow"]


def test_reports_of_one_commit_are_joined() -> None:
    first, other = (report({"runs": 3}, [result()]) for _ in range(2))
    whole = read(joined([first, other]))
    assert [len(speeds) for speeds in whole[0].speeds.values()] == [6, 6]
    assert whole[0].ratios == result().ratios
    assert read(first) == [result()]
    other["commit"] = "another"
    with pytest.raises(UserError, match="differ in their commit"):
        joined([first, other])


def test_a_chart_has_each_work_and_ratio(tmp_path: Path) -> None:
    stored, picture = tmp_path / "report.json", tmp_path / "chart.svg"
    stored.write_text(json.dumps(report({}, [result()])))
    run(f"chart {stored} {picture}")
    drawn = picture.read_text()
    assert all(text in drawn for text in ("<!-- Work -->", "<!-- 2.00 -->", "- -local"))


def test_only_ratios_that_have_fallen_are_named() -> None:
    now = result()
    now.speeds["sb3"] = [2_500.0]
    (sentence,) = losses([result()], [now], tolerance=0.1)
    assert sentence == "work xagents-ray local ÷ sb3 was 2.00 and is 1.60"
    assert losses([result()], [now], tolerance=0.25) == []
    assert losses([now], [result()], tolerance=0.1) == []
    alone = Result("work", "Work", {"xagents-ray local": [1.0]})
    with pytest.raises(UserError, match="no ratio in common"):
        losses([result()], [alone], tolerance=0.1)


def test_costs_are_those_of_the_fastest_calls() -> None:
    spans = {"roll_out": [0.9, 0.8], "step": [0.5], "act": [0.1, 0.2], "learn": [2.0]}
    assert costs(spans, env_steps=100) == {
        "stepping": pytest.approx(5_000),
        "forward (acting)": pytest.approx(1_000),
        "storing a rollout": pytest.approx(2_000),
        "forward + backward (learning), weights out": pytest.approx(20_000),
    }


def test_the_grid_has_every_combination_of_what_is_given() -> None:
    assert list(grid({"jit": ("on", "off"), "batch": (), "threads": (1,)})) == [
        {"jit": "on", "threads": 1},
        {"jit": "off", "threads": 1},
    ]
    assert list(grid({"jit": ()})) == [{}]
    axes = {"buffer_batch_size": (32, 64)}
    assert list(variants(["a2c-cartpole", "dqn-cartpole"], axes)) == [
        ("a2c-cartpole", {}),
        ("dqn-cartpole", {"buffer_batch_size": 32}),
        ("dqn-cartpole", {"buffer_batch_size": 64}),
    ]


@pytest.mark.parametrize(
    ("work", "settings", "updates", "size"),
    [
        ("a2c-cartpole", {}, 1, 0),
        ("a2c-cartpole", {"replay_ratio": 5.0, "online_learning": False}, 5, 5 * 2),
        ("td3-pendulum", {}, 2 * 16, 100),
    ],
)
def test_every_part_of_a_work_can_be_timed(
    work: str, settings: dict[str, Any], updates: int, size: int
) -> None:
    run = prepare_run(*WORKS[work].config(local=True, n_envs=2, seed=1, **settings))
    parts = ["roll_out", "step", "act", "draw", "learn", "publish", "bind"]
    parts += [] if run.learns_online else ["insert"]
    found = measure(Parts(run), parts, seconds=0.0)
    assert {name: len(calls) for name, calls in found["spans"].items()} == {
        name: 3 for name in parts
    }
    assert found["updates"] == updates
    assert found["sampled"] == found["updates"] * size
    assert found["env_steps"] > 0 and found["weights_nbytes"] > 0


def test_a_setting_that_is_wrong_is_refused_before_anything_is_run() -> None:
    bench = Bench(peers={}, runs=1, settings={"n_env": 3})
    with pytest.raises(UserError, match="did you mean n_envs"):
        next(bench.rounds("a2c-cartpole"))
    with pytest.raises(UserError, match="measured after 1,500 env steps"):
        next(Bench(peers={}, runs=1, steps=1_000).rounds("td3-pendulum"))


@pytest.mark.slow
def test_throughput_as_it_is_typed(tmp_path: Path) -> None:
    file = tmp_path / "speeds.json"
    words = "throughput --work a2c-cartpole --mode local --runs 1 --steps 800"
    words += f" --json {file}"
    done = python("-m", "benchmarks", *words.split(), cwd=ROOT)
    assert done.returncode == 0, done.stderr
    (measured,) = read(json.loads(file.read_text(encoding="utf-8")))
    assert done.stdout.strip() == table([measured])
    # Rows that only reset an environment are learned from and are no env steps.
    assert measured.updates == {"xagents-ray local": pytest.approx(1 / 80, rel=0.2)}


def test_what_a_command_prints_says_when_it_learned() -> None:
    lines = [
        (1.0, "Loading TensorFlow..."),
        (2.0, "time: 0:00:00, steps: 0"),
        (3.0, ""),
    ]
    learned = (4.0, "time: 0:00:02, steps: 64")
    assert startup._reached([*lines, learned], 2.5) == [1, 2, 2.5, 4]
    with pytest.raises(click.ClickException, match="didn't learn from its first round"):
        startup._reached(lines, 2.5)


def test_the_parts_of_a_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    words = [*startup._command("a2c", str(tmp_path)), "--local", "--jit", "off"]
    done = forked.run(["-m", "benchmarks.one_start", json.dumps(words)], 120)
    found = json.loads(done.stdout.splitlines()[-1])
    assert found.keys() == {*one_start.PARTS}
    load, _, build, *_, phase, trace, rest = (
        found[part][0] for part in one_start.PARTS
    )
    assert min(load, build, trace, rest) > 0
    assert trace + rest == pytest.approx(phase)


@pytest.mark.parametrize("inference", ["onnx", "actor"])
def test_acting_is_timed_as_a_run_acts(inference: str) -> None:
    given = WORKS["ppo-pong"].config(n_envs=2, n_steps=2, inference=inference)
    run = prepare_run(*given)
    parts = ActingParts(run, _weights(run))
    assert (parts._policy._trunk is not None) == (inference == "onnx")


def test_the_parts_are_those_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[Any] = []

    def found(command: Any) -> dict[str, tuple[float, float]]:
        commands.append(command)
        return dict.fromkeys(one_start.PARTS, (2.0, 1.0))

    monkeypatch.setattr(startup, "in_fresh_process", found)
    rows = startup.measure_parts("a2c", 1)
    assert [row[0] for row in rows] == [*one_start.PARTS]
    words = json.loads(commands[0][-1])
    assert [*words[:2], words[-1]] == ["train", "a2c", "--local"]


def test_time_within_another_part_counts_once() -> None:
    watch = Stopwatch()
    inner = watch.timed("inner", lambda: time.sleep(0.02))
    watch.timed("outer", inner)()
    assert watch.seconds["inner"] == 0 and watch.seconds["outer"] >= 0.02
    inner()
    assert watch.seconds["inner"] >= 0.02


@pytest.mark.usefixtures("committed")
def test_what_presets_learned_is_recorded_and_shown(tmp_path: Path) -> None:
    """A pair that is complete is evaluated again, and not trained again."""
    page, results = tmp_path / "results.md", tmp_path / "results"
    page.write_text("Before.\n\n<!-- learned -->\n<!-- end of learned -->\n\nAfter.\n")
    command = f"{LEARN_PPO} --seeds 1 --episodes 3 --set max-steps=600 --page {page} "
    for _ in range(2):
        run(f"{command} --run-dir {tmp_path / 'runs'} --results {results}")
    assert {path.suffix for path in results.iterdir()} == {".json", ".svg", ".parquet"}
    (found,) = read_all(results)
    stored = json.loads((results / "ppo-CartPole-v1.json").read_text())
    assert stored["settings"] == {"max_steps": 600}
    assert stored["command"].endswith("--seeds 1 --episodes 3 --set max_steps=600")
    resolved = stored["resolved"]
    assert (resolved["max_steps"], resolved["env"]) == (600, "CartPole-v1")
    assert resolved["gamma"] < 1 and "seed" not in resolved  # the preset's too
    assert stored["digest"] == settings_digest(resolved) == found.digest
    assert stored["commit"] == COMMIT == found.commit
    assert found.start_seed is not None and "own starts" not in found.remarks()
    assert (found.agent, found.env, [*found.seeds]) == ("ppo", "CartPole-v1", [1])
    rows = pq.read_table(results / "ppo-CartPole-v1.parquet")
    assert set(rows["seed"].to_pylist()) == {1}
    (history,) = (tmp_path / "runs").rglob("history.parquet")
    shown = ["step", "time", "episode_reward"]
    assert rows.select(shown).equals(pq.read_table(history, columns=shown))
    text = page.read_text()
    assert text.startswith("Before.\n") and text.endswith("\nAfter.\n")
    (line,) = (x for x in text.splitlines() if x.startswith("| ppo"))
    assert line.startswith("| ppo | CartPole-v1 with `max_steps=600` |")
    assert "| 500 @ 100k |" in line
    assert "Of the 1 pair that both have, 0 are at RL Zoo's mean" in text
    assert len(list((tmp_path / "runs").rglob("config.yaml"))) == 1


@pytest.mark.usefixtures("committed")
def test_other_results_leave_the_page_of_results_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = os.path.relpath(RESULTS)
    page = tmp_path / "page.md"
    page.write_text("<!-- learned -->\n<!-- end of learned -->\n")
    learned = Learned("ppo", "CartPole-v1", 1, {1: Reached(9.0, 0.0, None, 64, 1)})
    monkeypatch.setattr("benchmarks.learning._PAGE", page)
    monkeypatch.setattr("benchmarks.learning.Bench.learn", lambda *_: learned)
    before = page.read_text()
    for own, is_same in (
        (f"--results {tmp_path}", True),
        ("", False),
        (f"--results {usual}", False),
    ):
        page.write_text(before)
        run(f"{LEARN_PPO} {own}")
        assert (page.read_text() == before) == is_same


@pytest.mark.usefixtures("committed")
def test_a_pair_of_which_every_run_fails_is_reported(tmp_path: Path) -> None:
    folders = tmp_path / "runs", tmp_path / "results"
    bench = learning.Bench((1,), 100, *folders, COMMIT)
    name = bench.run_settings("ppo", "CartPole-v1")["name"]
    runs = tmp_path / "runs" / "seeds" / name
    runs.mkdir(parents=True)
    (runs / "ppo").touch()  # where the runs' directories go
    folders = f"--run-dir {tmp_path / 'runs'} --results {tmp_path / 'results'}"
    with pytest.raises(UserError, match="ppo CartPole-v1: 1 of 1 seed failed; seed 1"):
        run(f"{LEARN_PPO} --seeds 1 {folders}")


def test_runs_of_other_settings_are_not_taken_for_those_of_a_preset(
    tmp_path: Path,
) -> None:
    preset = tmp_path / "preset.yaml"

    def name(**settings: object) -> object:
        bench = learning.Bench((1,), 100, tmp_path, tmp_path, COMMIT, settings)
        return bench.run_settings("ppo", "CartPole-v1")["name"]

    preset.write_text("settings: {n_envs: 8}")
    names = [name(), name(n_envs=4), name(preset=str(preset))]
    preset.write_text("settings: {n_envs: 4}")
    names.append(name(preset=str(preset)))
    assert len({*names}) == 4 and name(preset=str(preset)) == names[-1]


def test_a_row_of_what_was_learned_has_its_worst_seed_first() -> None:
    reached = {
        seed: Reached(mean, 1.0, None, 100_000, 90)
        for seed, mean in {1: 500.0, 2: 400.25, 3: 450.0}.items()
    }
    row = Learned("ppo", "CartPole-v1", 100, reached).row()
    assert row[:6] == [
        "ppo", "CartPole-v1", "100k", "400 · 450 · 500", "2 of 1–3", "450 ± 29",
    ]  # fmt: skip
    assert row[6].startswith("450 [4")
    files = "[numbers]({0}.json) · [history]({0}.parquet) · [curve]({0}.svg)"
    links = files.format("results/ppo-CartPole-v1")
    assert row[7:] == ["500 @ 100k", "4 min", links, "own starts"]
    on_ray = {"local": False, "n_actors": 2}
    one = Learned("ppo", "CartPole-v1", 100, {1: reached[1]}, on_ray).row()
    assert one[1] == "CartPole-v1 with `local=False`, `n_actors=2`"
    assert one[4:7] == ["1 of 1", "500", "500"]  # no error and no interval
    apart = Learned("ppo", "CartPole-v1", 100, {1: reached[1], 3: reached[2]})
    assert apart.row()[4] == "3 of 1, 3"


@pytest.mark.usefixtures("committed")
def test_a_result_has_the_command_that_repeats_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[learning.Bench] = []
    reached = Reached(1.0, 0.0, None, 1, 1)
    settings = {"local": False, "lr": 3e-4, "precision": "bfloat16", "sizes": [8, 4]}
    given = Learned("ppo", "CartPole-v1", 7, {1: reached, 4: reached}, settings)

    def learn(bench: learning.Bench, *_: str) -> Learned:
        asked.append(bench)
        return given

    monkeypatch.setattr(learning.Bench, "learn", learn)
    _, _, _, *words = shlex.split(given.command)
    CliRunner().invoke(
        cli, [*words, "--results", str(tmp_path)], catch_exceptions=False
    )
    assert [(each.seeds, each.episodes) for each in asked] == [((1, 4), 7)]
    assert asked[0].settings == settings


def learned(agent: str, env: str, means: list[float], **more: Any) -> Learned:
    seeds = {n: Reached(mean, 1.0, None, 1, 1) for n, mean in enumerate(means)}
    return Learned(agent, env, 500, seeds, start_seed=0, **more)


@pytest.mark.parametrize(
    ("agent", "env", "means", "is_at"),
    [
        ("ddpg", "FetchReach-v4", [-1.68], False),  # RL Zoo's is -1.659
        ("ddpg", "FetchReach-v4", [-1.69, -1.63], True),  # -1.66 ± 0.03
        ("ddpg", "FetchReach-v4", [-1.7, -1.69], False),
        ("a2c", "Acrobot-v1", [-83.353], True),
        ("a2c", "Acrobot-v1", [-83.4], False),
        ("dqn", "CartPole-v1", [495.1], True),
        ("dqn", "CartPole-v1", [494.9], False),
        ("a3c", "CartPole-v1", [500.0], None),
    ],
)
def test_what_is_at_rl_zoo_is_decided_before_rounding(
    agent: str, env: str, means: list[float], is_at: bool | None
) -> None:
    assert learned(agent, env, means).is_at_zoo is is_at


def test_a_row_says_where_the_algorithm_or_the_settings_differ() -> None:
    def said(agent: str, env: str, **more: Any) -> list[str]:
        return learned(agent, env, [1.0], **more).remarks()

    own = {"double": True, "dueling": True, "prioritized": True, "n_step": 3}
    parts = ["double", "dueling", "prioritized", "3-step"]
    assert said("dqn", "CartPole-v1", resolved=own) == parts
    assert said("dqn", "PongNoFrameskip-v4") == parts  # of its preset
    more = {"noisy": "factorised", "distributional": True, "n_step": 1}
    assert said("dqn", "CartPole-v1", resolved=more) == ["noisy", "C51"]
    assert said("a2c", "Pendulum-v1") == ["replay"]
    assert said("acer", "CartPole-v1") == said("ppo", "CartPole-v1") == []
    fetch = "gymnasium_robotics:FetchReach-v4"
    assert said("sac", fetch) == ["RL Zoo: TQC"]
    assert said("ppo", "CartPole-v1", digest="of others") == ["other settings"]
    assert "uncommitted changes" in said("ppo", "CartPole-v1", commit=f"{COMMIT}+")
    missing = said("ppo", "CartPole-v1", commit="0" * 40)
    assert missing == ["commit not in this clone"]


def test_the_page_shows_the_stored_results() -> None:
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    found = read_all(RESULTS)
    assert comparison(found) in page
    for each in found:  # what is older than the code changes with every commit
        cells = each.row()[: HEADS.index("remarks")]
        assert f"| {' | '.join(cells)} | " in page


def git(folder: Path, *words: str) -> str:
    who = "-c", "user.name=a", "-c", "user.email=a@b"
    done = subprocess.run(
        ["git", *who, *words], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def commit(folder: Path, name: str, text: str) -> str:
    """Commit a file; return the commit."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", name)
    return git(folder, "rev-parse", "HEAD")


def test_results_are_of_a_commit_without_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match="is no git checkout with a commit: results"):
        clean_commit(tmp_path)
    git(tmp_path, "init", "-q")
    head = commit(tmp_path, "learners/ppo.py", "first")
    results = "docs/results/ppo-CartPole-v1.json", "benchmarks/results/gate/a.json"
    for written in ("docs/results.md", *results):
        (tmp_path / written).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / written).write_text("new")  # by the benchmark itself
    assert clean_commit(tmp_path) == head
    (tmp_path / "learners/ppo.py").write_text("second")
    with pytest.raises(UserError, match=r"learners/ppo\.py isn't committed: results"):
        clean_commit(tmp_path)
    (tmp_path / "more.py").write_text("")
    with pytest.raises(UserError, match=r"learners/ppo\.py and 1 more isn't committed"):
        clean_commit(tmp_path)
    monkeypatch.setattr(
        "benchmarks.learning.clean_commit", lambda: clean_commit(tmp_path)
    )
    runs = tmp_path / "runs"
    with pytest.raises(UserError, match="commit or stash the changes first"):
        run(f"{LEARN_PPO} --seeds 1 --run-dir {runs} --results {tmp_path / 'r'}")
    assert not runs.exists()


def test_a_result_is_older_than_its_learner_or_replay(tmp_path: Path) -> None:
    sources = {str(path) for path in learning_sources("dqn")}
    assert {"learners/dqn.py", "learners/optimizer.py"} < sources
    assert "xagents_ray/replay/transitions.py" in sources
    assert "learners/ppo.py" not in sources
    git(tmp_path, "init", "-q")
    first = commit(tmp_path, "learners/dqn.py", "1")
    second = commit(tmp_path, "learners/ppo.py", "1")
    third = commit(tmp_path, "xagents_ray/replay/transitions.py", "1")
    commit(tmp_path, "docs/index.md", "1")
    is_old = {
        agent: [has_changed(each, agent, tmp_path) for each in (first, second, third)]
        for agent in ("dqn", "ppo", "trpo")
    }
    assert is_old == {
        "dqn": [True, True, False],
        "ppo": [True, False, False],
        "trpo": [False, False, False],
    }
    assert has_changed("0" * 40, "dqn", tmp_path) is None


class Drawn(Stepping):
    """Pays a number that it draws at the start; actions say how long an episode is."""

    first = 0.0

    def reset(self, **settings: Any) -> Any:
        observation, info = super().reset(**settings)
        self.first = float(observation[0])
        return observation, info

    def observe(self) -> Any:
        return self.np_random.uniform(-1, 1, 3).astype(np.float32)

    def reward(self, action: Any) -> float:
        self.length = max(self.steps, 3 + 3 * int(action))
        return self.first if self.steps == 1 else 0.0


def test_all_policies_are_evaluated_from_the_same_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policies = [policy_of(agent, env=Drawn) for agent in ("dqn", "ppo")]
    first, other = (evaluate_from_same_starts(each, 7) for each in policies)
    assert len({*first.returns}) == 7
    assert first.returns == other.returns
    monkeypatch.setattr("benchmarks.learning._AT_ONCE", 3)
    assert evaluate_from_same_starts(policies[0], 7).returns == first.returns


@pytest.mark.parametrize("text", [None, "<!-- learned -->\n"])
@pytest.mark.usefixtures("committed")
def test_a_page_that_takes_no_table_is_refused_before_training(
    tmp_path: Path, text: str | None
) -> None:
    page, runs = tmp_path / "page.md", tmp_path / "runs"
    if text is not None:
        page.write_text(text)
    folders = f"--run-dir {runs} --results {tmp_path / 'r'}"
    message = "No such file" if text is None else "has no place for a table"
    with pytest.raises(UserError, match=message):
        run(f"{LEARN_PPO} --seeds 1 --page {page} {folders}")
    assert not runs.exists()
    assert text is None or page.read_text() == text


@pytest.mark.parametrize("seeds", ["a", "1-", "", "5-3", "1-3-7", "-1"])
def test_seeds_that_are_no_numbers(seeds: str) -> None:
    with pytest.raises(UserError, match="takes numbers as in 1-5 or 1,2,7"):
        CliRunner().invoke(cli, ["learning", "--seeds", seeds], catch_exceptions=False)


@pytest.mark.usefixtures("committed")
def test_interrupted_learning_says_how_to_resume(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("benchmarks.learning.Bench.learn", interrupt)
    done = CliRunner().invoke(cli, ["learning", "--agent", "ppo"])
    assert isinstance(done.exception, Stopped)
    assert done.output == "Interrupted: the same command resumes its runs.\n"


@pytest.mark.usefixtures("committed")
def test_what_the_benchmark_sets_is_refused() -> None:
    with pytest.raises(UserError, match="--set can't give seeds, which the benchmark"):
        run(f"{LEARN_PPO} --set seeds=1")


def test_no_preset_fits() -> None:
    with pytest.raises(UserError, match="No preset fits dqn Pendulum-v1"):
        pairs(["dqn"], ["Pendulum-v1"])
    assert ("ppo", "CartPole-v1") in pairs([], [])
    assert not any("*" in env for _, env in pairs([], []))
    of_all_games = ("a2c", "PongNoFrameskip-v4")
    assert of_all_games not in pairs([], [])
    assert of_all_games in pairs([], ["PongNoFrameskip-v4"])


def test_a_wake_of_the_driver_asks_for_what_has_ended_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its cost doesn't grow with the actors: Ray is asked for few references."""
    asked, wait = list[int](), driver._Ray.wait

    def counted(references: Any, num_returns: int, **limits: Any) -> Any:
        asked.append(len(references))
        return wait(references, num_returns, **limits)

    monkeypatch.setattr(driver, "_SECONDS", 0.0)
    monkeypatch.setattr(driver._Ray, "wait", staticmethod(counted))
    assert driver.wake_seconds(400, 5) > 0
    wakes = asked[400:]  # after the starts
    assert wakes and max(wakes) <= 2
