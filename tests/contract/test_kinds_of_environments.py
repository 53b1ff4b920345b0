"""Every algorithm on 1, 3 and 16 environments, and on every kind of vector."""

from dataclasses import fields
from typing import Any

import pytest

from xagents_ray import UserError, train
from xagents_ray.algorithms.table import all_algorithms

# Each kind with each number, shared out over discrete and continuous actions.
ODD = [(1, "float64", False), (3, "uint8", True), (16, "float32", False)]
EVEN = [(1, "uint8", True), (3, "float32", False), (16, "float64", True)]
CASES = [
    pytest.param(name, n_envs, dtype, id=f"{name}-{n_envs}-{dtype}-{wants_discrete}")
    for i, (name, row) in enumerate(all_algorithms().items())
    for n_envs, dtype, prefers in (ODD, EVEN)[i % 2]
    for wants_discrete in [prefers if row.discrete and row.continuous else row.discrete]
    for dtype in [dtype + "_discrete" * wants_discrete]
]


@pytest.mark.parametrize(("agent", "n_envs", "factory"), CASES)
def test_it_learns_something(agent: str, n_envs: int, factory: str) -> None:
    config = all_algorithms()[agent].config
    known = {field.name for field in fields(config)}
    small = {"n_steps": 8, "mini_batches": 2, "buffer_initial_size": 40}
    if "n_steps" in known and config().replay is None:  # by default
        del small["buffer_initial_size"]
    settings: dict[str, Any] = {k: v for k, v in small.items() if k in known}
    if n_envs != 3:  # compiling takes longer than the rest
        settings["jit"] = "off"
    result = train(
        agent,
        env=f"places:{factory}",
        n_envs=n_envs,
        local=True,
        quiet=True,
        tensorboard=False,
        max_steps=400,
        **settings,
    )
    assert result.env_steps >= 400
    assert result.games >= 400 // 5 - n_envs
    assert result.updates >= 3


@pytest.mark.parametrize("more", [{}, {"eval_every": 64, "eval_episodes": 50}])
def test_a_crash_in_mid_run_names_their_line(more: dict[str, Any]) -> None:
    """Without Ray, where nothing could be replaced; of an evaluation too."""
    env = {"env": "places:crashing", "local": True, "quiet": True, **more}
    with pytest.raises(UserError, match=r"crashed \(.*places\.py, line \d+\)"):
        train("ppo", **env, n_steps=64, tensorboard=False, max_steps=400)
