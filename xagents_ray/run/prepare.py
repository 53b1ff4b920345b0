"""Training from settings: what the command line and Python call."""

import importlib
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace

from xagents_ray.algorithms.row import Algorithm
from xagents_ray.core.errors import UserError
from xagents_ray.core.signals import Signals
from xagents_ray.core.spec import EnvSpec
from xagents_ray.run import resume
from xagents_ray.run.display import Display
from xagents_ray.run.driver import Run, StartDriver
from xagents_ray.run.progress import Progress
from xagents_ray.run.result import Result
from xagents_ray.run.session import Session
from xagents_ray.settings.config import Config
from xagents_ray.storage.weights import read_file


def fit(
    algorithm: Algorithm,
    config: Config,
    signals: Signals,
    start: StartDriver,
    resumed: resume.Resumed | None = None,
    watch: Callable[[Progress], None] | None = None,
    threads: int | None = None,
    notes: Sequence[str] = (),
) -> Result:
    """Train until the run ends.

    Args:
        algorithm: that learns.
        config: of the run.
        signals: end it early.
        start: starts the driver.
        resumed: what it goes on with.
        watch: called before the first rollout and after each learning phase.
        threads: cores that each of its parts may use; None for all of its machine.
        notes: what else the user should know, one sentence each.
    """
    with Display(config) as display:
        run = prepare(algorithm, config, resumed)
        run = replace(run, notes=(*run.notes, *notes))
        if threads is not None:
            run = replace(run, threads=threads)
        return Session(run, start, resumed, display, signals, watch).train()


def prepare(
    algorithm: Algorithm, config: Config, resumed: resume.Resumed | None = None
) -> Run:
    """Look at the environment and lay the network out; refuse what can't work."""
    environments = importlib.import_module("xagents_ray.actors.envs.make")
    run = lay_out(algorithm, config, environments.check(config.env), resumed)
    return replace(run, notes=environments.notes(config.env))


def lay_out(
    algorithm: Algorithm,
    config: Config,
    spec: EnvSpec,
    resumed: resume.Resumed | None = None,
) -> Run:
    """Lay the network out for an environment; refuse what can't work."""
    algorithm.check_spaces(spec)
    if config.algorithm.normalize_observations and spec.is_image:
        raise UserError(
            "--normalize-observations is for vectors and this environment gives "
            "images, which are scaled anyway: leave it out."
        )
    layouts = algorithm.layouts(config.algorithm, spec)
    seed = config.training.seed
    if resumed is not None:
        seed = int(resumed.checkpoint.facts["seed"])
    seed = secrets.randbits(31) if seed is None else seed
    files = tuple(read_file(path) for path in config.run.weights or ())
    return Run(algorithm, config, spec, layouts, seed, files)
