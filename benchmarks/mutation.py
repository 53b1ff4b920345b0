"""Mutation testing: do tests detect a changed number, comparison or sign?

`python -m benchmarks mutants` samples mutants of the learners, the replay and the
processes of a run, applies each one to a copy of the checkout, and runs the tests that
execute its line.
"""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import click
import pytest

from benchmarks.mutants import Mutant, find_mutants
from benchmarks.subprocesses import ROOT, in_fresh_process, module

SOURCES = ("learners", "xagents_ray/replay", "cluster/run")
"""Directories to mutate."""
TESTS = ("tests/learners", "tests/replay", "tests/cluster/run", "tests/contract")
"""Directories of the tests."""

_BAR = 0.9
_SECONDS = 150.0
_SECONDS_OF_TESTS = 60.0  # well below _SECONDS, so a timeout means that code hangs


class Outcome(NamedTuple):
    """The outcome of a mutant.

    Attributes:
        mutant: file and line, with the text before and after the change.
        verdict: killed, survived or not decided.
        reason: the failed test, or the number of tests that passed.
    """

    mutant: str
    verdict: str
    reason: str


class Copy:
    """A copy of a checkout, to which mutants are applied.

    Args:
        root: path of the checkout.
        folder: directory to copy into.
    """

    def __init__(self, root: Path, folder: Path) -> None:
        self._folder = folder / "checkout"
        others = shutil.ignore_patterns(".*", "__pycache__", "runs", "site", "weekly")
        shutil.copytree(root, self._folder, symlinks=True, ignore=others)
        # Child processes of tests also use the copy, not the installed package.
        paths = os.pathsep.join([str(self._folder), str(ROOT)])
        self._environment = {**os.environ, "PYTHONPATH": paths}

    def outcomes(
        self, drawn: Sequence[Mutant], tests: Sequence[str] = TESTS
    ) -> Iterator[Outcome]:
        """Run the tests that cover each mutant; yield the outcomes."""
        lines: dict[str, list[int]] = {}
        for mutant in drawn:
            lines.setdefault(mutant.file, []).extend(mutant.lines)
        asked = {"tests": tests, "lines": lines}
        command = module("coverage_map", asked)
        covered = in_fresh_process(command, self._folder, self._environment)
        for mutant in drawn:
            yield self._outcome(mutant, covered)

    def _outcome(self, mutant: Mutant, covered: Mapping[str, Any]) -> Outcome:
        path = self._folder / mutant.file
        source = path.read_bytes()
        told = mutant.told(source)
        suited = _suited(mutant, covered)
        if not suited:
            return Outcome(told, "survived", "no test runs it")
        tests, seconds = [], 0.0
        for test, took in suited.items():
            seconds += took
            if seconds <= _SECONDS_OF_TESTS:
                tests.append(test)
        if not tests:
            return Outcome(told, "not decided", "its tests take too long")
        _write(path, mutant.made(source))
        try:
            verdict, reason = self._verdict(tests)
        finally:
            _write(path, source)
        return Outcome(
            told, verdict, reason or f"{len(tests)} of {len(suited)} tests ran"
        )

    def _verdict(self, tests: Sequence[str]) -> tuple[str, str]:
        """Return what became of a mutant, and which test failed, or another reason."""
        command = [sys.executable, "-m", "pytest", "-n0", "-xq", "-pno:cacheprovider"]
        with subprocess.Popen(
            [*command, *tests],
            cwd=self._folder,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                output, _ = process.communicate(timeout=_SECONDS)
            except subprocess.TimeoutExpired:
                return "killed", f"{_SECONDS:.0f} s passed"
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        if process.returncode == 0:
            return "survived", ""
        if found := re.search(r"^(FAILED|ERROR) (.*?)( - .*)?$", output, re.MULTILINE):
            return "killed", found[2]
        ran = process.returncode != pytest.ExitCode.USAGE_ERROR
        return "killed" if ran else "not decided", f"exit code {process.returncode}"


def _write(path: Path, source: bytes) -> None:
    path.write_bytes(source)
    # Otherwise Python may reuse bytecode of a source with the same size and mtime.
    shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)


def _suited(mutant: Mutant, covered: Mapping[str, Any]) -> dict[str, float]:
    """Return the seconds of the tests that run a mutant.

    Those of the test file with the same name come first, then the fastest.
    """
    by_line, seconds = covered["by_line"][mutant.file], covered["seconds"]
    ran = {test for line in mutant.lines for test in by_line[str(line)]}
    # Lines that run at import or in AutoGraph code are covered by the file's tests.
    found = ran.intersection(seconds) or {*covered["by_file"][mutant.file]}
    own = f"/test_{Path(mutant.file).stem}.py::"
    ordered = sorted(seconds, key=lambda test: own not in test)
    return {test: seconds[test] for test in ordered if test in found}


@click.command("mutants")
@click.option("--count", type=click.IntRange(min=1), default=30, show_default=True)
@click.option("--seed", type=click.IntRange(min=0), help="Default: another each time.")
@click.option(
    "--json",
    "file",
    type=click.File("w", encoding="utf-8", lazy=False),
    help="Write what became of each mutant here.",
)
def mutants(count: int, seed: int | None, file: TextIO | None) -> None:
    """Whether tests notice changed constants, comparisons and signs.

    The exit code is 1 if fewer than 90 % of the mutants that are decided are killed.
    """
    seed = random.randrange(10_000) if seed is None else seed
    everything = find_mutants(ROOT, SOURCES)
    drawn = random.Random(seed).sample(everything, min(count, len(everything)))
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory() as folder:
        for outcome in Copy(ROOT, Path(folder)).outcomes(drawn):
            outcomes.append(outcome)
            click.echo(f"{outcome.verdict}: {outcome.mutant} ({outcome.reason})")
    killed, survived, undecided = (
        sum(outcome.verdict == verdict for outcome in outcomes)
        for verdict in ("killed", "survived", "not decided")
    )
    click.echo(
        f"Of {len(drawn)} drawn from {len(everything)} by seed {seed}: "
        f"{killed} killed, {survived} survived, {undecided} not decided."
    )
    if file is not None:
        whole = {"seed": seed, "outcomes": [each._asdict() for each in outcomes]}
        json.dump(whole, file, indent=1, ensure_ascii=False)
        file.write("\n")
    sys.exit(int(killed < _BAR * (killed + survived)))
