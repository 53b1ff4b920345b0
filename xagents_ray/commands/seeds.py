"""`train --seeds` and `train(seeds=…)`: one run per seed, each in its own process."""

import json
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

import cloudpickle
import psutil

from xagents_ray.algorithms.definition import Algorithm
from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.commands.plot import plot_seeds
from xagents_ray.commands.training_run import train_request
from xagents_ray.core import objects
from xagents_ray.core.errors import Broken, UserError, one_line, pluralize
from xagents_ray.core.files import replace_bytes
from xagents_ray.core.process import available_cores
from xagents_ray.core.signals import Signals
from xagents_ray.run.child import Child, Job, Supervisor
from xagents_ray.run.learner_access import export_parts, install_parts
from xagents_ray.run.prepare import prepare_run, replay_bytes
from xagents_ray.run.request import Request
from xagents_ray.settings.options import options
from xagents_ray.settings.run import RunConfig
from xagents_ray.settings.training import TrainingConfig
from xagents_ray.storage.checkpoints import all_checkpoints
from xagents_ray.storage.lock import locked_directory
from xagents_ray.storage.migrations import newest_format
from xagents_ray.storage.run_directory import RunDirectory
from xagents_ray.tuning.seed_runs import SeedRuns
from xagents_ray.tuning.seeds_result import SeedsResult
from xagents_ray.tuning.trial_training import ProgressReporter
from xagents_ray.watch.recorder import BestEffort
from xagents_ray.watch.result import Result, from_summary

if TYPE_CHECKING:
    from xagents_ray.tuning.seeds_display import SeedsDisplay

_ENDS = {each.name for each in options(TrainingConfig) if each.free_with == "--resume"}
"""Settings that decide when a run ends."""
_REPORT_SECONDS = 0.5
_PROCESS_BYTES = 2**30  # memory of a run without its replay


def train_seeds(algorithm: Algorithm, given: Mapping[str, Any]) -> SeedsResult:
    """Train once with each of `seeds`, given settings by flat name.

    Raises:
        UserError: a setting is invalid, or can't be shared by several runs.
        Broken: all runs failed.
    """
    request = Request.of(algorithm, given)
    config = request.config
    env = config.env.env
    name = config.run.name or f"{algorithm.name}-{time.strftime('%Y%m%d-%H%M%S')}"
    directory = Path(config.run.run_dir).resolve() / "seeds" / name
    display: SeedsDisplay
    made = resolve_name("xagents_ray.tuning.seeds_display:SeedsDisplay")(config.display)
    with Signals() as signals, made as display:
        run = prepare_run(algorithm, config)
        for note in (*run.notes, *request.notes):
            display.note(note)
        seed_runs = _plan(run, request.given, directory, display)
        with locked_directory(directory):
            signals.on_first, signals.note = None, display.note
            seed_runs.train(signals, display.show)
            found = SeedsResult.of(seed_runs.runs, str(directory), signals.received)
            _record(found, f"{algorithm.name}, {env}", display)
        display.note(found.sentence(config.display.display_precision))
        if found.unfinished:
            display.note(f"The same command with --name {name} trains what is left")
    if found.failures and not found.results and not found.unfinished:
        failed = next(run for run in seed_runs.runs if run.outcome.failure)
        raise Broken(found.failure(), failed.outcome.trace)
    return found


def _plan(
    run: RunSpec, given: Mapping[str, Any], directory: Path, display: "SeedsDisplay"
) -> SeedRuns:
    """Return the runs of all seeds, modeled on `run`; make their directory.

    Raises:
        UserError: an existing run can't continue with these settings.
    """
    config, algorithm = run.config, cloudpickle.dumps(run.algorithm)
    seeds = tuple(dict.fromkeys(config.training.seeds or ()))
    parallel = min(len(seeds), _parallel(run))
    threads = max(1, available_cores() // parallel) if config.placement.local else None
    definitions = _definitions(run)
    settings = {
        seed: _settings(run.algorithm, given, directory, seed) for seed in seeds
    }
    ended = {seed: _ended(given, each.get("resume")) for seed, each in settings.items()}
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"--run-dir {config.run.run_dir}: {directory} can't be made "
            f"({error.strerror}); name one that can be written."
        ) from None

    def start(seed: int) -> Child:
        job = Job(
            f"{__name__}:{train_seed.__name__}",
            arguments=(algorithm, settings[seed], definitions, threads),
            output=str(directory / f"seed-{seed}.log"),
            is_forked=True,
            saves_alone=True,
        )
        return Child.start(job)

    side = f", {parallel} at a time" if parallel < len(seeds) else ""
    display.note(f"{directory}: {pluralize(len(seeds), 'seed')}{side}")
    over = {seed: result for seed, result in ended.items() if result is not None}
    seed_runs = SeedRuns(seeds, parallel, start, display.changed, over)
    display.begin(seed_runs.runs)
    return seed_runs


def _parallel(run: RunSpec) -> int:
    """Return how many runs like this one fit the machine at the same time.

    Runs on Ray are sequential, as the env actors of each one use all cores.
    """
    if not run.config.placement.local:
        return 1
    needed, replay = _PROCESS_BYTES, run.config.algorithm.replay
    if replay is not None:
        needed += replay_bytes(run, replay.buffer_max_size)
    by_memory: int = psutil.virtual_memory().available // needed
    return max(1, min(by_memory, available_cores() // run.learner_cores))


def _settings(
    algorithm: Algorithm, given: Mapping[str, Any], directory: Path, seed: int
) -> dict[str, Any]:
    """Return the settings of a seed's run, to start it or to resume it.

    Raises:
        UserError: it can't continue with these settings, or another process trains it.
    """
    shared = {name: value for name, value in given.items() if name != "seeds"}
    own = {"seed": seed, "run_dir": str(directory), "name": f"seed-{seed}"}
    found = next(directory.glob(f"{algorithm.name}/*/seed-{seed}"), None)
    if found is None:
        return {**shared, **own}
    with locked_directory(found):
        is_begun = bool(all_checkpoints(found / "checkpoints"))
        if not is_begun:  # without a checkpoint, it starts from scratch
            shutil.rmtree(found)
    if not is_begun:
        return {**shared, **own}
    new_run = {each.name for each in options(RunConfig) if each.new_run}
    kept = {n: value for n, value in shared.items() if n not in {*new_run, "run_dir"}}
    settings = {**kept, "resume": str(found)}
    Request.of(algorithm, settings)
    return settings


def _ended(given: Mapping[str, Any], path: str | None) -> Result | None:
    """Return the result of a completed run if these settings don't extend it."""
    if path is None:
        return None
    directory = RunDirectory(Path(path))
    summary, (_, stored) = directory.summary(), directory.settings()
    is_same = all(given.get(n, stored[n]) == stored[n] for n in _ENDS if n in stored)
    return from_summary(summary) if summary.get("completed") and is_same else None


def _definitions(run: RunSpec) -> tuple[bytes, ...]:
    """Return the objects passed from Python, pickled for the child processes."""
    from xagents_ray.actors.envs.registry import export_definitions

    config = run.config
    found = export_parts(run, config.algorithm.objects)
    found += export_definitions(config.env)
    names = [("callbacks", name) for name in config.run.callbacks or ()]
    try:
        return *found, objects.export_objects(names)
    except Exception as error:
        raise UserError(
            f"callbacks can't be sent to the processes of --seeds ({one_line(error)}): "
            "create what they hold in on_start."
        ) from None


def _record(result: SeedsResult, title: str, display: "SeedsDisplay") -> None:
    """Write the summary of the runs and draw their curves."""
    best_effort = BestEffort(display.note)
    whole = {"format": newest_format(), **result.summary()}
    data = json.dumps(whole, indent=2).encode()
    summary = Path(result.directory) / "summary.json"
    best_effort("The summary", replace_bytes, summary, data)
    best_effort("The picture", _draw, result, title)


def _draw(result: SeedsResult, title: str) -> None:
    """Draw the curves of the runs that have any."""
    drawn = (run for run in result.results.values() if run.mean_reward is not None)
    paths = [f"{run.directory}/history.parquet" for run in drawn]
    if paths:
        plot_seeds(paths, title, Path(result.directory) / "seeds.png")


def train_seed(
    supervisor: Supervisor,
    algorithm: bytes,
    settings: Mapping[str, Any],
    definitions: tuple[bytes, ...],
    threads: int | None,
) -> Result:
    """Train with one seed in this process; see `train_trial` for the arguments."""
    install_parts(definitions)
    request = Request.of(cloudpickle.loads(algorithm), settings)
    watch = ProgressReporter(supervisor, _REPORT_SECONDS)
    return train_request(request, supervisor.signals, watch, threads)
