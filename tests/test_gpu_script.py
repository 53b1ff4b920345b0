"""`benchmarks/gpu.sh` and what it calls, without a GPU."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from checkout import ROOT

from benchmarks import throughput
from benchmarks.__main__ import cli
from benchmarks.cores import Case, _measure, cases
from benchmarks.report import read, table
from benchmarks.throughput import Bench
from benchmarks.works import WORKS

RUNS = [
    *("ppo-256-learner", "ppo-256-actor", "ppo-16-learner", "ppo-16-actor"),
    *("ppo-256-learner-bfloat16", "ppo-16-learner-bfloat16"),
    *("dqn-pong", "sac-pendulum"),
]
STUB = """#!/bin/sh
printf '%s\\n' "$*" >>"$COMMANDS"
while [ "$1" != --json ]; do shift; done
case $2 in *"$FAILS"*) echo broken; exit 3 ;; esac
echo '{}' >"$2"
"""


def gpu_sh(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", ROOT / "benchmarks" / "gpu.sh", folder / "out"],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        cwd=folder,
    )


@pytest.fixture
def stub(tmp_path: Path) -> dict[str, str]:
    """Return variables with an interpreter that only notes what it should run."""
    path = tmp_path / "python"
    path.write_text(STUB, encoding="utf-8")
    path.chmod(0o755)
    commands = str(tmp_path / "commands")
    return {"PYTHON": str(path), "COMMANDS": commands, "FAILS": "none"}


@pytest.mark.parametrize("rehearsal", ["", "1"])
def test_the_script_runs_what_can_be_run(
    stub: dict[str, str], rehearsal: str, tmp_path: Path
) -> None:
    """Each command is valid: its options, its settings, and enough env steps."""
    peer = {"SB3": sys.executable, "REHEARSE": rehearsal}
    done = gpu_sh(tmp_path, **stub, **peer)
    assert done.returncode == 0, done.stderr
    lines = Path(stub["COMMANDS"]).read_text(encoding="utf-8").splitlines()
    seen = []
    for line in lines:
        _, module, command, *words = shlex.split(line)
        assert module == "benchmarks"
        given: dict[str, Any] = (
            cli.commands[command].make_context(command, words).params
        )
        seen.append(given.pop("file").stem)
        if command == "cores":
            continue
        (name,), peers = given.pop("names"), given.pop("peers")
        bench = Bench(peers=throughput.parse_peers(peers), **given)
        ours, *others = bench._commands(name)
        assert others == (["sb3"] if peers else [])
        work = json.loads(bench._commands(name)[ours][-1])["settings"]
        config = WORKS[name].config(**work)[1]
        if "ppo" in name:  # some phases are measured after the warm-up
            size = config.env.n_envs * config.algorithm.batch_steps
            assert (bench.steps - bench.warmup) // size >= 2
    assert seen == ["cores", *RUNS]
    assert {path.stem for path in (tmp_path / "out").glob("*.json")} == set(seen)


def test_a_part_that_fails_is_named_and_the_others_are_run(
    stub: dict[str, str], tmp_path: Path
) -> None:
    done = gpu_sh(tmp_path, **{**stub, "FAILS": "256-actor"})
    assert done.returncode == 1
    assert "ppo-256-actor: exit code 3" in done.stdout and "broken" in done.stdout
    found = {path.stem for path in (tmp_path / "out").glob("*.json")}
    assert found == {"cores", *RUNS} - {"ppo-256-actor"}


def test_no_part_begins_without_time(stub: dict[str, str], tmp_path: Path) -> None:
    done = gpu_sh(tmp_path, **stub, LIMIT="5")
    assert done.stdout.count("no time is left") == 1 + len(RUNS)
    assert not Path(stub["COMMANDS"]).exists()


@pytest.mark.slow
def test_a_rehearsal(tmp_path: Path) -> None:
    """It trains for real; Stable-Baselines3 is left out."""
    done = gpu_sh(tmp_path, PYTHON=sys.executable, REHEARSE="1")
    assert done.returncode == 0, done.stdout
    for name in RUNS:
        stored = json.loads((tmp_path / "out" / f"{name}.json").read_text("utf-8"))
        ((speeds,),) = (result.speeds.values() for result in read(stored))
        assert speeds[0] > 0
    rows = json.loads((tmp_path / "out" / "cores.json").read_text("utf-8"))["rows"]
    assert all(row["stepping"] > 0 and row["acting"] > 0 for row in rows)


def test_numbers_are_written_after_each_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A measurement that is cut off leaves those that it had."""
    file, before = tmp_path / "speeds.json", []

    def run(command: Any) -> dict[str, Any]:
        before.append(file.exists() and json.loads(file.read_text(encoding="utf-8")))
        assert json.loads(command[-1])["warmup"] == 7
        return {"env_steps": 10, "seconds": 1.0, "updates": 1}

    monkeypatch.setattr(throughput, "_run", run)
    words = "throughput --work ppo-pong --mode local --runs 1 --bare --warmup 7"
    words += f" --variant n-steps=64 --steps 4096 --json {file}"
    cli.main(words.split(), standalone_mode=False)
    first, second = before
    assert not first
    (partial,) = read(second)
    assert [len(runs) for runs in partial.speeds.values()] == [1, 0]
    assert "10 (10–10)" in table([partial])


def test_cases_of_a_machine_with_hardware_threads() -> None:
    found = list(cases([0, 1, 2, 3], ["0,2", "1,3", "0,2", "1,3"]))
    used = {case.title: list(case.cores) for case in found}
    assert used["one process per physical core"] == [{0}, {1}]
    assert used["two processes, half of the cores apart"] == [{0}, {2}]
    assert used["one process per core, on any core"] == [{0, 1, 2, 3}] * 4
    assert {case.threads for case in found} == {1, 4}
    assert len(list(cases([5], ["5"]))) == 2


@pytest.mark.skipif(sys.platform != "linux", reason="chooses cores")
def test_the_parts_of_an_env_step_are_timed_in_processes_at_once() -> None:
    usable = os.sched_getaffinity(0)
    (row,) = _measure(Case("two", [usable, usable]), [1], seconds=0.0)
    assert (row["processes"], row["threads"], row["n_envs"]) == (2, 1, 1)
    assert all(row[part] > 0 for part in ("stepping", "acting", "rollout", "gflops"))
