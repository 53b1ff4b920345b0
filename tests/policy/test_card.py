"""A weights file that says what it is of, and what it may say."""

import io
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from policies import KINDS, policy_of

import xagents_ray
from xagents_ray import UserError
from xagents_ray.commands import shortcuts
from xagents_ray.policy.card import is_harmless
from xagents_ray.settings.options import options
from xagents_ray.settings.training import EnvConfig

DQN = Path(__file__).parents[1] / "data/earlier/trained/dqn/CartPole-v1/before"
OBSERVATIONS = np.random.default_rng(0).normal(size=(50, 4))


def changed(path: str, **settings: Any) -> None:
    """Save the earlier DQN with these settings in its card."""
    xagents_ray.load(DQN).save(path)
    with np.load(path) as file:
        arrays = dict(file)
    card = json.loads(arrays["card"].tobytes())
    card["settings"] |= settings
    arrays["card"] = np.frombuffer(json.dumps(card).encode(), np.uint8)
    out = io.BytesIO()
    np.savez(out, **arrays)
    Path(path).write_bytes(out.getvalue())


def test_nothing_else_is_needed() -> None:
    """Its network of a .cfg file is in it, also after another save."""
    policy = xagents_ray.load(DQN)
    policy.save("a.npz")
    xagents_ray.load("a.npz").save("b.npz")
    again = pickle.loads(pickle.dumps(xagents_ray.load("b.npz")))
    assert repr(again) == "<Policy: dqn of CartPole-v1 from b.npz>"
    assert (again.act(OBSERVATIONS) == policy.act(OBSERVATIONS)).all()
    played = again.evaluate(2, n_envs=2, seed=1).returns
    assert played == policy.evaluate(2, n_envs=2, seed=1).returns
    assert again.card["env_steps"] == policy.card["env_steps"] > 0
    (note,) = again.notes
    assert note.startswith("b.npz: dqn of CartPole-v1, env steps ")


def test_settings_that_act_are_in_it() -> None:
    """Those of the environment, with its arguments, and normalization."""
    lander = {"env": "LunarLander-v3", "env_kwargs": {"continuous": True}}
    policy = policy_of("ppo", **lander, normalize_observations=True)
    policy.save("lander.npz")
    again = xagents_ray.load("lander.npz")
    observations = np.random.default_rng(0).normal(size=(9, 8)).astype(np.float32)
    np.testing.assert_array_equal(again.act(observations), policy.act(observations))
    assert again.make_env().spec.kwargs["continuous"] is True


def test_a_model_of_keras_is_in_it() -> None:
    import keras

    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)])
    policy = policy_of("dqn", **KINDS["discrete"], model=model)
    policy.save("own.npz")
    again = xagents_ray.load("own.npz")
    assert (again.act(OBSERVATIONS) == policy.act(OBSERVATIONS)).all()


def test_the_command_line_reads_it() -> None:
    xagents_ray.load(DQN).save("a.npz")
    words = ["dqn", "--weights", "a.npz", "--episodes", "2"]
    assert shortcuts.with_run(["a.npz", "--episodes", "2"]) == words
    assert shortcuts.with_run(words[1:]) == words
    assert shortcuts.with_run(words) == words


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"env": "os:system"},
            "trained with env 'os:system', and a file may name nei",
        ),
        ({"wrappers": ["os:system"]}, "trained with wrappers .* if you trust it"),
        ({"state_to_input": "os:abort"}, "trained with state_to_input 'os:abort'"),
        ({"env_kwargs": ["size=100000"]}, "trained with env_kwargs .*size=100000"),
        ({"env_kwargs": ['file="/etc/passwd"']}, "trained with env_kwargs"),
        ({"env": {"a": 1}}, "trained with env "),
        ({"frame_stack": 10**9}, "frame_stack must be ≥ 1 and ≤ 16"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_it_can_not_name_code_or_take_memory(
    settings: dict[str, Any], message: str
) -> None:
    changed("theirs.npz", **settings)
    with pytest.raises(UserError, match=message):
        xagents_ray.load("theirs.npz")


def test_the_user_may_name_what_it_can_not() -> None:
    changed("theirs.npz", env="own:Env", model="/etc/passwd", n_envs=10**9)
    policy = xagents_ray.load("theirs.npz", env="CartPole-v1")
    expected = xagents_ray.load(DQN)
    assert (policy.act(OBSERVATIONS) == expected.act(OBSERVATIONS)).all()
    assert policy.evaluate(1, seed=1).mean > 0


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("env", "ALE/Pong-v5", True),
        ("env", "a/b/c", False),
        ("env", "module:Pong-v5", False),
        ("env_kwargs", ("mode=3", 'name="4x4"', "slow=true", "x=-0.5"), True),
        ("env_kwargs", ("mode=3", "size=1000"), False),
        ("env_kwargs", ("x=1e9",), False),
        ("env_kwargs", ('x=["a"]',), False),
        ("vectorization", "sync", True),
        ("frame_stack", 4, True),
    ],
)
def test_what_is_harmless(name: str, value: Any, expected: bool) -> None:
    option = next(each for each in options(EnvConfig) if each.name == name)
    assert is_harmless(option, value) is expected


def test_a_damaged_card_is_refused() -> None:
    xagents_ray.load(DQN).save("a.npz")
    with np.load("a.npz") as file:
        arrays = dict(file)
    for text in (b"[]", b"{", b'{"agent": 1, "settings": {}, "facts": {}}', b"[" * 999):
        np.savez("b.npz", **{**arrays, "card": np.frombuffer(text, np.uint8)})
        with pytest.raises(
            UserError, match=r"b\.npz: not a .npz weights file, or a dam"
        ):
            xagents_ray.load("b.npz")


def test_without_a_card_the_user_says_what_it_is_of() -> None:
    xagents_ray.load(DQN).save("a.npz")
    with np.load("a.npz") as file:
        arrays = {k: v for k, v in file.items() if "/" in k and k[:6] != "files/"}
    np.savez("b.npz", **arrays)
    with pytest.raises(
        UserError, match=r"b\.npz is a weights file that doesn't say what"
    ):
        xagents_ray.load("b.npz", agent="dqn")
    with pytest.raises(UserError, match="holds weights of 'dqn': name that agent"):
        xagents_ray.load("a.npz", agent="ppo")
