"""Prepares a run: finds the run to resume, and checks settings and environment."""

import filecmp
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from xagents_ray.algorithms.definition import Algorithm
from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.algorithms.sequence_replay import check_sequences
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core import objects
from xagents_ray.core.errors import UserError
from xagents_ray.core.installation import check_complete
from xagents_ray.core.spec import EnvSpec
from xagents_ray.run import user_networks, weights_formats
from xagents_ray.run.checkpoint_facts import sessions_before
from xagents_ray.run.replay_buffer import empty_replay
from xagents_ray.run.suitability import check_effects, check_onnx, check_shared
from xagents_ray.run.tensorflow_child import read_any_weights
from xagents_ray.run.worker_variables import worker_variables
from xagents_ray.settings.algorithm import AlgorithmConfig
from xagents_ray.settings.config import Config, placed_settings, train_options
from xagents_ray.settings.options import flag, options
from xagents_ray.settings.run import SESSION_GROUPS, RunConfig
from xagents_ray.settings.training import TrainingConfig
from xagents_ray.storage.checkpoints import (
    Checkpoint,
    all_checkpoints,
    load_checkpoint,
    load_newest,
    step_of,
)
from xagents_ray.storage.lock import locked_directory
from xagents_ray.storage.run_directory import RunDirectory, locate_run

_FREE = {each.name for group in SESSION_GROUPS for each in options(group)}.union(
    each.name for each in options(TrainingConfig) if each.free_with == "--resume"
)


@dataclass(frozen=True)
class Resumed:
    """A run to resume."""

    directory: RunDirectory
    checkpoint: Checkpoint  # where to continue
    session: int  # how many times the run has been resumed, this one included
    notes: Sequence[str] = ()  # about skipped checkpoints, a sentence each

    @property
    def goes_back(self) -> bool:
        """Whether the run has later checkpoints than the one where it continues."""
        step = int(self.checkpoint.facts["progress"]["env_steps"])
        found = all_checkpoints(self.directory.checkpoints)
        return any(step_of(path) > step for path in found)


def find_run(agent: str, given: Mapping[str, Any]) -> tuple[Resumed, dict[str, Any]]:
    """Return the run that `given["resume"]` names, and its resulting settings.

    Raises:
        UserError: there is no such run or checkpoint, it is damaged or of another
            agent, another process trains it, a setting can't be changed, or the run
            would write outside of its directory.
    """
    run_dir = given.get("run_dir") or RunConfig().run_dir
    directory, path = locate_run("--resume", given["resume"], run_dir, agent)
    given = _of_resumed(given)
    own_agent, stored = directory.settings()
    if own_agent != agent:
        raise UserError(
            f"{directory.path} is a run of {own_agent}, not of {agent}: use train "
            f"{own_agent}."
        )
    config = find_algorithm(agent).config
    own = {each.name for each in options(config) if each.is_path}
    given = with_own_names(config, given, stored)
    for name, value in given.items():
        if name in own and objects.find_kept("network", value) is not None:
            continue  # built by the same code, it fits the checkpoint
        if name not in _FREE and (was := stored.get(name)) != value:
            raise UserError(
                f"{flag(name)} is {was!s:.80} in {directory.path} and can't "
                "change on --resume: leave it out, or begin a new run with --weights."
            )
    skipped: list[str] = []
    with locked_directory(directory.path):
        if path is None:
            checkpoint, skipped = load_newest(directory.checkpoints)
        else:
            checkpoint = load_checkpoint(path, "use --resume")
    _check_written(directory, config, stored, given)
    resumed = Resumed(directory, checkpoint, sessions_before(checkpoint) + 1, skipped)
    kept = placed_settings(config, stored, given)
    initial = {each.name: None for each in options(RunConfig) if each.is_path}
    return resumed, {**kept, **initial, **given}


def _of_resumed(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings given to a resumed run; it keeps those of its start.

    Raises:
        UserError: a setting is for new runs.
    """
    new = [each for each in options(RunConfig) if each.new_run]
    for each in new:
        if given.get(each.name) is not None:
            raise UserError(
                f"{each.flag} is for a new run and --resume continues one: drop one of "
                "the two."
            )
    names = {each.name for each in new}
    return {name: value for name, value in given.items() if name not in names}


def _check_written(
    directory: RunDirectory,
    config: type[AlgorithmConfig],
    stored: Mapping[str, Any],
    given: Mapping[str, Any],
) -> None:
    """Raise UserError if a run would write elsewhere than into its directory.

    It may be from someone else, so only the user can name other files.
    """
    path = directory.path
    # Further down, only a film is written to a file that may be there already.
    for inner in sorted([*path.iterdir(), *path.glob("video/*")]):
        if inner.is_symlink() and not _is_below(inner, path):
            raise UserError(
                f"{inner} is a link to {os.readlink(inner)}, outside of the run's "
                "directory: put the file or folder itself in its place."
            )
    for each in train_options(config):
        named = stored.get(each.name)
        paths = named if isinstance(named, tuple) else (named,)
        if not each.is_written or named is None or each.name in given:
            continue
        for other in paths:
            if not _is_below(Path(str(other)), path):
                raise UserError(
                    f"{path} is a run that also writes {other}, outside of its "
                    f"directory: give {each.flag} again, with this path or another."
                )


def _is_below(path: Path, folder: Path) -> bool:
    """Return whether a path, with links resolved, is inside of a folder."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def with_own_names(
    config: type, given: Mapping[str, Any], stored: Mapping[str, Any]
) -> dict[str, Any]:
    """Return settings with the stored names of objects and files that are the same.

    Args:
        config: options of the agent.
        given: settings by their flat names.
        stored: stored settings of the run.
    """
    given = {k: objects.as_stored(k, v, stored.get(k)) for k, v in given.items()}
    paths = [each.name for each in options(config) if each.is_path]
    again = [x for x in paths if _same_content(given.get(x), stored.get(x))]
    return given | {name: stored[name] for name in again}


def _same_content(given: Any, stored: Any) -> bool:
    """Return whether both are paths of files with the same bytes.

    A run has a copy of a `.h5` file beside the network that it was converted to.
    """
    try:
        one, other = Path(given), Path(stored)
        if one.suffix == ".h5":
            other = other.with_suffix(".h5")
        return filecmp.cmp(one, other, shallow=False)  # reads regular files only
    except (OSError, TypeError, ValueError):
        return False


def prepare_run(
    algorithm: Algorithm, config: Config, resumed: Resumed | None = None
) -> RunSpec:
    """Check a run's environment; return the run with notes, or raise UserError."""
    from xagents_ray.actors.envs import goals
    from xagents_ray.actors.envs import make as environments
    from xagents_ray.actors.envs.notes import env_notes

    check_complete("Training")
    env = environments.choose_vectorization(config.env)
    spec = environments.check_env(env)
    notes = env_notes(env, spec)
    if env != config.env:
        note = f"EnvPool steps {env.env}; --vectorization sync takes Gymnasium's own"
        notes = (*notes, note)
    config = replace(config, env=env)
    spec, more = goals.check_goal_rewards(config, spec)
    run = build_run(algorithm, config, spec, resumed)
    return replace(run, notes=(*notes, *more, *run.notes))


def build_run(
    algorithm: Algorithm,
    config: Config,
    spec: EnvSpec,
    resumed: Resumed | None = None,
) -> RunSpec:
    """Return a run with network layouts for an environment.

    Raises:
        UserError: the algorithm or the network can't work with the environment, or a
            variable of `--worker-env` isn't set.
    """
    worker_variables(config.placement, os.environ)  # raises if one is not set
    algorithm = algorithm.adapted(config.algorithm)
    algorithm.check_spaces(spec)
    if config.run.resume is None:  # resumed runs may have settings without effect
        check_effects(algorithm, config, spec)
    only_images = spec.is_image or spec.observation_shape == (0,)
    if config.algorithm.normalize_observations and only_images:
        raise UserError(
            "--normalize-observations is for vectors and this environment gives "
            "images, which are scaled anyway: leave it out."
        )
    seed = config.training.seed
    if resumed is not None:
        seed = int(resumed.checkpoint.facts["seed"])
    seed = secrets.randbits(31) if seed is None else seed
    own = user_networks.save_user_networks(
        algorithm, config.algorithm, config.env, spec, seed
    )
    config = replace(config, algorithm=own)
    layouts = algorithm.layouts(config.algorithm, spec)
    check_sequences(config.algorithm, layouts, config.env.n_envs)
    if config.placement.n_learners > 1:
        check_shared(algorithm, config)
    if config.placement.inference == "onnx":
        check_onnx(layouts[0])
    for path, layout in zip(config.run.checkpoints or (), layouts, strict=False):
        weights_formats.check_format(layout, path, "--checkpoints")
    files = tuple(read_any_weights(path) for path in config.run.weights or ())
    models = user_networks.user_keras_files(algorithm, own)
    notes = tuple(user_networks.network_notes(layouts))
    return RunSpec(algorithm, config, spec, layouts, seed, files, models, notes=notes)


def replay_bytes(run: RunSpec, capacity: int) -> int:
    """Return the size of a run's replay buffer in bytes; 0 if it has none.

    Args:
        run: the prepared run.
        capacity: total capacity of the replay buffer for all environments.
    """
    kind, config = run.replay_kind, run.config.algorithm.replay
    if kind is None or config is None:
        return 0
    n_envs, noise = run.config.env.n_envs, run.stored_noise_units
    state = run.stored_state_units
    made = empty_replay(kind, run.spec, config, capacity, n_envs, 0, noise, state)
    return made.nbytes


def replay_entry_bytes(run: RunSpec) -> float:
    """Return the bytes per transition or trajectory in a run's replay buffer."""
    few = 30 * run.config.env.n_envs * run.config.algorithm.batch_steps
    return (replay_bytes(run, 2 * few) - replay_bytes(run, few)) / few


def new_directory(run: RunSpec) -> RunDirectory:
    """Create the directory of a new run.

    Raises:
        UserError: it already exists, or can't be created.
    """
    own, env, agent = run.config.run, str(run.config.env.env), run.algorithm.name
    return RunDirectory.create(own.run_dir, agent, env, own.name, run.seed)


def begin_in(directory: RunDirectory, run: RunSpec) -> None:
    """Record the settings and this start of a run in its directory.

    Raises:
        OSError: a file can't be written.
    """
    copies = user_networks.file_copies(run.config.algorithm)
    directory.begin(run.algorithm.name, run.seed, run.config.groups(), copies)
