"""Options of every replay buffer."""

from xagents_ray.settings.options import count, shared

buffer_max_size = shared(
    count,
    "Maximum replay buffer size, of all environments together",
    unit="transitions",
    hp_type="int",
    known_as=("buffer_size", "replay_size", "replay_buffer_size"),
    common=True,
)
buffer_initial_size = shared(
    count,
    "Replay buffer size at which learning starts; default: a tenth of the maximum",
    unit="transitions",
    hp_type="int",
    known_as=("learning_starts",),
)
buffer_batch_size = shared(
    count,
    "Replay buffer batch size",
    hp_type="categorical",
    known_as=("batch_size",),
    common=True,
)
replay_shards = shared(
    count,
    "Ray actors that share the replay buffer, each with some of the "
    "environments; spread over the nodes of a cluster",
    needs_ray=True,
    remedy_for="replay",
)
