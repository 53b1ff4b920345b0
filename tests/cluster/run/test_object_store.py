"""How much room a run asks of Ray's object store."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.cluster.run.preflight import rollout_bytes, store_bytes
from xagents_ray.cluster.run.shard_pieces import PIECE_BYTES
from xagents_ray.core.errors import UserError
from xagents_ray.core.spec import EnvSpec
from xagents_ray.run.local import start_local_driver
from xagents_ray.run.replay_buffer import check_sampled
from xagents_ray.settings.config import Config

_SPEC = EnvSpec((4,), "float32", 1, 2)
_LARGE = """[dense-0]
units=2500
common=1
[dense-1]
units=2490
common=1
[dense-2]
output=1
{}"""
_MEGABYTES = 25.0


def _run(agent: str, large: bool = False, **settings: Any) -> RunSpec:
    row = find_algorithm(agent)
    if large:
        heads = "[dense-3]\noutput=1\n" * (len(row.models[0].heads) - 1)
        Path("large.cfg").write_text(_LARGE.format(heads))
        settings["model"] = "large.cfg"
    given = {"env": "CartPole-v1", "n_envs": 4, "n_actors": 2, "max_steps": 1}
    config = Config.of(row.config, {**given, **settings})
    layouts = row.layouts(config.algorithm, _SPEC)
    return RunSpec(row, config, _SPEC, layouts, seed=1)


def _weighs(agent: str, **settings: Any) -> float:
    """Return how much more a network of 25 MB asks for, in networks."""
    more = store_bytes(_run(agent, True, **settings)) - store_bytes(
        _run(agent, **settings)
    )
    return more / (_MEGABYTES * 1e6)


def test_a_small_run_needs_little_more_than_the_spare_room() -> None:
    assert 128 < store_bytes(_run("ppo")) / 2**20 < 132


@pytest.mark.parametrize("agent", ["ppo", "dqn"])
def test_weights_and_snapshots_have_room(agent: str) -> None:
    """Five versions of the weights, and six states: two networks, Adam's moments."""
    assert _weighs(agent) == pytest.approx(5 + 7 * 4, abs=0.5)


@pytest.mark.parametrize(("lag", "rounds", "phases"), [(0, 1, 1), (2, 3, 2)])
def test_rounds_and_batches_have_room_three_times(
    lag: int, rounds: int, phases: int
) -> None:
    """Of every round that may be in flight, and of two phases where one is ahead."""
    one, two = (_run("ppo", n_steps=n, policy_lag=lag) for n in (128, 4_096))
    more = store_bytes(two) - store_bytes(one)
    assert more == 3 * rounds * (rollout_bytes(two) - rollout_bytes(one)) > 0
    one, two = (
        _run("dqn", buffer_batch_size=n, policy_lag=lag, buffer_initial_size=4_096)
        for n in (32, 1_024)
    )
    more = store_bytes(two) - store_bytes(one)
    assert more == 3 * phases * (two.sampled_bytes - one.sampled_bytes) > 0


def test_every_version_that_acts_has_room() -> None:
    lag, free = {"policy_lag": 2}, {"policy_lag": 2, "asynchronous": True}
    assert _weighs("ppo", **lag) == pytest.approx(_weighs("ppo") + 2, abs=0.1)
    for agent, at_once in (("ppo", 1), ("dqn", 2)):  # by each of two env actors
        together, apart = _weighs(agent, **lag), _weighs(agent, **free)
        assert apart == pytest.approx(together + 2 * at_once, abs=0.1)


def test_masks_and_states_of_rollouts_have_room() -> None:
    """A mask per row, and a state per rollout."""
    n_envs, steps = 4, 8
    sizes = {"n_steps": steps, "mini_batches": 1}
    plain = _run("ppo", **sizes)
    masked = replace(plain, spec=replace(_SPEC, n_actions=500, has_action_masks=True))
    recurrent = _run("ppo", memory="lstm:2000", **sizes)
    rows = n_envs * (steps + 1)
    assert rollout_bytes(masked) - rollout_bytes(plain) == 500 * rows
    more = rollout_bytes(recurrent) - rollout_bytes(plain)
    assert more >= 4 * 2 * 2000 * n_envs == pytest.approx(more, rel=0.2)


def test_sampled_sequences_have_room() -> None:
    """Frames that consecutive rows share are sampled once."""
    plain = _run("dqn", rollout_length=64, memory="lstm:8", train_frequency=8)
    images = replace(plain, spec=EnvSpec((84, 84), "uint8", 4, 2))
    batches = 64 * 4 // 8 + 1
    rows = batches * 32 * (64 + 4)
    assert images.sampled_bytes == pytest.approx(rows * 84 * 84, rel=0.02)
    assert store_bytes(images) - store_bytes(plain) < 3.5 * images.sampled_bytes


def test_sampled_sequences_that_memory_cannot_hold_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    long, plain = _run("dqn", memory="lstm:8", rollout_length=64), _run("dqn")
    unused: Any = None
    free = SimpleNamespace(available=long.sampled_bytes)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: free)
    check_sampled(long)
    free.available -= 1
    said = r"up to 0.0 GiB of sequences, more than .* lower --rollout-length"
    with pytest.raises(UserError, match=said):
        start_local_driver(long, unused, print)
    free.available = 0
    check_sampled(plain)


def test_a_replay_that_is_saved_needs_a_few_pieces_only() -> None:
    sizes = [
        store_bytes(_run("dqn", checkpoint_replay=saved, buffer_max_size=10**7))
        for saved in (False, True)
    ]
    assert PIECE_BYTES < sizes[1] - sizes[0] < 10 * PIECE_BYTES
