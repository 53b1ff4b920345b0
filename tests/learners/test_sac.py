"""The first updates of SAC, worked out slowly in NumPy with finite differences."""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from actor_and_critics_by_hand import (
    BETA2,
    EPSILON,
    GAMMA,
    LR,
    RAM,
    SPEC,
    assert_close,
    batch,
    descended,
    followed,
    make,
    networks_of,
    normals,
    rows,
    scatter,
    value,
    values_of,
)
from learner_support import sampled

import xagents_ray
from xagents_ray.algorithms.sac import SACConfig
from xagents_ray.core.errors import UserError
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Transitions

SEED, SCATTERED, ALPHA, UPDATE = 6, 10, 0.3, 299
NEXT, NOW = 0, 1  # an update draws actions twice


def noise_of(which: int, n: int = 8) -> Any:
    """Return [N, A] of standard normal noise of the update's two draws."""
    return normals(SEED, 2 * UPDATE + which, (n, 2))


def critics_of(arrays: dict[str, Any]) -> list[str]:
    names = {key.partition("/")[0] for key in arrays}
    return sorted(name for name in names if re.fullmatch(r"critic(-\d)?", name))


def two_critics(arrays: dict[str, Any]) -> list[str]:
    """Return those of the update's targets: its two largest numbers choose them."""
    critics = critics_of(arrays)
    seed = tf.constant([SEED, -1 - UPDATE], tf.int64)
    bits = tf.random.stateless_uniform([len(critics)], seed, None, None, tf.int32)
    largest = sorted(bits.numpy())[-2:]
    return [c for c, own in zip(critics, bits.numpy(), strict=True) if own in largest]


def drawn(arrays: dict[str, Any], obs: Any, noise: Any) -> tuple[Any, float]:
    """Return an action and its log-density, by the density of what is squashed."""
    hidden = np.tanh(
        obs @ arrays["actor/dense-0/kernel"] + arrays["actor/dense-0/bias"]
    )
    means, log_stds = (outputs_of(arrays, hidden, i) for i in (1, 2))
    if "actor/sde/log_std" in arrays:
        means = means.clip(-2, 2)
    action, log_density = [], 0.0
    for mean, log_std, x in zip(means, log_stds, noise, strict=True):
        deviation = math.exp(min(max(log_std, -20), 2))
        before = mean + deviation * x
        density = math.exp(-(x**2) / 2) / (deviation * math.sqrt(2 * math.pi))
        action.append(math.tanh(before))
        log_density += math.log(density * math.cosh(before) ** 2)
    return action, log_density


def outputs_of(arrays: dict[str, Any], hidden: Any, layer: int) -> Any:
    """Return a layer's outputs, or the logarithms of state-dependent deviations."""
    if f"actor/dense-{layer}/kernel" in arrays:
        name = f"actor/dense-{layer}"
        return hidden @ arrays[f"{name}/kernel"] + arrays[f"{name}/bias"]
    return np.log(hidden**2 @ np.exp(2 * arrays["actor/sde/log_std"]) + 1e-6) / 2


def targets_of(arrays: dict[str, Any], case: Transitions, spec: EnvSpec) -> list[float]:
    targets = []
    between = np.zeros(8) if case.log_probs is None else case.log_probs[0]
    for i, (row, noise) in enumerate(
        zip(rows(case, spec), noise_of(NEXT), strict=True)
    ):
        _, after, _, reward, terminated = row
        reward -= ALPHA * float(between[i])
        action, log_density = drawn(arrays, after, noise)
        two = two_critics(arrays) if len(critics_of(arrays)) > 2 else critics_of(arrays)
        both = [value(arrays, f"{critic}-target", after, action) for critic in two]
        soft = min(both) - ALPHA * log_density
        targets.append(reward if terminated else reward + GAMMA * soft)
    return targets


def policy_of(
    arrays: dict[str, Any], case: Transitions, spec: EnvSpec
) -> tuple[float, float]:
    """Return the policy's loss and entropy."""
    loss = entropy = 0.0
    for (now, *_), noise in zip(rows(case, spec), noise_of(NOW), strict=True):
        action, log_density = drawn(arrays, now, noise)
        values = [value(arrays, x, now, action) for x in critics_of(arrays)]
        climbed = min(values) if len(values) <= 2 else sum(values) / len(values)
        loss += (ALPHA * log_density - climbed) / 8
        entropy -= log_density / 8
    return loss, entropy


def begun(spec: EnvSpec, **settings: Any) -> tuple[Any, dict[str, Any]]:
    """Return a learner within a run, with a deviation or a mean at its bound."""
    learner = make("sac", spec, SEED, **settings)
    scatter(learner, seed=SCATTERED)
    state = learner.state.variables
    state["count/updates"].assign(UPDATE)
    if "actor/sde/log_std" in state:
        state["actor/sde/log_std"].assign(
            np.random.default_rng(3).normal(-0.5, 1, (4, 2))
        )
        state["actor/dense-1/bias"].assign([0.3, 1.8])
    else:
        state["actor/dense-2/bias"].assign([0.3, 2.5])
    if "log-alpha" in state:
        state["log-alpha"].assign(math.log(ALPHA))
    return learner, networks_of(learner)


@pytest.mark.parametrize(
    ("spec", "settings", "aim"),
    [
        (SPEC, {}, -2.0),
        (SPEC, {"target_entropy": 0.5}, 0.5),
        (RAM, {"alpha": ALPHA}, None),
        (SPEC, {"critics": 1}, -2.0),
        (SPEC, {"critics": 4}, -2.0),
        (SPEC, {"sde_frequency": 8}, -2.0),
        (SPEC, {"policy_delay": 3}, -2.0),
        (SPEC, {"critics": 4, "gradient_steps": 20}, -2.0),
        (SPEC, {"n_step": 3}, -2.0),
        (SPEC, {"n_step": 3, "n_step_entropy": False}, -2.0),
    ],
    ids=[
        "auto",
        "target",
        "fixed-uint8",
        "one-critic",
        "four-critics",
        "state-dependent",
        "third",
        "every-twentieth",
        "entropy-between",
        "rewards-between",
    ],
)
def test_one_update(spec: EnvSpec, settings: Any, aim: float | None) -> None:
    """All critics, then the actor along the smaller one or the mean, alpha, targets."""
    (learner, before), case = begun(spec, **settings), batch(1, spec=spec)
    if "n_step" in settings and settings.get("n_step_entropy", True):
        log_probs = np.linspace(-4, 3, 8, dtype=np.float32)[None]
        case = case._replace(log_probs=log_probs)
    targets = targets_of(before, case, spec)

    def critic_loss(arrays: dict[str, Any]) -> float:
        every = (values_of(arrays, x, case, spec) for x in critics_of(arrays))
        return sum(float(np.square(np.subtract(targets, q)).mean()) for q in every)

    critics, critic_norm = descended(before, critics_of(before), critic_loss)
    expected, actor_norm = descended(
        critics, ["actor"], lambda arrays: policy_of(arrays, case, spec)[0]
    )
    loss, entropy = policy_of(critics, case, spec)
    numbers = {
        "value_loss": critic_loss(before),
        "q_value": np.mean(values_of(before, "critic", case, spec)),
        "value_grad_norm": critic_norm,
        "policy_loss": loss,
        "policy_grad_norm": actor_norm,
        "entropy": entropy,
        "alpha": ALPHA,
        "updates": 1,
    }
    metrics = learner.update(sampled(case), 0)
    assert metrics.pop("learning_rate") == pytest.approx(learner.setup.config.lr)
    assert metrics == pytest.approx(numbers, rel=1e-4)
    assert_close(networks_of(learner), followed(expected))
    state = learner.state.variables
    assert state["count/updates"] == UPDATE + 1
    assert ("log-alpha" in state) == (aim is not None)
    if aim is not None:
        gradient = entropy - aim
        step = LR * gradient / (abs(gradient) + EPSILON / (1 - BETA2) ** 0.5)
        assert float(state["log-alpha"]) == pytest.approx(math.log(ALPHA) - step, 1e-4)


def test_the_table_has_every_case() -> None:
    """Each critic once the smaller one, now and next; outputs at a bound or not."""
    _, arrays = begun(SPEC)
    case = batch(1)
    for column, kind, noises in (
        (0, "", noise_of(NOW)),
        (1, "-target", noise_of(NEXT)),
    ):
        smaller = set()
        for row, noise in zip(rows(case, SPEC), noises, strict=True):
            action, _ = drawn(arrays, row[column], noise)
            critics = critics_of(arrays)
            both = [value(arrays, f"{c}{kind}", row[column], action) for c in critics]
            smaller.add(int(np.argmin(both)))
        assert smaller == {0, 1}
    observations = np.float64(case.observations[0, :, 0])
    for settings, layer in (({}, 2), ({"sde_frequency": 8}, 1)):
        _, arrays = begun(SPEC, **settings)
        hidden = np.tanh(
            observations @ arrays["actor/dense-0/kernel"] + arrays["actor/dense-0/bias"]
        )
        outputs = outputs_of(arrays, hidden, layer)
        assert (outputs > 2).any() and (outputs < 2).any()


def test_alpha_falls_while_the_entropy_is_above_its_target() -> None:
    found = []
    for target in (-50.0, 50.0):
        learner = make("sac", SPEC, SEED, lr=0.01, target_entropy=target)
        for _ in range(3):
            found.append(learner.update(sampled(batch(1)), 0)["alpha"])
    assert found[0] == found[3] == 1
    assert found[0] > found[1] > found[2] and found[3] < found[4] < found[5]


def test_between_its_turns_only_the_critics_and_all_targets_move() -> None:
    """The actor and alpha take every third update of the whole run."""
    learner, count = make("sac", SPEC, SEED, lr=0.01, policy_delay=3), 0
    for size in (1, 1, 2, 1, 2, 2, 1):
        if count == 4:
            arrays = learner.state.arrays()
            learner = make("sac", SPEC, SEED, lr=0.01, policy_delay=3)
            learner.state.restore(arrays)
        before = learner.state.arrays()
        metrics = learner.update(sampled(batch(size)), 0)
        turns = (count + size) // 3 - count // 3
        count += size
        for name, array in learner.state.arrays().items():
            if name.endswith("dense-0/kernel") or name == "log-alpha":
                moved = not np.array_equal(array, before[name])
                assert moved == (name.startswith("critic") or turns > 0), (name, count)
        for name in ("policy_loss", "policy_grad_norm", "entropy", "alpha"):
            assert (name in metrics) == (turns > 0)
        assert metrics["updates"] == size
    assert count == 10


@pytest.mark.parametrize(
    ("settings", "period"),
    [
        ({}, 1),
        ({"gradient_steps": 20}, 1),
        ({"critics": 3}, 1),
        ({"critics": 3, "gradient_steps": 20}, 20),
        ({"critics": 10, "gradient_steps": 40, "train_frequency": 2}, 20),
        ({"critics": 10, "gradient_steps": 2, "train_frequency": 4}, 1),
        ({"critics": 10, "gradient_steps": 20, "policy_delay": 2}, 2),
        ({"policy_delay": 2}, 2),
    ],
)
def test_more_critics_are_updated_more_often_than_the_actor(
    settings: dict[str, int], period: int
) -> None:
    """By default, the actor is updated once per env step then, as in REDQ."""
    assert SACConfig(**settings).actor_period == period


def test_a_run_holds_log_densities_and_continues() -> None:
    """Random actions have that of a uniform distribution from -1 to 1."""
    settings = {"max_steps": 80, "rollout_length": 16, "random_steps": 50}
    settings |= {"buffer_initial_size": 40, "buffer_batch_size": 16, "seed": 1}
    settings |= {"jit": "off"}
    first: Any = xagents_ray.train(
        "sac",
        env="Pendulum-v1",
        n_step=3,
        checkpoint_replay=True,
        local=True,
        quiet=True,
        **settings,
    )
    run = Path(first.directory)
    newest = max((run / "checkpoints").iterdir())
    with np.load(newest / "replay/replay-0.npz") as file:
        log_probs = file["log_probs"][0]
    np.testing.assert_allclose(log_probs[:50], -math.log(2), rtol=1e-6)
    drawn_later = log_probs[50:80]
    assert (drawn_later != 0).all() and len(set(drawn_later.tolist())) == 30
    assert not log_probs[80:].any()
    then: Any = xagents_ray.train(
        "sac", resume=str(run), max_steps=120, quiet=True, jit="off"
    )
    assert then.updates > first.updates > 0


@pytest.mark.parametrize("alpha", [-0.1, "nan", True])
def test_what_alpha_may_not_be(alpha: Any) -> None:
    said = f"--alpha takes auto or a number of 0 or more, got '{alpha}'."
    with pytest.raises(UserError, match=said):
        SACConfig(alpha=alpha)


def test_alpha_is_a_number_or_auto() -> None:
    assert SACConfig(alpha=0).fixed_alpha == 0
    assert SACConfig(alpha=np.float32(0.5)).fixed_alpha == 0.5
    assert math.isnan(SACConfig(alpha="auto").fixed_alpha)
