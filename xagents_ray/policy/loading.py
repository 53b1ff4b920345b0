"""Loads trained agents from run directories or weights files."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from xagents_ray.algorithms.definition import Algorithm
from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.core import moments
from xagents_ray.core.errors import UserError, did_you_mean
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Array, Weights, WeightsFile
from xagents_ray.networks.layout import Layout
from xagents_ray.networks.matching import match_arrays
from xagents_ray.policy.card import (
    described,
    read_card,
    settings_of,
)
from xagents_ray.policy.chosen import load_chosen
from xagents_ray.run import user_networks
from xagents_ray.run.checkpoint_facts import longest_episode
from xagents_ray.run.policy_card import policy_card, training_facts
from xagents_ray.run.prepare import with_own_names
from xagents_ray.run.request import check_paths
from xagents_ray.run.tensorflow_child import read_any_weights, with_tensorflow
from xagents_ray.settings.config import Config
from xagents_ray.settings.options import Checked, option, options, plain_values
from xagents_ray.settings.run import RunConfig
from xagents_ray.settings.training import EnvConfig
from xagents_ray.storage import checkpoints
from xagents_ray.storage.run_directory import RunDirectory, locate_run
from xagents_ray.storage.weights import (
    decode_npz,
    encode_npz,
    file_kind,
    write_file,
)

_DECODE = "xagents_ray.run.weights_formats:decode_weights"
_ENCODE = "xagents_ray.run.weights_formats:encode_weights"


@dataclass(frozen=True, kw_only=True)
class SourceConfig(Checked):
    """Source of a trained agent."""

    weights: tuple[str, ...] | None = option(
        None,
        "Path(s) to model(s) weight(s) to be loaded: .tf, .weights.h5, .npz, or whole "
        "Keras models, .keras or .h5",
        is_path=True,
        common=True,
    )
    run: str | None = option(
        None,
        "Directory of a run or of one of its checkpoints, or last, in place of "
        "--weights and the environment's flags",
        is_folder=True,
        common=True,
    )
    which: str | None = option(
        None,
        "Checkpoint of --run: best, last, or the env step of one; default: best "
        "where --eval-every was on, else last",
        common=True,
    )
    run_dir: str = option(
        RunConfig().run_dir, "Directory of runs, for --run last", is_folder=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.which is None:
            return
        if self.which not in ("best", "last") and not self.which.isdecimal():
            hint = did_you_mean(self.which, ("best", "last")) or "."
            raise UserError(
                f"--which takes best, last or an env step, got {self.which!r}{hint}"
            )
        if self.run is None:
            raise UserError(
                "--which chooses a checkpoint of --run: leave it out, or give --run."
            )


@dataclass(frozen=True)
class LoadedPolicy:
    """A trained agent."""

    # Environment, network, settings and notes for the user; the seed is unused.
    run: RunSpec
    weights: Weights
    source: str  # path of the checkpoint or the weights file
    facts: Mapping[str, Any] = field(default_factory=dict)  # see `training_facts`
    files: Mapping[str, bytes] | None = None  # the network's, if from a weights file


def load_policy(algorithm: Algorithm, given: Mapping[str, Any]) -> LoadedPolicy:
    """Load the trained agent that the settings, by flat name, specify.

    Raises:
        UserError: it doesn't exist, or doesn't fit the environment.
    """
    given = plain_values(options(EnvConfig), given)
    source = SourceConfig.of(given)
    if (source.weights is None) == (source.run is None):
        raise UserError(
            "Give either --weights with trained files or --run with a run's directory."
        )
    if source.weights is not None:
        return _load_file(algorithm, given, source.weights)
    return _load_run(algorithm, given, source)


def _load_run(
    algorithm: Algorithm, given: Mapping[str, Any], source: SourceConfig
) -> LoadedPolicy:
    """Load the trained agent of a run's checkpoint."""
    assert source.run is not None
    found = locate_run("--run", source.run, source.run_dir, algorithm.name)
    values, trained_in = _stored(found[0], algorithm, given)
    checkpoint, chosen = load_chosen(*found, source.which)
    run, extras = _specification(algorithm, values, trained_in)
    own, path = algorithm.models[0].own(checkpoint.arrays), str(checkpoint.path)
    arrays, notes = match_arrays(own, run.layout.shapes, extras, path, run.layout)
    arrays |= _with_newest(arrays, checkpoint)
    run = replace(run, notes=(*run.notes, *chosen, *notes))
    run = replace(run, longest_episode=longest_episode(checkpoint))
    facts = training_facts(checkpoint.facts)
    return LoadedPolicy(run, Weights(1, arrays), path, facts)


def _load_file(
    algorithm: Algorithm, given: Mapping[str, Any], paths: Sequence[str]
) -> LoadedPolicy:
    """Load the trained agent of weights files, of which acting needs the first."""
    if (card := read_card(path := paths[0])) is None:
        run, extras = _specification(algorithm, given, EnvConfig.of(given))
    else:
        with settings_of(card, algorithm, given, path) as stored:
            values = _merged(stored, given)
            run, extras = _specification(algorithm, values, EnvConfig.of(values))
    if len(paths) > 1 and algorithm.adapt is None:
        check_paths(algorithm, run.config.algorithm, "--weights", paths)
    arrays, notes = _read(path, run.layout, extras)
    if card is None:
        run = replace(run, notes=(*run.notes, *notes))
        return LoadedPolicy(run, Weights(1, arrays), path)
    run = replace(run, notes=(*run.notes, described(card, path), *notes))
    return LoadedPolicy(run, Weights(1, arrays), path, card.facts, card.files)


def _specification(
    algorithm: Algorithm, values: Mapping[str, Any], trained_in: EnvConfig
) -> tuple[RunSpec, dict[str, tuple[int, ...]]]:
    """Return what acts, with notes on its environment, and the shapes of extras."""
    from xagents_ray.actors.envs import make as environments
    from xagents_ray.actors.envs.notes import env_notes

    if (env := EnvConfig.of(values)).env is None:
        raise UserError("--env is missing: name one, as in --env CartPole-v1.")
    spec = environments.check_env(env)
    other = _check_other_env(env, spec, trained_in)
    algorithm.check_spaces(spec)
    model, config = algorithm.models[0], algorithm.config.of(values)
    config = user_networks.save_user_networks(algorithm, config, env, spec, seed=0)
    layout = algorithm.layout_of(model, config, spec)
    run = RunSpec(algorithm, Config(algorithm=config, env=env), spec, (layout,), seed=0)
    run = replace(run, notes=(*env_notes(env, spec), *other))
    return run, algorithm.extras(model, config, spec)


def _stored(
    directory: RunDirectory, algorithm: Algorithm, given: Mapping[str, Any]
) -> tuple[dict[str, Any], EnvConfig]:
    """Return a run's settings, with given ones where allowed, and its environment."""
    agent, stored = directory.settings()
    if agent != algorithm.name:
        raise UserError(f"{directory.path} is a run of {agent}: name that agent.")
    given = with_own_names(algorithm.config, given, stored)
    fixed = [each for each in options(EnvConfig) if each.free_with != "--run"]
    fixed += [each for each in options(algorithm.config) if each.is_path]
    for each in fixed:
        if each.name in given and given[each.name] != stored.get(each.name):
            raise UserError(
                f"{each.flag} comes from the run that --run names: leave it out, or "
                "give --weights in place of --run."
            )
    return _merged(stored, given), EnvConfig.of(stored)


def _merged(stored: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return stored settings with given ones in their place.

    Arguments and vectorization of the stored environment don't apply to another one.
    """
    own = {"env_kwargs", "vectorization"}
    is_other = "env" in given and given["env"] != stored.get("env")
    stored = {k: v for k, v in stored.items() if not (is_other and k in own)}
    return {**stored, **given}


def _check_other_env(env: EnvConfig, spec: EnvSpec, trained_in: EnvConfig) -> list[str]:
    """Return a note if the environment isn't that of the run.

    Args:
        env: the environment in which the policy acts.
        spec: spec of this environment.
        trained_in: the run's environment, or the same one without a run.
    Raises:
        UserError: the spaces of the two differ.
    """
    from xagents_ray.actors.envs import make as environments

    name, trained = (
        " ".join((str(each.env), *(each.env_kwargs or ())))
        for each in (env, trained_in)
    )
    if name == trained:
        return []
    own = None
    with suppress(UserError):  # it can't be made here; the network's shapes must fit
        own = environments.check_env(trained_in)
    if own not in (None, spec):
        raise UserError(
            f"--env {name} has other spaces than {trained}, in which the run was "
            "trained: name an environment with the same spaces, or leave it out."
        )
    return [f"Environment: {name}; the run was trained in {trained}"]


def _with_newest(
    arrays: Mapping[str, Array], checkpoint: checkpoints.Checkpoint
) -> dict[str, Array]:
    """Return statistics of wrappers with those that no learning phase has merged yet.

    A short run with a replay may not have learned at all.
    """
    newest: dict[str, Array] = {}
    progress = checkpoint.facts.get("progress", {})
    for name, new in moments.from_json(progress.get("statistics", {})).items():
        if name.startswith(moments.WRAPPER) and f"{name}/mean" in arrays:
            parts = (arrays[f"{name}/{part}"] for part in moments.Moments._fields[1:])
            before = moments.Moments(float(arrays[f"{name}/size"]), *parts)
            for part, value in moments.merge_moments(before, new)._asdict().items():
                newest[f"{name}/{part}"] = np.asarray(value, np.float64)
    return newest


def _read(
    path: str, layout: Layout, extras: Mapping[str, tuple[int, ...]]
) -> tuple[dict[str, Array], list[str]]:
    """Return a weights file's arrays and notes; a child process reads TensorFlow's."""
    file = read_any_weights(path)
    if file_kind(file.path) == ".npz":
        return match_arrays(decode_npz(file), layout.shapes, extras, path, layout)
    arrays, notes = with_tensorflow(path, _DECODE, file, layout, extras)
    return arrays, notes


def save_weights(trained: LoadedPolicy, path: str) -> None:
    """Write the acting network's arrays, including the extras, to a weights file.

    Raises:
        UserError: the file's extension is unknown, or it can't be written.
    """
    arrays = trained.weights.arrays
    try:
        if file_kind(path) == ".npz":
            card = policy_card(trained.run, trained.facts, trained.files)
            file = WeightsFile(path, encode_npz(arrays, card))
        else:
            file = with_tensorflow(path, _ENCODE, arrays, trained.run.layout, path)
        write_file(file)
    except OSError as error:
        raise UserError(
            f"{path} can't be written ({error.strerror}): choose a path that can be."
        ) from None
