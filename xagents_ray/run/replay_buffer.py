"""Creates, saves and loads the replay buffer of a run, or a shard of it."""

from collections.abc import Callable
from pathlib import Path

import psutil

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.core.errors import UserError
from xagents_ray.core.plugins import Place, resolve_class
from xagents_ray.core.spec import EnvSpec
from xagents_ray.replay.base import GoalRewardFunction, Replay
from xagents_ray.settings.algorithm import ReplayGroup
from xagents_ray.storage.arrays import write_arrays
from xagents_ray.storage.checkpoints import read_replay, replay_file, replay_files


def shard_bounds(total: int, shards: int) -> list[int]:
    """Return the index of each shard's first environment, and the total at the end."""
    return [total * shard // shards for shard in range(shards + 1)]


def empty_replay(
    kind: Place,
    spec: EnvSpec,
    config: ReplayGroup,
    capacity: int,
    n_envs: int,
    seed: int,
    noise_units: int,
    state_units: int = 0,
) -> Replay:
    """Create a replay of a class without committing its memory."""
    make: Callable[..., Replay] = resolve_class("replay", kind)
    units = {"noise_units": noise_units, "state_units": state_units}
    more = {name: size for name, size in units.items() if size}
    return make(
        spec, capacity, n_envs, config.batch_steps, seed, *config.arguments, **more
    )


def replay_for(
    kind: Place,
    spec: EnvSpec,
    config: ReplayGroup,
    n_envs: int,
    seed: int,
    shard: int = 0,
    goal_rewards: GoalRewardFunction | None = None,
    noise_units: int = 0,
    state_units: int = 0,
) -> Replay:
    """Create the replay of a run, or a shard of it.

    Args:
        kind: class of the replay, or its import path `module:class`.
        spec: spec of the environments.
        config: settings of the replay buffer.
        n_envs: number of environments of the run; a shard has some of them.
        seed: seed of the run.
        shard: index of the shard, among `config.replay_shards`.
        goal_rewards: function that computes the rewards of relabeled goals.
        noise_units: see `RunSpec.stored_noise_units`.
        state_units: see `RunSpec.stored_state_units`.
    Raises:
        UserError: the machine's memory can't hold it.
    """
    first, end = shard_bounds(n_envs, config.replay_shards)[shard : shard + 2]
    capacities = shard_bounds(config.buffer_max_size, n_envs)
    size = capacities[end] - capacities[first]
    try:
        own, envs = seed + shard, end - first
        replay = empty_replay(
            kind, spec, config, size, envs, own, noise_units, state_units
        )
        if replay.nbytes > psutil.virtual_memory().available:
            raise MemoryError
    except MemoryError:
        raise UserError(
            f"--buffer-max-size {config.buffer_max_size} needs more memory than this "
            "machine has free: lower it."
        ) from None
    replay.commit()
    replay.goal_rewards = goal_rewards
    return replay


def check_sampled(run: RunSpec) -> None:
    """Raise UserError if memory can't hold the sequences that a phase samples."""
    needed = run.sampled_bytes
    if run.sequence_length == 1 or needed <= psutil.virtual_memory().available:
        return
    raise UserError(
        f"With memory, a learning phase samples up to {needed / 2**30:,.1f} GiB of "
        "sequences, more than this machine has free: lower --rollout-length, "
        "--buffer-batch-size or --gradient-steps, or raise --train-frequency."
    )


def save_replay(replay: Replay, directory: Path, shard: int = 0) -> None:
    """Write all contents to a file in a directory; OSError if that fails."""
    write_arrays(directory / replay_file(shard), replay.arrays())


def load_replay(replay: Replay, checkpoint: Path, shard: int = 0) -> None:
    """Restore all contents from a checkpoint, if it has a replay.

    Raises:
        UserError: the file is damaged, or belongs to another replay.
    """
    arrays = replay.arrays()
    for file in replay_files(checkpoint):
        if file.name == replay_file(shard):
            read_replay(file, arrays)
            replay.restore_generator(arrays)
