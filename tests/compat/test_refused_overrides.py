"""What a subclass of an agent overrides in vain is refused."""

from typing import Any

import pytest

import xagents_ray
from xagents_ray import UserError
from xagents_ray.utils.common import create_envs


def subclass(agent: str, name: str, value: Any = lambda self: None) -> Any:
    return type("Mine", (getattr(xagents_ray, agent),), {name: value})


@pytest.mark.parametrize(
    ("agent", "name"),
    [
        ("PPO", "calculate_returns"),
        ("DQN", "get_actions"),
        ("ACER", "update_gradients"),
        ("TD3", "concat_buffer_samples"),
        ("A2C", "model"),
        ("A2C", "_train"),
    ],
)
def test_other_overrides_are_refused(agent: str, name: str) -> None:
    envs = create_envs("CartPole-v1", 2, preprocess=False)
    words = rf"Mine overrides {name}, .* use callbacks=.* an algorithm of your own"
    with pytest.raises(UserError, match=words):
        subclass(agent, name)(envs)


def test_methods_of_one_object_are_refused_too() -> None:
    agent: Any = xagents_ray.PPO(create_envs("CartPole-v1", 2, preprocess=False))
    agent.get_actions = lambda: None
    with pytest.raises(UserError, match=r"PPO overrides get_actions, .* callbacks="):
        agent.fit(max_steps=9, local=True)


def test_what_is_no_override_is_left_alone() -> None:
    envs = create_envs("CartPole-v1", 2, preprocess=False)
    kind = subclass("PPO", "my_own", lambda self: 3)
    assert kind(envs).my_own() == 3
    kind = subclass("PPO", "play", lambda self: super(kind, self).policy)
    with pytest.raises(UserError, match="learned nothing yet"):
        kind(envs).play()


def test_functions_of_tensorflow_are_refused() -> None:
    class Function:
        def get_concrete_function(self) -> None:
            """Be what a tf.function has."""

    envs = create_envs("CartPole-v1", 2, preprocess=False)
    with pytest.raises(UserError, match=r"Mine.train_step is a tf.function, .* leave"):
        subclass("PPO", "train_step", Function())(envs)


def test_unknown_settings_are_refused_by_the_constructor() -> None:
    envs = create_envs("CartPole-v1", 2, preprocess=False)
    for settings, words in (
        ({"learning_rat": 1}, "There is no setting 'learning_rat'"),
        ({"epsilon_start": 1.0}, "ppo has no setting epsilon_start, which is one of"),
        ({"verbose": 1}, "--verbose isn't a setting of this agent"),
    ):
        with pytest.raises(UserError, match=words):
            xagents_ray.PPO(envs, **settings)
    xagents_ray.PPO(envs, lr=0.1, seed=3, quiet=True, checkpoints=["a.tf"])
