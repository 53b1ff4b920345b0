"""Rewards of goals that are computed from the `info` of a step."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from paying_envs import Costly

import xagents_ray
from xagents_ray.actors.envs import goals, make
from xagents_ray.actors.envs.step_info import InfoCoder, find_fields
from xagents_ray.algorithms.ddpg import DDPGConfig
from xagents_ray.core.errors import UserError
from xagents_ray.settings.config import Config


def config_of(name: str, **settings: Any) -> Config:
    given = {"env": f"paying_envs:{name}", "max_steps": 1, "her": "future"}
    return Config.of(DDPGConfig, {**given, **settings})


@pytest.mark.parametrize("vectorization", ["sync", "async"])
@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("Costly", {"cost"}),
        ("Sometimes", {3, "bonus"}),
        ("Shapes", {"pair", "is_late", "vector"}),
        ("Whole", {"a", "b"}),
        ("Branching", {"cost"}),
        ("Listed", {"cost"}),
        ("Both", {"cost"}),
        ("Blind", set()),
    ],
)
def test_stored_infos_give_the_rewards_of_steps(
    name: str, keys: set[Any], vectorization: str
) -> None:
    """Two environments, of which one is half an episode ahead, and its resets."""
    config = config_of(name, vectorization=vectorization)
    spec, notes = goals.check_goal_rewards(config, make.check_env(config.env))
    assert {each.key for each in spec.info} == keys and notes == ()
    computed = goals.goal_rewards(config, spec)
    envs = make.make_envs(config.env, 2, 1)
    coder, generator = envs.read_info(spec.info), np.random.default_rng(1)
    assert computed is not None and (coder is None) == (not keys)
    envs.reset(0)
    resets = np.zeros(2, np.bool_)
    for _ in range(20):
        step = envs.step(generator.uniform(-1, 1, (2, 1)).astype(np.float32))
        info = None
        if coder is not None:
            info = coder.encode_step(step.infos, ~resets)[~resets]
        assert spec.info_size == (0 if info is None else info.shape[1])
        pair = [step.observations[~resets, each] for each in spec.goals.slices]
        np.testing.assert_allclose(
            computed(*pair, info)[0], step.rewards[~resets], rtol=1e-5
        )
        resets = step.ended
    envs.close()
    computed.close()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Worded", r"her stores info\['text'\].*'never read' \(.*line \d+\); give a"),
        ("Many", r"her: compute_reward\(\) returned array.*line \d+\); return one"),
        ("Keyless", r"KeyError: 'cost' \(.*paying_envs.py, line \d+\)"),
    ],
)
def test_rewards_that_can_not_be_computed_are_refused(name: str, said: str) -> None:
    config = config_of(name)
    spec = make.check_env(config.env)
    with pytest.raises(UserError, match=said):
        goals.check_goal_rewards(config, spec)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("text", "is 'text'"),
        (np.zeros(2), r"has the shape \(2,\) after \(\)"),
        ([[1], [1, 2]], r"is \[\[1\], \[1, 2\]\]"),
        ({"a": 1}, "is {'a': 1}"),
    ],
)
def test_an_entry_stays_what_it_was(value: Any, said: str) -> None:
    fields = find_fields([{"cost": 1}, {}], {"cost", "late"}, "Env-v0", "a.py")
    coder = InfoCoder(fields, "Env-v0", "a.py")
    good = [{"cost": 2}, {"cost": 3, "late": 0.5}, {}]
    decoded = coder.decode(coder.encode(good))
    assert decoded == good and isinstance(decoded[0]["cost"], int)
    assert coder.decode(coder.encode([{"cost": 0.5}, {"cost": None}])) == [
        {"cost": 0.5},
        {},
    ]
    with pytest.raises(UserError, match=said):
        coder.encode([{"cost": value}])


def test_shapes_that_differ_are_refused() -> None:
    with pytest.raises(UserError, match=r"shapes \(1,\) and \(2,\) \(a.py\)"):
        find_fields([{"a": [1]}, {"a": [1, 2]}], {"a"}, "Env-v0", "a.py")


def test_gymnasiums_own_arrays_are_read() -> None:
    """Those of vector environments, with masks."""
    fields = find_fields([{"a": 1, "b": [2.5]}], {"a", "b"}, "Env-v0", "")
    infos = {
        "a": np.array([7, 0, 8]),
        "_a": np.array([True, False, True]),
        "b": np.array([[0.0], [3.5], [4.5]]),
        "_b": np.array([False, True, True]),
    }
    coder = InfoCoder(fields, "Env-v0")
    rows = np.array([True, True, False])
    assert coder.decode(coder.encode_step(infos, rows)) == [{"a": 7}, {"b": [3.5]}, {}]


@pytest.mark.parametrize(
    "read",
    [
        lambda info: info["bonus"],
        lambda info: info.get("bonus", 0),
        lambda info: "bonus" in info,
        lambda info: "bonus" in info.keys(),
    ],
)
def test_what_is_read_late_is_no_default(read: Callable[[Any], Any]) -> None:
    fields = find_fields([{"cost": 1.0}], {"cost", "known"}, "Env-v0", "")
    coder = InfoCoder(fields, "Env-v0")
    (info,) = coder.decode(coder.encode([{"cost": 1.0}]))
    assert info["cost"] == info.get("cost") == 1 and "known" not in info
    assert info.get("known", 7) == 7 and [*info.items()] == [("cost", 1.0)]
    with pytest.raises(UserError, match=r"Env-v0 reads info\['bonus'\], which it"):
        read(info)


@pytest.mark.slow
def test_an_own_loop_passes_the_info() -> None:
    agent = xagents_ray.Agent(
        "ddpg",
        env=Costly,
        her="future",
        n_step=2,
        buffer_initial_size=20,
        buffer_batch_size=16,
    )
    stepped, metrics = Costly(), {}
    observation, info = stepped.reset(seed=1)
    for _ in range(60):
        action = agent.act(observation)
        observation, *results, info = stepped.step(action)
        agent.observe(observation, *results, info)
        metrics |= agent.learn()
        if any(results[1:]):
            observation, info = stepped.reset()
    assert metrics
    agent.act(observation)
    with pytest.raises(UserError, match="info=info"):
        agent.observe(observation, 0.0, False, False)
    agent.close()


@pytest.mark.usefixtures("workers_import_support")
@pytest.mark.parametrize(
    ("name", "placed"),
    [
        ("Costly", {"local": True}),
        ("Listed", {"local": True}),
        pytest.param(
            "Listed",
            {"n_actors": 2, "replay_shards": 2, "prioritized": True},
            marks=pytest.mark.slow,
        ),
    ],
    ids=["Costly-local", "Listed-local", "Listed-ray"],
)
def test_runs(
    name: str, placed: dict[str, Any], train: Callable[..., dict[str, Any]]
) -> None:
    result = train(
        "ddpg",
        env=f"paying_envs:{name}",
        her="future",
        n_envs=2,
        n_step=2,
        max_steps=300,
        buffer_initial_size=60,
        **placed,
    )
    assert result["env_steps"] >= 300
