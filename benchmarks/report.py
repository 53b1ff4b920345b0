"""Measured speeds: tables, files, and details of the machine and the versions."""

import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import xagents_ray
from benchmarks.subprocesses import ROOT
from xagents_ray.commands.doctor.machine import list_gpus
from xagents_ray.core.errors import UserError
from xagents_ray.core.process import available_cores

OURS = "xagents-ray"
_PACKAGES = ("tensorflow", "keras", "ray", "numpy", "gymnasium", "ale-py", "envpool")


@dataclass(frozen=True)
class Result:
    """Env steps per second of one work.

    Attributes:
        work: name of the work in `WORKS`.
        title: title of the work in tables.
        speeds: speeds of all runs by column: ours with its mode, or a peer.
        updates: gradient steps per env step, by column, as the library counts them.
        versions: versions of the packages in a peer's environment, by peer.
    """

    work: str
    title: str
    speeds: dict[str, list[float]]
    updates: dict[str, float] = field(default_factory=dict)
    versions: dict[str, dict[str, str]] = field(default_factory=dict)

    def add(self, column: str, run: Mapping[str, Any]) -> None:
        self.speeds[column].append(run["env_steps"] / run["seconds"])
        self.updates[column] = run["updates"] / run["env_steps"]
        if "versions" in run:
            self.versions[column] = run["versions"]

    @property
    def ratios(self) -> dict[str, dict[str, float]]:
        """Ratios of our medians to those of the peers, by column and peer."""
        done = {each: runs for each, runs in self.speeds.items() if runs}
        medians = {each: statistics.median(runs) for each, runs in done.items()}
        ours = [column for column in medians if column.startswith(OURS)]
        peers = [column for column in medians if column not in ours]
        return {a: {b: medians[a] / medians[b] for b in peers} for a in ours}


def table(results: Sequence[Result]) -> str:
    """Return medians, ranges and ratios as a Markdown table."""
    peers = dict.fromkeys(
        peer for each in results for own in each.ratios.values() for peer in own
    )
    heads = ["work", "mode", f"{OURS}, env steps/s"]
    for peer in peers:
        heads += [peer, f"÷ {peer}"]
    rows = [heads]
    for result in results:
        for column, ratios in result.ratios.items():
            mode = column.removeprefix(OURS).strip()
            row = [result.title, mode, _cell(result.speeds[column])]
            for peer in peers:
                if peer in ratios:
                    row += [_cell(result.speeds[peer]), f"{ratios[peer]:.2f}"]
                else:
                    row += ["–", "–"]
            rows.append(row)
    return markdown(rows)


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as a Markdown table; the first one is the header."""
    heads, *others = rows
    lines = [heads, ["---"] * len(heads), *others]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def losses(
    recorded: Sequence[Result], now: Sequence[Result], tolerance: float
) -> list[str]:
    """Return a sentence for each ratio that fell by more than the relative tolerance.

    Raises:
        UserError: the reports have no ratio in common.
    """
    before = {each.work: each.ratios for each in recorded}
    pairs = [
        (f"{each.work} {column} ÷ {peer}", before[each.work][column][peer], ratio)
        for each in now
        for column, ratios in each.ratios.items()
        for peer, ratio in ratios.items()
        if peer in before.get(each.work, {}).get(column, {})
    ]
    if not pairs:
        raise UserError("The files have no ratio in common: measure the same works.")
    return [
        f"{name} was {was:.2f} and is {ratio:.2f}"
        for name, was, ratio in pairs
        if ratio < (1 - tolerance) * was
    ]


def _cell(speeds: Sequence[float]) -> str:
    median = statistics.median(speeds)
    return f"{median:,.0f} ({min(speeds):,.0f}–{max(speeds):,.0f})"


def report(bench: Mapping[str, Any], results: Sequence[Result]) -> dict[str, Any]:
    """Return all numbers, with the machine and the versions, as JSON data."""
    return {"bench": dict(bench), **ran_on(), "results": _entries(results)}


def ran_on() -> dict[str, Any]:
    """Return the commit, the machine and the versions of the packages."""
    return {
        "commit": _commit(),
        "machine": {
            "system": platform.system(),
            "architecture": platform.machine(),
            "processor": _processor(),
            "cores": available_cores(),
            "memory_gib": _memory_gib(),
            "gpus": list(list_gpus()),
        },
        "versions": _versions(),
    }


def read(stored: Mapping[str, Any]) -> list[Result]:
    names = ("work", "title", "speeds", "updates", "versions")
    return [Result(*(each[name] for name in names)) for each in stored["results"]]


def joined(reports: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge several reports into one with all runs.

    Raises:
        UserError: the reports have different commits, machines or versions.
    """
    results: dict[str, Result] = {}
    for each in reports:
        for name in ("commit", "machine", "versions"):
            if each[name] != reports[0][name]:
                raise UserError(
                    f"The files differ in their {name}: {reports[0][name]} and "
                    f"{each[name]}; join those of one measurement."
                )
        for result in read(each):
            whole = results.setdefault(result.work, replace(result, speeds={}))
            for column, speeds in result.speeds.items():
                whole.speeds[column] = whole.speeds.get(column, []) + speeds
            whole.updates.update(result.updates)
            whole.versions.update(result.versions)
    bench = {"joined": [each["bench"] for each in reports]}
    return {**reports[0], "bench": bench, "results": _entries(results.values())}


def write(path: Path, report: Mapping[str, Any]) -> None:
    """Write a report as JSON; UserError if the file can't be written."""
    try:
        path.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path} can't be written: {error.strerror}.") from None


def _entries(results: Iterable[Result]) -> list[dict[str, Any]]:
    return [{**vars(each), "ratios": each.ratios} for each in results]


def _commit() -> str | None:
    """Return the commit, with `-dirty` if a file outside of docs/ has changed."""
    words = ["describe", "--always"], ["status", "--porcelain", "-uno", ":!docs"]
    try:
        commit, changes = (
            subprocess.run(["git", *each], capture_output=True, text=True, cwd=ROOT)
            for each in words
        )
    except OSError:
        return None
    dirty = "-dirty" if changes.stdout.strip() else ""
    return f"{commit.stdout.strip()}{dirty}" if commit.stdout.strip() else None


def _processor() -> str:
    """Return the name of the processor; "" if unknown."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if "model name" in line)
    return next(names, "")


def _memory_gib() -> float:
    bytes_ = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return round(bytes_ / 2**30, 1)


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version(), OURS: xagents_ray.__version__}
    for name in _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions
