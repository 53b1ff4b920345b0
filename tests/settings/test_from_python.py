"""What may be given from Python for an option, and what its config holds."""

import copy
import functools
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from xagents_ray.algorithms.ddpg import DDPGConfig
from xagents_ray.algorithms.ppo import PPOConfig
from xagents_ray.core.errors import UserError
from xagents_ray.settings.algorithm import AlgorithmConfig
from xagents_ray.settings.training import EnvConfig


class Own:
    pass


SHORTER = copy.deepcopy(gym.spec("CartPole-v1"))
SHORTER.max_episode_steps = 9


@pytest.mark.parametrize(
    ("given", "name"),
    [
        (None, None),
        ("CartPole-v1", "CartPole-v1"),
        (Own, f"{__name__}:Own"),
        (lambda: Own(), "lambda-Own"),
        (lambda: gym.make("ALE/Pong-v5", frameskip=1), "lambda-ALE-Pong-v5"),
        (lambda: None, "lambda"),
        (functools.partial(Own), "Own"),
        (gym.spec("CartPole-v1"), "CartPole-v1"),
        (SHORTER, "spec:CartPole-v1"),
    ],
)
def test_environments(given: Any, name: str) -> None:
    config = EnvConfig(env=given)
    assert config.env == name
    assert EnvConfig(env=config.env) == config


@pytest.mark.parametrize(
    ("given", "arguments"),
    [
        (None, {}),
        ({}, {}),
        ({"g": 9.81, "mode": "fast"}, {"g": 9.81, "mode": "fast"}),
        ({"g": np.float32(0.5), "sizes": (3, 4)}, {"g": 0.5, "sizes": [3, 4]}),
        ({"on": True, "map": {"a": None}}, {"on": True, "map": {"a": None}}),
        ('{"g": -5, "mode": "a=b"}', {"g": -5, "mode": "a=b"}),
        (("g=-5", "mode=a=b"), {"g": -5, "mode": "a=b"}),
        (["on=True", "off=false", "no=None"], {"on": True, "off": False, "no": None}),
        (["sizes=(3, 4)", "g=1", '{"g": 2}'], {"sizes": [3, 4], "g": 2}),
        ("text=", {"text": ""}),
        ("no=literal{[]: 1}", {"no": "literal{[]: 1}"}),
        ("no={[]: 1}", {"no": "{[]: 1}"}),
    ],
)
def test_arguments(given: Any, arguments: dict[str, Any]) -> None:
    given = tuple(given) if isinstance(given, list) else given
    config = EnvConfig(env_kwargs=given)
    assert config.arguments == arguments
    assert EnvConfig(env_kwargs=config.env_kwargs) == config


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("{gravity: 5}", "key=value, or a JSON object"),
        ("3=4", "got '3'"),
        ((("gravity", 5),), r"got \('gravity', 5\)"),
        ((5,), "got 5"),
        ({"a b": 1}, "got 'a b'"),
        ({"map": np.zeros(2)}, r"map is array.*env=functools\.partial\(…, map=…\)"),
    ],
)
def test_what_is_no_argument(given: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        EnvConfig(env_kwargs=given)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("linear:1e-3:0.0", "linear:0.001:0"),
        (((0, 1e-3), [0.5, 1e-4], (1, 0)), "0:0.001,0.5:0.0001,1:0"),
        (lambda remaining: remaining / 100, "linear:0.01:0"),
    ],
    ids=["text", "points", "function"],
)
def test_schedules(given: Any, text: str) -> None:
    assert PPOConfig(lr=given).lr == PPOConfig(lr=text).lr == text


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (lambda: 1, "the fraction of the run that remains.*takes 0 positional"),
        (lambda _: "fast", "returns a finite number.*could not convert"),
        (lambda _: np.nan, "returns a finite number.*values are finite"),
        (((0, 1), (0, 2)), r"or a schedule such as.*got \(\(0, 1\), \(0, 2\)\)"),
    ],
    ids=["no argument", "text", "nan", "points"],
)
def test_what_is_no_schedule(given: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        PPOConfig(lr=given)


def test_what_is_no_network_is_answered_with_what_is() -> None:
    files = "path of a .cfg or .keras file that has the layers, or from Python a Keras"
    for config, name in ((PPOConfig, "model"), (DDPGConfig, "critic_model")):
        with pytest.raises(UserError, match=rf"takes the {files}.*got \(64, 64\)"):
            config(**{name: (64, 64)})
    with pytest.raises(
        UserError, match=r"--feature-maker takes module:function.*got 64"
    ):
        AlgorithmConfig(feature_maker=64)  # type: ignore[arg-type]
