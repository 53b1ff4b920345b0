"""The first updates of DDPG and TD3, worked out slowly with finite differences."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from actor_and_critics_by_hand import (
    GAMMA,
    RAM,
    SPEC,
    actor_loss,
    assert_close,
    batch,
    cut,
    descended,
    followed,
    make,
    networks_of,
    normals,
    output,
    rows,
    scatter,
    value,
    values_of,
)
from learner_support import sampled

from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.spec import EnvSpec
from xagents_ray.core.trajectory import Transitions

SEED, SIGMA, CLIP = 6, 0.4, 0.5
CRITICS = ("critic", "critic-2")
UPDATE = 299


def noise_of(update: int, n: int = 8) -> Any:
    """Return [N, A] of the update's noise, before it is scaled and clipped."""
    return normals(SEED, update, (n, 2))


def targets_of(
    arrays: dict[str, Any],
    case: Transitions,
    spec: EnvSpec,
    critics: tuple[str, ...] = CRITICS,
) -> list[float]:
    """Return those of TD3; of DDPG, which has one critic, without noise."""
    targets = []
    sigma = SIGMA if len(critics) > 1 else 0.0
    noises = np.float64(noise_of(UPDATE))
    for row, noise in zip(rows(case, spec), noises, strict=True):
        _, after, _, reward, terminated = row
        means = output(arrays, "actor-target", after)
        action = [
            min(max(mean + min(max(sigma * x, -CLIP), CLIP), -1), 1)
            for mean, x in zip(means, noise, strict=True)
        ]
        each = [value(arrays, f"{critic}-target", after, action) for critic in critics]
        targets.append(reward if terminated else reward + GAMMA * min(each))
    return targets


def td3(spec: EnvSpec = SPEC, **settings: Any) -> Any:
    values = {"policy_noise_coef": SIGMA, "noise_clip": CLIP, **settings}
    return make("td3", spec, SEED, **values)


@pytest.mark.parametrize("agent", ["ddpg", "td3"])
@pytest.mark.parametrize("end", ["linear", "tanh", "sigmoid"])
def test_only_a_linear_end_of_an_actor_gets_a_tanh(agent: str, end: str) -> None:
    row = find_algorithm(agent)
    Path("own.cfg").write_text(f"[dense-0]\noutput=1\nactivation={end}\n")
    config = row.config(actor_model="own.cfg", critic_model="own.cfg")
    actor, *critics = row.layouts(config, SPEC)
    assert actor.layers[0].activation == ("tanh" if end == "linear" else end)
    assert {critic.layers[0].activation for critic in critics} == {end}


@pytest.mark.parametrize(
    ("agent", "spec", "delay"),
    [
        ("ddpg", SPEC, 1),
        ("ddpg", RAM, 1),
        ("td3", SPEC, 1),
        ("td3", SPEC, 7),
        ("td3", RAM, 3),
    ],
    ids=["ddpg", "ddpg-uint8", "each", "not", "uint8"],
)
def test_one_update(agent: str, spec: EnvSpec, delay: int) -> None:
    """All critics first, then the actor where it is its turn, and all targets."""
    critics = CRITICS[:1] if agent == "ddpg" else CRITICS
    learner = make("ddpg", spec) if agent == "ddpg" else td3(spec, policy_delay=delay)
    case, before = batch(1, spec=spec), scatter(learner)
    if agent == "td3":  # its 300th, when the actor's turn may come
        learner.state.variables["count/updates"].assign(UPDATE)
    targets = targets_of(before, case, spec, critics)

    def critic_loss(arrays: dict[str, Any]) -> float:
        each = (values_of(arrays, critic, case, spec) for critic in critics)
        return sum(float(np.square(np.subtract(targets, q)).mean()) for q in each)

    expected, critic_norm = descended(before, list(critics), critic_loss)
    numbers = {
        "value_loss": critic_loss(before),
        "q_value": np.mean(values_of(before, "critic", case, spec)),
        "value_grad_norm": critic_norm,
        "updates": 1,
    }
    if delay != 7:
        numbers["policy_loss"] = actor_loss(expected, case, spec)
        expected, numbers["policy_grad_norm"] = descended(
            expected, ["actor"], lambda arrays: actor_loss(arrays, case, spec)
        )
        expected = followed(expected)
    metrics = learner.update(sampled(case), 0)
    assert metrics.pop("learning_rate") == pytest.approx(learner.setup.config.lr)
    assert metrics == pytest.approx(numbers, rel=1e-4)
    assert_close(networks_of(learner), expected)
    if agent == "td3":
        assert learner.state.variables["count/updates"] == UPDATE + 1


def test_the_table_of_targets_has_every_case() -> None:
    """Noise that is clipped and not, actions too, each critic once the smaller one."""
    learner, case = td3(), batch(1)
    arrays, noise = scatter(learner), SIGMA * np.float64(noise_of(UPDATE))
    clipped = np.abs(noise) > CLIP
    assert clipped.any() and not clipped.all()
    after = np.float64(case.observations[0, :, 1])
    means = output(arrays, "actor-target", after)
    outside = np.abs(means + np.clip(noise, -CLIP, CLIP)) > 1
    assert outside.any() and not outside.all()
    actions = np.clip(means + np.clip(noise, -CLIP, CLIP), -1, 1)
    one, other = (
        output(arrays, f"{critic}-target", np.concatenate([after, actions], axis=-1))
        for critic in CRITICS
    )
    continues = case.discounts[0] > 0
    assert (one < other)[continues].any() and (one > other)[continues].any()


def parts(learner: Any) -> dict[str, Any]:
    """Return one array of each network."""
    return {
        key.partition("/")[0]: array
        for key, array in networks_of(learner).items()
        if key.endswith("dense-0/kernel")
    }


def test_the_actor_is_delayed_by_the_count_of_the_whole_run() -> None:
    """Every third update, in phases of one and two, and after a resumption."""
    learner, case, count = td3(lr=0.01, policy_delay=3), batch(2), 0
    for size in (1, 1, 1, 2, 1, 2, 2, 1, 1):
        if count == 5:
            arrays, learner = learner.state.arrays(), td3(lr=0.01, policy_delay=3)
            learner.state.restore(arrays)
        before = parts(learner)
        metrics = learner.update(sampled(cut(case, 0, size)), 0)
        turns = (count + size) // 3 - count // 3
        count += size
        for name, array in parts(learner).items():
            changed = not np.array_equal(array, before[name])
            assert changed == (name in CRITICS or turns > 0), (name, count)
        for name in ("policy_loss", "policy_grad_norm"):
            assert (name in metrics) == bool(turns)
    assert count == 12


def test_every_seed_has_its_own_noise() -> None:
    """Learners of the same weights and batch; only the noise differs."""
    case, found = batch(1), []
    for seed in (SEED, SEED + 1):
        learner = make("td3", SPEC, seed, policy_noise_coef=SIGMA)
        scatter(learner)
        begin = learner.state.arrays()
        for _ in range(2):
            learner.state.restore(begin)
            found.append(learner.update(sampled(case), 0)["value_loss"])
    assert found[0] == found[1] != found[2] == found[3]
