"""How much room a run asks of Ray's object store."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.cluster.run.preflight import rollout_bytes, store_bytes
from xagents_ray.cluster.run.replay_shards import PIECE_BYTES
from xagents_ray.core.spec import EnvSpec
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


def test_every_version_that_acts_has_room() -> None:
    lag, free = {"policy_lag": 2}, {"policy_lag": 2, "asynchronous": True}
    assert _weighs("ppo", **lag) == pytest.approx(_weighs("ppo") + 2, abs=0.1)
    together, apart = _weighs("ppo", **lag), _weighs("ppo", **free)
    assert apart == pytest.approx(together + 2, abs=0.1)


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


def test_a_replay_that_is_saved_needs_a_few_pieces_only() -> None:
    sizes = [
        store_bytes(_run("dqn", checkpoint_replay=saved, buffer_max_size=10**7))
        for saved in (False, True)
    ]
    assert PIECE_BYTES < sizes[1] - sizes[0] < 10 * PIECE_BYTES
