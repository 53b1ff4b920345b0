"""Every algorithm with every kind of input: it learns and acts alike, or refuses.

What acts alike is the env actor, the learner's network, `predict` and the ONNX model.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnxruntime
import pytest
import tensorflow as tf
from acting import run_of
from learner_cases import assert_finite

import xagents_ray
from xagents_ray.algorithms.definition import Algorithm
from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.algorithms.table import all_algorithms, find_algorithm
from xagents_ray.core.errors import UserError
from xagents_ray.core.spec import VECTOR
from xagents_ray.core.trajectory import Trajectory, map_arrays
from xagents_ray.learners import frames
from xagents_ray.learners.math.distributions import PolicyHead
from xagents_ray.policy.loading import LoadedPolicy
from xagents_ray.policy.policy import Policy
from xagents_ray.run.local import LocalDriver

LENGTH, ENVS, STACK = 7, 2, 2  # rollouts begin within episodes, of 5 steps
HIDDEN = "hidden"
MEMORY: dict[str, Any] = {"memory": "lstm:4"}
# Arguments of the environment, and settings.
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "vector": ({}, {}),
    "image": ({"seen": "image"}, {}),
    "vectors": ({"seen": "vectors"}, {}),
    "image and vectors": ({"seen": "mixed"}, {}),
    "critic inputs": ({"seen": "vectors"}, {"critic_inputs": HIDDEN}),
    "memory": ({}, MEMORY),
    "masks": ({"masks": True}, {}),
    "several masked actions": ({"actions": "several", "masks": True}, {}),
    "memory and masks": ({"masks": True}, MEMORY),
    "all but several actions": ({"seen": "mixed", "masks": True}, MEMORY),
    "all": (
        {"seen": "mixed", "actions": "several", "masks": True},
        {**MEMORY, "critic_inputs": HIDDEN},
    ),
}
QUICK = {
    ("td3", "vector"),
    ("impala", "image"),
    ("sac", "vectors"),
    ("a2c", "image and vectors"),
    ("ddpg", "critic inputs"),
    ("a2c", "memory"),
    ("trpo", "masks"),
    ("a3c", "several masked actions"),
    ("acer", "memory and masks"),
    ("dqn", "all but several actions"),
    ("ppo", "all"),
}
"""Cells that are not slow, one or two of each kind."""
_CONTINUOUS = {
    "image": "{} needs observation vectors and this environment gives images",
    "image and vectors": "{} needs observation vectors and this environment gives im",
    "memory": "{} has no setting memory, which is one of",
    "masks": "{} can't use action masks, which action_masks=False ignores; use",
    "several masked actions": "{} can't take the discrete actions of this environment",
    "memory and masks": "{} has no setting memory, which is one of",
    "all but several actions": "{} has no setting memory, which is one of",
    "all": "{} has no setting memory, which is one of",
}
_ONE_ACTION = "{} can't take several actions at once, as this environment does; use"
_NO_CRITIC = "{} has no setting critic_inputs, which is one of"
REFUSED: dict[str, dict[str, str]] = {
    "acer": {"several masked actions": _ONE_ACTION, "all": _ONE_ACTION},
    "ddpg": _CONTINUOUS,
    "dqn": {
        "critic inputs": _NO_CRITIC,
        "several masked actions": _ONE_ACTION,
        "all": _NO_CRITIC,
    },
    "sac": _CONTINUOUS,
    "td3": _CONTINUOUS,
}
"""How the sentences begin with which algorithms refuse kinds of input."""
FEW = {
    "n_steps": LENGTH,
    "rollout_length": LENGTH,
    "mini_batches": 1,
    "ppo_epochs": 1,
    "cg_iterations": 2,
    "critic_iterations": 1,
    "buffer_initial_size": 1,
    "buffer_batch_size": 4,
    "burn_in": 2,
    "random_steps": 0,
    "step_noise_coef": 0.0,
    "epsilon_start": 0.0,
    "epsilon_end": 0.0,
}


def settings_of(row: Algorithm, kind: str) -> dict[str, Any]:
    """Return the settings of a small run with a kind of input."""
    known = row.config.__dataclass_fields__
    env, own = KINDS[kind]
    if not row.discrete:
        env = {"actions": "continuous", **env}
    if env.get("seen") in ("image", "mixed"):
        own = {**own, "frame_stack": STACK}
    has_replay = row.config().replay is not None
    without_effect = {
        "burn_in": "memory" not in own,
        "buffer_initial_size": not has_replay,
        "buffer_batch_size": not has_replay or row.on_policy,
    }
    few = {k: v for k, v in FEW.items() if k in known and not without_effect.get(k)}
    kwargs = tuple(f"{k}={str(v).lower()}" for k, v in env.items())
    more = {"jit": "off", "local": True, "vectorization": "sync"}
    return {"env": "varied_envs:Varied", "env_kwargs": kwargs, **more, **few, **own}


def run_with(row: Algorithm, kind: str) -> RunSpec:
    return run_of(row.name, ENVS, **settings_of(row, kind))


CELLS = [(name, kind) for name in all_algorithms() for kind in KINDS]
LEARNING = [
    pytest.param(*cell, marks=[] if cell in QUICK else pytest.mark.slow)
    for cell in CELLS
    if cell[1] not in REFUSED.get(cell[0], {})
]


@pytest.mark.parametrize(
    ("agent", "kind"), [(a, k) for a, kinds in REFUSED.items() for k in kinds]
)
def test_refusals(agent: str, kind: str) -> None:
    with pytest.raises(UserError) as error:
        settings = settings_of(find_algorithm(agent), kind)
        xagents_ray.train(agent, n_envs=ENVS, max_steps=1, **settings)
    message = str(error.value)
    assert message.startswith(REFUSED[agent][kind].format(agent))
    assert message.endswith(".") and ". " not in message and "\n" not in message


def learn(driver: LocalDriver, phases: int) -> None:
    """Run learning phases, and check that all that acts has changed."""
    before = driver.weights
    for phase in range(phases):
        round_ = driver.collect(phase * ENVS * LENGTH)
        assert sum(int(x.steps.sum()) for x in round_.reports) > 0
        batches = 2 if round_.replay is not None else 1
        (metrics,) = driver.learn(batches, (phase + 1) * ENVS * LENGTH, {})
        assert metrics["updates"] >= 1
        assert_finite(metrics, driver.weights)
    after = driver.weights.arrays
    names = {x for x in after if x.endswith("kernel")}
    assert all(np.any(after[x] != before.arrays[x]) for x in names)


def learners_outputs(driver: LocalDriver, run: RunSpec, r: Trajectory) -> list[Any]:
    """Return what the learner's acting network computes for all T + 1 rows."""
    setup = driver._learner.setup
    record = map_arrays(tf.constant, r)
    seen = frames.rollout_inputs(record.observations, record.starts, run.spec)
    inputs = frames.network_inputs(setup.inputs(seen), record, run.spec)
    found = setup.models[run.algorithm.models[0].name](inputs)
    found = found if isinstance(found, list) else [found]
    return [np.reshape(x, (LENGTH + 1, ENVS, -1)) for x in found]


def parts_of(run: RunSpec, r: Trajectory, t: int) -> dict[str, Any]:
    """Return the named parts of the observations of row t; "" is the joined vector."""
    stack, spec, starts = run.spec.stack, run.spec, r.starts

    def frames_of(rows: Any) -> Any:
        window = rows[t : t + stack].copy()
        for i in range(stack - 1):
            window[i, starts[t + i + 1 : t + stack].any(axis=0)] = 0
        return window.swapaxes(0, 1)

    if spec.is_image:
        return {"": frames_of(r.observations)}
    arrays = r.observations if isinstance(r.observations, dict) else {}
    vectors = arrays.get(VECTOR, r.observations)[t + stack - 1]
    parts = {"": vectors}
    for each in spec.inputs:
        if each.is_image:
            parts[each.name] = frames_of(arrays[each.name])
        else:
            parts[each.name] = vectors[:, each.place]
    return parts


def policy_state(run: RunSpec) -> list[int]:
    """Return the indices of the state that actions depend on, not only values."""
    layout = run.layout
    reached = layout.reached(layout.outputs[:1])
    places = [x for i, x in enumerate(layout.state_places) if x and i in reached]
    assert places or not layout.state_units
    return [at for place in places for at in range(place.start, place.stop)]


def rows_of(
    run: RunSpec, policy: Policy, session: Any, r: Trajectory
) -> Iterator[tuple[Any, Any, Any]]:
    """Yield actions by predict, then actions and outputs by ONNX, of each row."""
    names = [each.name for each in session.get_inputs()]
    results, own = [each.name for each in session.get_outputs()], policy_state(run)
    ours = state = None if r.recurrent_state is None else r.recurrent_state[0]
    for t in range(LENGTH + 1):
        parts, starts = parts_of(run, r, t), r.starts[t + run.spec.stack - 1]
        masks = None if r.action_masks is None else r.action_masks[t]
        named = [x.removeprefix("observation/") for x in names if "observation/" in x]
        seen = {x: parts[x] for x in named} if named else parts[""]
        actions, ours = policy.predict(seen, ours, starts, action_masks=masks)
        given: dict[str, Any] = {f"observation/{x}": parts[x] for x in named}
        given |= {} if named else {"observation": parts[""]}
        if "action_masks" in names:
            given["action_masks"] = masks
        if state is not None:
            given["state"] = state * ~starts[:, None]
        found = dict(zip(results, session.run(None, given), strict=True))
        state = found.get("next_state")
        if state is not None:
            close(state[:, own], ours[:, own])
        yield actions, found["action"], found["output"]


def close(one: Any, other: Any) -> None:
    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def check_actor(run: RunSpec, outputs: list[Any], r: Trajectory) -> None:
    """Check what the env actor has stored against the learner's outputs."""
    masks = None if r.action_masks is None else tf.constant(r.action_masks[:-1])
    if r.values is not None and len(outputs) > 1:
        close(r.values, outputs[1][..., 0])
    if r.log_probs is not None or r.probabilities is not None:
        policy = PolicyHead(run.spec)(tf.constant(outputs[0][:-1]), masks=masks)
    if r.log_probs is not None:
        close(r.log_probs, policy.log_prob(r.actions))
    if r.probabilities is not None:
        allowed = True if masks is None else masks.numpy()
        logits = np.where(allowed, outputs[0][:-1], -np.inf)
        close(r.probabilities, tf.nn.softmax(logits))


@pytest.mark.parametrize(("agent", "kind"), LEARNING)
def test_it_learns_and_acts_alike(agent: str, kind: str) -> None:
    run = run_with(find_algorithm(agent), kind)
    driver = LocalDriver(run)
    learn(driver, phases=2)
    r, _ = driver._actor.rollout(driver.weights, LENGTH, 10**6)
    assert not r.starts[run.spec.stack - 1].any() and r.starts[run.spec.stack :].any()
    assert r.recurrent_state is None or r.recurrent_state.any()
    outputs = learners_outputs(driver, run, r)
    check_actor(run, outputs, r)
    policy = Policy(LoadedPolicy(run, driver.weights, "the learner"))
    policy.export("policy.onnx")
    session = onnxruntime.InferenceSession("policy.onnx")
    unread = run.config.algorithm.unread_inputs
    assert unread == ((HIDDEN,) if "critic_inputs" in KINDS[kind][1] else ())
    assert not any(HIDDEN in x.name for x in session.get_inputs() if unread)
    rows = [*rows_of(run, policy, session, r)]
    for t, (predicted, action, output) in enumerate(rows):
        close(action, predicted)
        close(output, outputs[0][t])
        if agent in ("ddpg", "dqn", "td3") and t < LENGTH:  # which don't draw here
            close(r.actions[t], predicted)
    assert len({x.tobytes() for _, _, x in rows}) > LENGTH // 2
    driver.close()


def test_the_quick_cells_learn() -> None:
    """Each kind is among them, and each algorithm."""
    assert QUICK <= {(a, k) for a, k in CELLS if k not in REFUSED.get(a, {})}
    agents, kinds = (set(each) for each in zip(*QUICK, strict=True))
    assert agents == {*all_algorithms()} and kinds == {*KINDS}
