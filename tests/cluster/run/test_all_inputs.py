"""Memory, masks, images, vectors and a critic that sees more, in one run.

Actions are several at once where the agent takes them.
"""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import xagents_ray
from xagents_ray.storage.checkpoints import load_checkpoint, newest_valid

Train = Callable[..., dict[str, Any]]
TrainAll = Callable[[str, Sequence[dict[str, Any]]], list[dict[str, Any]]]
SUPPORT = Path(__file__).parents[2] / "support"
ENVS, LENGTH = 4, 7  # of rollouts, which end within episodes, of 5 steps
RUN: dict[str, Any] = {
    "env": "varied_envs:Varied",
    "n_envs": ENVS,
    "seed": 7,
    "frame_stack": 2,
    "memory": "lstm:4",
    "max_steps": LENGTH * ENVS * 6,
}
SEVERAL: dict[str, Any] = {
    "env_kwargs": {"seen": "mixed", "actions": "several", "masks": True},
    "critic_inputs": "hidden",
    "n_steps": LENGTH,
}
AGENTS: dict[str, dict[str, Any]] = {
    "ppo": {**SEVERAL, "mini_batches": 2},
    "impala": SEVERAL,
    "dqn": {
        "env_kwargs": {"seen": "mixed", "masks": True},
        "rollout_length": LENGTH,
        "burn_in": 2,
        "n_step": 2,
        "double": True,
        "prioritized": True,
        "priority_beta": 1.0,  # which else grows until --max-steps
        "train_frequency": LENGTH * ENVS,
        "buffer_initial_size": LENGTH * ENVS,
        "buffer_max_size": LENGTH * ENVS * 4,
        "checkpoint_replay": True,
    },
}


@pytest.fixture(autouse=True)
def environments_are_here() -> None:
    """Copy their modules to where Ray's workers import from, too."""
    for name in ("stepping.py", "varied_envs.py"):
        shutil.copy(SUPPORT / name, ".")


def arrays_of(run: dict[str, Any]) -> dict[str, Any]:
    path = newest_valid(Path(run["directory"]) / "checkpoints")
    assert path is not None
    found = load_checkpoint(path).arrays
    return {name: x for name, x in found.items() if name != "count/version"}


def assert_same(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Check that two runs have played the same and learned the same."""
    assert one["updates"] == other["updates"] > 4
    assert one["episodes"] == other["episodes"] and len(one["episodes"]) > ENVS
    arrays = arrays_of(other)
    assert any("recurrent_kernel" in name for name in arrays)
    for name, array in arrays_of(one).items():
        np.testing.assert_array_equal(array, arrays[name], err_msg=name)


def check_policy(directory: str) -> None:
    """Play with the weights by predict, and by the ONNX model step for step."""
    policy = xagents_ray.load(directory)
    played = policy.evaluate(2, n_envs=1, seed=3)
    policy.export("policy.onnx")
    session = onnxruntime.InferenceSession("policy.onnx")
    names = [x.name for x in session.get_inputs()]
    assert {"action_masks", "state", "observation/camera"} <= {*names}
    env = policy.make_env()
    seen, info = env.reset(seed=3)
    for episode in range(2):
        state, total, over = None, 0.0, False
        while not over:
            mask = info["action_mask"]
            action, after = policy.predict(seen, state, action_masks=mask)
            assert after is not None
            before = np.zeros_like(after) if state is None else state
            given = {"state": before, "action_masks": mask[None]}
            given |= {
                name: np.asarray(seen[name.removeprefix("observation/")])[None]
                for name in names
                if name not in given
            }
            (exported,) = session.run(["action"], given)
            np.testing.assert_array_equal(exported[0], action)
            state = after
            seen, reward, terminated, truncated, info = env.step(action)
            total, over = total + reward, terminated or truncated
        assert total == played.returns[episode]
        seen, info = env.reset()
    env.close()


@pytest.mark.slow
@pytest.mark.parametrize("agent", AGENTS)
def test_a_lagged_run_on_ray_is_the_local_one(
    agent: str, train_all: TrainAll, cluster: str
) -> None:
    settings = {**RUN, **AGENTS[agent], "policy_lag": 1}
    runs = [{"local": True}, {"address": cluster, "n_actors": 1}]
    local, remote = train_all(agent, [{**settings, **run} for run in runs])
    assert remote["policy_lag"]["max"] == 1
    assert_same(local, remote)
    check_policy(remote["directory"])


@pytest.mark.slow
@pytest.mark.parametrize("agent", AGENTS)
def test_a_local_run_continues_exactly_on_ray(
    agent: str, train: Train, train_all: TrainAll, cluster: str
) -> None:
    """In the middle of episodes, with their states, masks and frames."""
    settings = {**RUN, **AGENTS[agent], "local": True}
    ends = [{"max_steps": RUN["max_steps"] // 2}, {}]
    half, whole = train_all(agent, [{**settings, **end} for end in ends])
    where = {"address": cluster, "n_actors": 1, "max_steps": RUN["max_steps"]}
    rest = train(agent, resume=half["directory"], **where)
    assert rest["dropped"] == 0
    rest["episodes"] = half["episodes"] + rest["episodes"]
    assert_same(whole, rest)


@pytest.mark.slow
@pytest.mark.parametrize("agent", AGENTS)
def test_two_actors_act_as_one(agent: str, train_all: TrainAll, cluster: str) -> None:
    """Whose environments have states of their own; so do shards of a replay."""
    settings = {**RUN, **AGENTS[agent], "address": cluster, "policy_lag": 0}
    settings |= {"replay_shards": 2} if agent == "dqn" else {}
    one, two = train_all(agent, [{**settings, "n_actors": n} for n in (1, 2)])
    assert one["episodes"] == two["episodes"]
