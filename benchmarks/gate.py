"""A gate for presets: what they learn now, beside runs that were recorded of them.

`python -m benchmarks gate` trains each quick preset on five seeds. It fails if the
interquartile mean (IQM) of a preset's five scores is below the 0.5 % quantile of the
IQMs of five scores drawn with replacement from those of its recorded runs. A score is
the mean return of a seed's final weights in greedy episodes.
"""

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import click

from benchmarks.learned import SUFFIX, Learned, read_learned
from benchmarks.learning import Bench, file_name, parse_seeds, write_learned
from benchmarks.provenance import clean_commit, has_changed, resolved_settings
from benchmarks.report import ran_on, write
from benchmarks.subprocesses import ROOT
from benchmarks.verdicts import (
    RUNS,
    SEEDS,
    Verdict,
    compare,
    drawn_seeds,
    lower_bound,
)
from benchmarks.works import Settings, settings_option
from xagents_ray.algorithms.presets import AUTO_PRESET
from xagents_ray.core.errors import Broken, Stopped, UserError, did_you_mean

FOLDER = ROOT / "benchmarks" / "results" / "gate"
"""Has a file of recorded runs for each preset."""
RECORDED_SEEDS = tuple(range(5_000, 5_000 + RUNS))
"""Seeds on which runs are recorded; nothing was tuned on them."""
_EPISODES = 100
_QUICK = (
    ("ppo", "Pendulum-v1"),
    ("ppo", "CartPole-v1"),
    ("ppo", "MountainCarContinuous-v0"),
    ("impala", "CartPole-v1"),
    ("acer", "CartPole-v1"),
    ("trpo", "CartPole-v1"),
    ("trpo", "MountainCarContinuous-v0"),
    ("a2c", "MountainCarContinuous-v0"),
    ("a2c", "LunarLander-v3"),
    ("trpo", "Pendulum-v1"),
    ("trpo", "LunarLander-v3"),
    ("trpo", "LunarLanderContinuous-v3"),
    ("acer", "Acrobot-v1"),
    ("a2c", "CartPole-v1"),
    ("a3c", "CartPole-v1"),
    ("a2c", "Acrobot-v1"),
    ("trpo", "Acrobot-v1"),
    ("ppo", "LunarLanderContinuous-v3"),
    ("ppo", "LunarLander-v3"),
    ("sac", "gymnasium_robotics:FetchReach-v4"),
    ("ddpg", "gymnasium_robotics:FetchReach-v4"),
    ("ddpg", "Pendulum-v1"),
    ("td3", "MountainCarContinuous-v0"),
    ("ppo", "Acrobot-v1"),
    ("a2c", "Pendulum-v1"),
    ("dqn", "CartPole-v1"),
    ("trpo", "BipedalWalker-v3"),
    ("dqn", "Acrobot-v1"),
    ("acer", "LunarLander-v3"),
    ("sac", "MountainCarContinuous-v0"),
)
"""Presets that take under two minutes, the quickest first.

They are listed by hand, because the times in `docs/results` depend on the machine and
on what else ran on it. The order is that of median times on two cores of usual speed.
"""


def quick_presets() -> dict[str, tuple[str, str]]:
    """Return agent and environment of each preset that takes under two minutes.

    They are named as their files are, the quickest first.
    """
    return {file_name(agent, env): (agent, env) for agent, env in _QUICK}


def changed_settings(recorded: Learned) -> list[str]:
    """Return how a preset's settings differ from those of its recorded runs.

    An element is like `lr was 0.1 and is 0.2`. Settings that the library has gained
    since count as having had their defaults.
    """
    env = {"env": recorded.env}
    now = {**env, "preset": AUTO_PRESET, "local": True}
    today = resolved_settings(recorded.agent, now)
    was = {**resolved_settings(recorded.agent, env), **recorded.resolved}
    return [
        f"{name} was {was[name]} and is {value}"
        for name, value in today.items()
        if value != was[name]
    ]


@dataclass(frozen=True)
class Gate:
    """Judges presets by their recorded runs, or records such runs.

    Attributes:
        folder: directory with a file of recorded runs for each preset.
        run_dir: directory of the runs; unfinished ones are resumed.
        commit: commit of this checkout, without changes.
    """

    folder: Path
    run_dir: Path
    commit: str

    def judge(
        self, agent: str, env: str, seeds: Sequence[int], settings: Settings
    ) -> Verdict:
        """Train a preset and compare it with its recorded runs.

        Args:
            agent: name of the agent.
            env: ID of the environment.
            seeds: seeds to train with.
            settings: settings that replace the preset's, by flat name.
        Raises:
            UserError: a setting is invalid.
        """
        name, recorded = file_name(agent, env), self._recorded(agent, env)
        n_runs = 0 if recorded is None else len(recorded.seeds)
        if recorded is None or n_runs < RUNS:
            return Verdict(name, "not judged", f"{n_runs} of {RUNS} runs recorded")
        if changed := changed_settings(recorded):
            remedy = f"record its runs again with --record --preset {name}"
            return Verdict(name, "stale", f"{', '.join(changed)}; {remedy}")
        bound = lower_bound(recorded.means)
        bench = self._bench(seeds, recorded.episodes, settings)
        bench.run_settings(agent, env)  # raises for settings that are invalid
        try:
            means = bench.learn(agent, env).seeds
        except (UserError, Broken) as error:
            return Verdict(name, "red", str(error), bound=bound)
        scores = {seed: each.mean for seed, each in means.items()}
        return compare(name, scores, bound)

    def record(
        self, agent: str, env: str, seeds: Sequence[int], episodes: int
    ) -> Iterator[int]:
        """Train a preset, and add the runs to those recorded, five at a time.

        Recorded runs of other settings, or of an earlier learner or replay, are
        replaced.

        Args:
            agent: name of the agent.
            env: ID of the environment.
            seeds: seeds to train with; those recorded already are left out.
            episodes: number of greedy episodes per seed.
        Yields:
            The number of recorded runs.
        Raises:
            UserError: a run failed, or the file can't be written.
            Broken: all runs failed.
        """
        recorded = self._recorded(agent, env)
        if recorded is None or self._is_obsolete(recorded, episodes):
            found = {}
        else:
            found = dict(recorded.seeds)
        missing = [seed for seed in seeds if seed not in found]
        self.folder.mkdir(parents=True, exist_ok=True)
        yield len(found)
        for first in range(0, len(missing), SEEDS):
            bench = self._bench(missing[first : first + SEEDS], episodes, {})
            learned = bench.learn(agent, env)
            found |= learned.seeds
            whole = replace(learned, seeds=dict(sorted(found.items())))
            write_learned(self._path(agent, env), whole)
            yield len(found)

    def _is_obsolete(self, recorded: Learned, episodes: int) -> bool:
        """Return whether further runs can't be added to recorded ones."""
        return bool(
            changed_settings(recorded)
            or recorded.episodes != episodes
            or has_changed(recorded.commit, recorded.agent) is not False
        )

    def _bench(self, seeds: Sequence[int], episodes: int, settings: Settings) -> Bench:
        return Bench(tuple(seeds), episodes, self.run_dir, None, self.commit, settings)

    def _path(self, agent: str, env: str) -> Path:
        return self.folder / f"{file_name(agent, env)}{SUFFIX}"

    def _recorded(self, agent: str, env: str) -> Learned | None:
        path = self._path(agent, env)
        return read_learned(path) if path.is_file() else None


def _chosen(names: Sequence[str]) -> list[tuple[str, str]]:
    """Return agent and environment of each named preset; all quick ones for none."""
    quick = quick_presets()
    for name in names:
        if name not in quick:
            hint = did_you_mean(name, quick) or f"; there are {', '.join(quick)}."
            raise UserError(f"{name} is no preset that takes under two minutes{hint}")
    return [quick[name] for name in names or quick]


@click.command()
@click.option(
    "--preset",
    "presets",
    multiple=True,
    metavar="AGENT-ENV",
    help="Only this one, as ppo-CartPole-v1; repeatable.",
)
@click.option(
    "--record",
    is_flag=True,
    help="Record runs, by which later ones are judged, in benchmarks/results/gate.",
)
@click.option(
    "--seeds",
    callback=parse_seeds,
    help="To train with, as 1-5 or 1,2,7. Default: five drawn from the commit's hash, "
    "at least 10000; to record, 5000-5029.",
)
@settings_option("A setting in place of the preset's, as lr=0.01; repeatable.")
@click.option(
    "--run-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default="runs/gate",
    show_default=True,
    help="Holds the runs; the same command resumes those that are unfinished.",
)
@click.option(
    "--json",
    "file",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    help="Write the verdicts here, after each preset.",
)
def gate(
    presets: tuple[str, ...],
    record: bool,
    seeds: tuple[int, ...] | None,
    settings: Settings,
    run_dir: Path,
    file: Path | None,
) -> None:
    """Whether presets that take under two minutes still learn what they did.

    The exit code is 1 if one doesn't, or if its settings have changed since its runs
    were recorded.
    """
    if record and (settings or file is not None):
        raise UserError("--record takes neither --set nor --json: drop them.")
    pairs, commit = _chosen(presets), clean_commit()
    judges = Gate(FOLDER, run_dir, commit)
    try:
        if record:
            _record(judges, pairs, seeds or RECORDED_SEEDS)
            return
        verdicts: list[Verdict] = []
        for agent, env in pairs:
            drawn = seeds or drawn_seeds(commit)
            verdicts.append(judges.judge(agent, env, drawn, settings))
            click.echo(verdicts[-1].line())
            if file is not None:
                write(file, _report(commit, settings, verdicts))
    except KeyboardInterrupt:
        click.echo("Interrupted: the same command resumes its runs.", err=True)
        raise Stopped from None
    sys.exit(any(each.is_failure for each in verdicts))


def _record(
    judges: Gate, pairs: Sequence[tuple[str, str]], seeds: Sequence[int]
) -> None:
    """Record runs of presets, and print how many there are."""
    for agent, env in pairs:
        for n_runs in judges.record(agent, env, seeds, _EPISODES):
            click.echo(f"{file_name(agent, env)}: {n_runs} of {RUNS} runs recorded")


def _report(
    commit: str, settings: Settings, verdicts: Sequence[Verdict]
) -> dict[str, Any]:
    """Return the verdicts, with what they ran on, as JSON data."""
    facts = {"date": time.strftime("%Y-%m-%d"), **ran_on(), "commit": commit}
    whole = [asdict(each) for each in verdicts]
    return {**facts, "settings": dict(settings), "verdicts": whole}
