"""A trained agent to play with: from a run's directory, or from weights files."""

import dataclasses
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xagents_ray import checkpoints
from xagents_ray.algorithms import Algorithm
from xagents_ray.config import EnvConfig, RunConfig
from xagents_ray.errors import UserError
from xagents_ray.hyperparameters import AlgorithmConfig
from xagents_ray.networks.layout import Layout
from xagents_ray.options import Checked, option
from xagents_ray.rundir import FILES, RunDirectory, locate
from xagents_ray.spec import EnvSpec
from xagents_ray.trajectory import Array, Weights
from xagents_ray.weights import check, decode_npz, kind, read_file, shapes

_ALONGSIDE_RUN = {"n_envs", "vectorization"}


@dataclass(frozen=True, kw_only=True)
class SourceConfig(Checked):
    """Where a trained agent comes from."""

    weights: tuple[str, ...] | None = option(
        None,
        help="Path(s) to model(s) weight(s) to be loaded: .tf, .weights.h5 or .npz",
    )
    run: str | None = option(
        None,
        help="Directory of a run, or last, in place of --weights and the "
        "environment's flags: its best checkpoint, or one that is named",
    )
    run_dir: str = option(RunConfig().run_dir, help="Directory of runs, for --run last")


@dataclass(frozen=True)
class Trained:
    """A trained agent.

    Attributes:
        env: the environments that it knows.
        algorithm: settings of its policy.
        layout: of its network.
        weights: to act with.
        notes: what the user should know, one sentence each.
    """

    env: EnvConfig
    algorithm: AlgorithmConfig
    layout: Layout
    weights: Weights
    notes: list[str]


def load(algorithm: Algorithm, given: Mapping[str, Any]) -> Trained:
    """Return the agent that settings by their flat names speak of.

    Raises:
        UserError: there is none, or it does not fit the environment.
    """
    source = make(SourceConfig, given)
    if (source.weights is None) == (source.run is None):
        raise UserError(
            "Give either --weights with the trained files, or --run with a run's "
            "directory."
        )
    values = dict(given)
    checkpoint = None
    if source.run is not None:
        run_dir = source.run_dir
        directory, path = locate("--run", source.run, run_dir, algorithm.name)
        values = _stored(directory, algorithm, given)
        checkpoint = checkpoints.load(path or _best(directory), "give --run")
    env, config = make(EnvConfig, values), make(algorithm.config, values)
    if env.env is None:
        raise UserError("--env is missing: name one, as in --env CartPole-v1.")
    environments = importlib.import_module("xagents_ray.actors.environments")
    spec: EnvSpec = environments.probe(env)
    algorithm.check_spaces(spec)
    model = algorithm.models[0]
    layout = model.layout(getattr(config, model.file), spec)
    if checkpoint is not None:
        found = model.own(checkpoint.arrays)
        expected, extras = shapes(layout), algorithm.extras(model, config, spec)
        arrays, notes = check(found, expected, extras, str(checkpoint.path))
        notes = [f"Weights of {checkpoint.path}", *notes]
    else:
        algorithm.check_files("--weights", source.weights)
        assert source.weights is not None
        extras = algorithm.extras(model, config, spec)
        arrays, notes = _read(source.weights[0], layout, extras)
    return Trained(env, config, layout, Weights(1, arrays), notes)


def make(config: type[Any], values: Mapping[str, Any]) -> Any:
    """Return a config made of those settings that are its own."""
    names = [field.name for field in dataclasses.fields(config)]
    return config(**{name: values[name] for name in names if name in values})


def _stored(
    directory: RunDirectory, algorithm: Algorithm, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a run's settings, with what may be given beside them."""
    agent, stored = directory.settings()
    if agent != algorithm.name:
        raise UserError(f"{directory.path} is a run of {agent}: name that agent.")
    fixed = {field.name for field in dataclasses.fields(EnvConfig)} | FILES
    for name in fixed - _ALONGSIDE_RUN:
        if name in given and given[name] != stored.get(name):
            flag = name.replace("_", "-")
            raise UserError(
                f"--{flag} is the run's own with --run: leave it out, or give "
                "--weights in place of --run."
            )
    return {**stored, **given}


def _best(directory: RunDirectory) -> Path:
    path = checkpoints.best(directory.checkpoints)
    found = checkpoints.all_checkpoints(directory.checkpoints)
    if path is None and not found:
        raise UserError(f"{directory.path} has no checkpoint yet: train it longer.")
    return path or found[0]


def _read(
    path: str, layout: Layout, extras: Mapping[str, tuple[int, ...]]
) -> tuple[dict[str, Array], list[str]]:
    """Return the arrays of a weights file; NumPy's own needs no TensorFlow."""
    file = read_file(path)
    if kind(path) == ".npz":
        return check(decode_npz(file), shapes(layout), extras, path)
    formats = importlib.import_module("xagents_ray.learners.formats")
    arrays, notes = formats.decode(file, layout, extras)
    return arrays, notes
