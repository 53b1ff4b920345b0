"""Training from settings: what the command line and Python call."""

import importlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from xagents_ray import presets, resume
from xagents_ray.algorithms import Algorithm, find
from xagents_ray.backend import Run
from xagents_ray.config import Config, train_options
from xagents_ray.display import Display
from xagents_ray.errors import UserError
from xagents_ray.options import plain
from xagents_ray.progress import Progress
from xagents_ray.result import Result
from xagents_ray.session import Session
from xagents_ray.signals import Signals, interrupting
from xagents_ray.spec import EnvSpec
from xagents_ray.weights import read_file


def train(agent: str, **settings: Any) -> Result:
    """Train an agent; the same as `xagents-ray train AGENT`.

    Args:
        agent: its name, `ppo`.
        settings: the command's flags with `_` for `-`: `env`, `n_envs`, `lr`, ….
    Returns:
        How it ended.
    Raises:
        UserError: a setting is wrong; the message says what to do.
        Diverged: a loss, gradient or reward is no number.
        KeyboardInterrupt: Ctrl-C ended the run, which is saved.
        SystemExit: SIGTERM ended the run, which is saved.
    """
    algorithm = find(agent)
    values = plain(train_options(algorithm.config), settings)
    with interrupting():
        result = train_with(algorithm, values)
        if result.signal is not None:
            raise SystemExit(128 + result.signal)
    return result


def train_with(algorithm: Algorithm, given: Mapping[str, Any]) -> Result:
    """Train with settings by their flat names; see `train`."""
    resumed, hints = None, []
    if given.get("resume") is not None:
        resumed, given = resume.find(algorithm.name, given)
    else:
        hints = presets.hints(algorithm, given)
        given = presets.apply(algorithm, given)
    config = Config.of(algorithm.config, given)
    algorithm.check_files("--weights", config.run.weights)
    algorithm.check_files("--checkpoints", config.run.checkpoints)
    with Signals() as signals:
        return fit(algorithm, config, signals, resumed, notes=hints)


def fit(
    algorithm: Algorithm,
    config: Config,
    signals: Signals,
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
        return Session(run, resumed, display, signals, watch).train()


def prepare(
    algorithm: Algorithm, config: Config, resumed: resume.Resumed | None = None
) -> Run:
    """Look at the environment and lay the network out; refuse what can't work."""
    environments = importlib.import_module("xagents_ray.actors.environments")
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
