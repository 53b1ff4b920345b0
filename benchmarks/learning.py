"""Trains presets with several seeds, and evaluates the final weights greedily."""

import hashlib
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import xagents_ray
from benchmarks.learned import (
    SUFFIX,
    Learned,
    Reached,
    around_table,
    file_name,
    read_all,
    replace_table,
)
from benchmarks.provenance import (
    clean_commit,
    resolved_settings,
    settings_digest,
    source_digest,
)
from benchmarks.report import ran_on, write
from benchmarks.subprocesses import ROOT
from benchmarks.summary import write_pictures
from benchmarks.works import Settings, settings_option
from xagents_ray import Evaluation, Policy
from xagents_ray.algorithms.presets import AUTO_PRESET, all_presets, find_preset
from xagents_ray.core.errors import Broken, Stopped, UserError
from xagents_ray.core.trajectory import Episode
from xagents_ray.storage.history import read_history
from xagents_ray.tuning.seeds_result import SeedsResult

RESULTS = ROOT / "docs" / "results"
_PAGE = ROOT / "docs" / "results.md"
_START_SEED = 1_000_000  # environment i takes this + i
_AT_ONCE = 100  # evaluation environments
_COLUMNS = ["step", "time", "episode_reward"]


@dataclass(frozen=True)
class Bench:
    """Training and evaluation of pairs of an agent and an environment.

    Attributes:
        seeds: seeds to train with.
        episodes: number of greedy episodes per seed with the final weights.
        run_dir: directory of the runs; unfinished ones are resumed.
        results: directory for numbers, histories and curves; None not to record them.
        commit: commit of this checkout, without changes.
        settings: settings in addition to the preset's, by flat name.
    """

    seeds: tuple[int, ...]
    episodes: int
    run_dir: Path
    results: Path | None
    commit: str
    settings: Settings = field(default_factory=dict)

    def learn(self, agent: str, env: str) -> Learned:
        """Train a preset with all seeds; evaluate and, if asked to, record the results.

        Raises:
            UserError: there is no such preset, or a run failed.
            Broken: all runs failed.
        """
        resolved = resolved_settings(agent, self._asked(env))
        trained = xagents_ray.train(agent, **self.run_settings(agent, env))
        if trained.failures:
            raise UserError(trained.failure())
        reached = {}
        for seed, result in trained.results.items():
            policy = xagents_ray.load(result.directory, which="last")
            found = evaluate_from_same_starts(policy, self.episodes)
            reached[seed] = Reached(
                found.mean, found.std, found.success_rate, result.env_steps,
                round(result.seconds),
            )  # fmt: skip
        learned = Learned(
            agent,
            env,
            self.episodes,
            reached,
            dict(self.settings),
            _START_SEED,
            resolved,
            settings_digest(resolved),
            self.commit,
        )
        if self.results is not None:
            _record(self.results, learned, trained)
        return learned

    def run_settings(self, agent: str, env: str) -> dict[str, Any]:
        """Return the settings of a preset's runs.

        Their name depends on the settings' content and on the sources that train, so
        that runs of earlier versions aren't reused.

        Raises:
            UserError: there is no such preset, or `settings` has a reserved setting.
        """
        asked = self._asked(env)
        resolved = settings_digest(resolved_settings(agent, asked))
        whole = f"{resolved} {source_digest(self.commit)}"
        digest = hashlib.sha256(whole.encode()).hexdigest()[:8]
        own = {"seeds": self.seeds, "run_dir": str(self.run_dir)}
        return {**asked, **own, "name": f"{file_name(agent, env)}-{digest}"}

    def _asked(self, env: str) -> dict[str, Any]:
        """Return the settings that all seeds share; UserError for reserved ones."""
        if taken := {"env", "seeds", "run_dir", "name"} & self.settings.keys():
            raise UserError(
                f"--set can't give {taken.pop()}, which the benchmark sets."
            )
        usual = {"env": env, "preset": AUTO_PRESET, "local": True, "quiet": True}
        return {**usual, **self.settings}


def evaluate_from_same_starts(policy: Policy, episodes: int) -> Evaluation:
    """Play greedy episodes whose start states are the same for all policies.

    Each episode has an environment of its own, as the start of an environment's second
    episode depends on how long the first one was.
    """
    played: list[Episode] = []
    for first in range(0, episodes, _AT_ONCE):
        count = min(_AT_ONCE, episodes - first)
        found = policy.evaluate(count, n_envs=count, seed=_START_SEED + first)
        played += found.episodes
    return Evaluation(tuple(played), _START_SEED)


def pairs(agents: Sequence[str], envs: Sequence[str]) -> list[tuple[str, str]]:
    """Return the pairs of agents and environments that have presets.

    Args:
        agents: agents to include; all if empty.
        envs: environments to include; if empty, all that presets name in full.
    Raises:
        UserError: there is no such pair.
    """
    all_ = [each for each in all_presets() if each.name == AUTO_PRESET]
    agents = agents or [*dict.fromkeys(each.agent for each in all_)]
    found = (
        [(each, env) for env in envs for each in agents if find_preset(each, env)]
        if envs
        else [(p.agent, p.env) for p in all_ if p.agent in agents and "*" not in p.env]
    )
    if not found:
        raise UserError(
            f"No preset fits {' '.join([*agents, *envs])}; `xagents-ray presets` "
            "lists them."
        )
    return found


def _record(results: Path, learned: Learned, trained: SeedsResult) -> None:
    """Write the numbers, the histories and the curve."""
    path = results / file_name(learned.agent, learned.env)
    path.parent.mkdir(parents=True, exist_ok=True)
    title = f"{learned.agent}, {learned.env}"
    runs = [Path(each.directory) for each in trained.results.values()]
    histories = [run / "history.parquet" for run in runs]
    xagents_ray.plot_seeds(histories, title, path.with_suffix(".svg"))
    pq.write_table(
        pa.concat_tables(map(_history, histories)),
        path.with_suffix(".parquet"),
        compression="zstd",
    )
    write_learned(path.with_suffix(SUFFIX), learned)


def write_learned(path: Path, learned: Learned) -> None:
    """Write numbers, with the date, the machine and the versions of the packages."""
    facts = {"date": time.strftime("%Y-%m-%d"), **ran_on()}
    write(path, {**facts, "command": learned.command, **asdict(learned)})


def _history(path: Path) -> pa.Table:
    """Return the episodes of a run, with a column for its seed."""
    rows = read_history(path)
    table = pa.table({name: rows[name] for name in _COLUMNS})
    seed = int(path.parent.name.removeprefix("seed-"))
    return table.append_column("seed", pa.array(np.full(len(rows), seed, np.int32)))


def parse_seeds(
    context: click.Context, option: click.Parameter, text: str | None
) -> Iterable[int] | None:
    """Parse seeds such as 1-3,7; None stays None."""
    if text is None:
        return None
    parts = [re.fullmatch(r"(\d+)(?:-(\d+))?", part) for part in text.split(",")]
    ends = [(int(part[1]), int(part[2] or part[1])) for part in parts if part]
    if not all(parts) or any(first > last for first, last in ends):
        raise UserError(f"--seeds takes numbers as in 1-5 or 1,2,7, got {text}.")
    return tuple(seed for first, last in ends for seed in range(first, last + 1))


def seeds_option(default: str) -> Callable[[Any], Any]:
    """Return the option `--seeds`, with seeds that nothing was tuned on as default."""
    return click.option(
        "--seeds",
        callback=parse_seeds,
        default=default,
        show_default=True,
        help="To train with, as 1-5 or 1,2,7; nothing was tuned on the default.",
    )


@click.command()
@click.option("--agent", "agents", multiple=True, help="Only this one; repeatable.")
@click.option("--env", "envs", multiple=True, help="Only this one; repeatable.")
@seeds_option("21-25")
@click.option(
    "--episodes",
    type=click.IntRange(min=1),
    default=500,
    show_default=True,
    help="Greedy episodes with each seed's final weights, from the same start states.",
)
@settings_option("A setting beside the preset's, as local=false; repeatable.")
@click.option(
    "--run-dir",
    type=click.Path(path_type=Path, file_okay=False),
    default="runs/learning",
    show_default=True,
    help="Holds the runs; the same command resumes those that are unfinished.",
)
@click.option(
    "--results",
    type=click.Path(path_type=Path, file_okay=False),
    default=RESULTS,
    show_default="docs/results",
    help="Takes numbers, histories and curves.",
)
@click.option(
    "--page",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Its table is rewritten from all results, and summary.svg beside them drawn; "
    "default: docs/results.md, which stays as it is with other --results.",
)
def learning(
    agents: tuple[str, ...],
    envs: tuple[str, ...],
    page: Path | None,
    results: Path,
    **others: Any,
) -> None:
    """What presets learn, on several seeds, in a checkout without changes; resumable.

    Runs are resumed while neither their settings nor the sources have changed.
    """
    if page is None and results.resolve() == RESULTS:
        page = _PAGE
    if page is not None:  # check the page now, as training takes hours
        around_table(page)
    bench = Bench(results=results, commit=clean_commit(), **others)
    failures = []
    for agent, env in pairs(agents, envs):
        try:
            learned = bench.learn(agent, env)
        except (UserError, Broken) as error:
            failures.append(f"{agent} {env}: {error}")
        except KeyboardInterrupt:
            click.echo("Interrupted: the same command resumes its runs.", err=True)
            raise Stopped from None
        else:
            click.echo(learned.sentence())
            if page is not None:
                replace_table(page, read_all(results))
                write_pictures(results)
    if failures:
        raise UserError("\n".join(failures))
