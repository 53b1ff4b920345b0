"""Weights files record whether their policy's actions are scaled to the bounds."""

from typing import Any

import pytest
from acting import run_of

import xagents_ray
from xagents_ray import Policy, UserError
from xagents_ray.run.learner_access import encode_models, make_learner
from xagents_ray.storage.weights import write_file

PENDULUM: dict[str, Any] = {"agent": "ppo", "env": "Pendulum-v1"}


def write_weights(**settings: Any) -> None:
    """Write the first weights of a run as `ppo.npz`."""
    run = run_of("ppo", 1, env="Pendulum-v1", **settings)
    learner, _ = make_learner(run)
    [file] = encode_models(run, learner.state.arrays(), ["ppo.npz"])
    write_file(file)


def notes_of(policy: Policy) -> list[str]:
    return [note for note in policy.notes if "scaled" in note]


def notes_of_training(**settings: Any) -> list[str]:
    """Return the notes of a run that starts from the weights."""
    run = run_of("ppo", 1, env="Pendulum-v1", weights=("ppo.npz",), **settings)
    return make_learner(run)[1]


@pytest.mark.parametrize("settings", [{}, {"sde_frequency": 4}], ids=str)
def test_weights_of_scaled_actions(settings: dict[str, Any]) -> None:
    """The record is kept by `save`; acting otherwise is refused."""
    write_weights(**settings)
    policy = xagents_ray.load("ppo.npz", **PENDULUM, **settings)
    policy.save("again.npz")
    for path in ("ppo.npz", "again.npz"):
        policy = xagents_ray.load(path, **PENDULUM, **settings)
        assert not notes_of(policy)
        with pytest.raises(UserError, match="leave out action_scaling=False"):
            xagents_ray.load(path, **PENDULUM, **settings, action_scaling=False)
    assert not notes_of_training(**settings)


def test_weights_of_unscaled_actions() -> None:
    write_weights(action_scaling=False)
    policy = xagents_ray.load("ppo.npz", **PENDULUM, action_scaling=False)
    assert not notes_of(policy)
    [note] = notes_of(xagents_ray.load("ppo.npz", **PENDULUM))
    assert "give --no-action-scaling" in note
    assert notes_of_training() == [note]


def test_discrete_actions_have_no_record() -> None:
    learner, _ = make_learner(run_of("ppo", 1, env="CartPole-v1"))
    assert not any("action_scaling" in name for name in learner.state.variables)
