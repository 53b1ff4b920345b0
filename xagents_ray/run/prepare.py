"""A run before it starts: its settings, checked with its environment."""

import importlib
import secrets
from dataclasses import replace

from xagents_ray.algorithms.row import Algorithm
from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.core.errors import UserError
from xagents_ray.core.spec import EnvSpec
from xagents_ray.run.resume import Resumed
from xagents_ray.settings.config import Config
from xagents_ray.storage.weights import read_file


def prepare(
    algorithm: Algorithm, config: Config, resumed: Resumed | None = None
) -> RunSpec:
    """Return a run with notes on its environment; refuse what can't work."""
    environments = importlib.import_module("xagents_ray.actors.envs.make")
    run = build_run(algorithm, config, environments.check(config.env), resumed)
    return replace(run, notes=environments.notes(config.env))


def build_run(
    algorithm: Algorithm,
    config: Config,
    spec: EnvSpec,
    resumed: Resumed | None = None,
) -> RunSpec:
    """Return a run with the network laid out for an environment.

    Raises:
        UserError: the algorithm or the network can't work with the environment.
    """
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
    return RunSpec(algorithm, config, spec, layouts, seed, files)
