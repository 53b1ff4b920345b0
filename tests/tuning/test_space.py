"""What a sweep varies: several values of a flag, or Python's helpers."""

from typing import Any

import pytest

from xagents_ray import categorical, integer, log_uniform
from xagents_ray.algorithms.table import ALGORITHMS
from xagents_ray.core.errors import UserError
from xagents_ray.tuning.plan import UNSUPPORTED_OPTIONS, tune_options
from xagents_ray.tuning.space import Space, split_varied

DQN = tune_options(ALGORITHMS["dqn"].config)


@pytest.mark.parametrize(
    ("given", "space"),
    [
        ({"n_envs": (16, 32)}, categorical(16, 32)),
        ({"n_envs": [1, 2, 3, 4]}, categorical(1, 2, 3, 4)),
        ({"lr": (1e-5, 1e-2)}, log_uniform(1e-5, 1e-2)),
        ({"target_sync_steps": (10, 1000)}, integer(10, 1000)),
        ({"optimizer": ("adam", "rmsprop")}, categorical("adam", "rmsprop")),
        ({"max_frame": (True, False)}, categorical(True, False)),
        ({"lr": categorical(1e-3, 1e-4)}, categorical(1e-3, 1e-4)),
        ({"n_envs": integer(1, 8)}, integer(1, 8)),
        ({"lr": (1, 2)}, log_uniform(1, 2)),
    ],
)
def test_several_values_vary(given: dict[str, Any], space: Space) -> None:
    fixed, spaces = split_varied(DQN, given)
    assert fixed == {}
    assert spaces == {next(iter(given)): space}


@pytest.mark.parametrize(
    ("given", "fixed"),
    [
        ({"lr": (1e-3,)}, {"lr": 1e-3}),
        ({"n_envs": [4]}, {"n_envs": 4}),
        ({"gamma": 0.9}, {"gamma": 0.9}),
        ({"weights": ("a.tf", "b.tf")}, {"weights": ("a.tf", "b.tf")}),
        ({"weights": ["a.tf"]}, {"weights": ("a.tf",)}),
        ({"env": "CartPole-v1", "seed": 3}, {"env": "CartPole-v1", "seed": 3}),
        ({}, {}),
    ],
)
def test_one_value_is_fixed(given: dict[str, Any], fixed: dict[str, Any]) -> None:
    assert split_varied(DQN, given) == (fixed, {})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"lr": (1e-2, 1e-3)}, "--lr 0.01 0.001: the minimum must be below"),
        ({"lr": ("linear:1e-3:0", 1e-4)}, "a schedule is no end of a range: give two"),
        ({"lr": (1e-3, 1e-3)}, "the minimum must be below"),
        ({"lr": (1e-4, 1e-3, 1e-2)}, "a minimum and a maximum, or one value"),
        ({"lr": log_uniform(0.0, 1e-3)}, "--lr must be > 0, got 0"),
        ({"gamma": (0.0, 0.9)}, "give a minimum above 0"),
        ({"gamma": (0.9, 1.5)}, "--gamma must be ≥ 0 and ≤ 1, got 1.5"),
        ({"target_sync_steps": (1, 2, 3)}, "a minimum and a maximum, or one value"),
        ({"target_sync_steps": (9, 3)}, "the minimum must be below the maximum"),
        ({"target_sync_steps": (0, 3)}, "--target-sync-steps must be ≥ 1"),
        ({"n_envs": (4, 4)}, "--n-envs 4 4 names a value twice"),
        ({"n_envs": (4, 0)}, "--n-envs must be ≥ 1, got 0"),
        ({"n_envs": (4, 1.5)}, "--n-envs takes a whole number, got 1.5"),
        ({"n_envs": categorical(4)}, "needs two values or more"),
        ({"n_envs": log_uniform(1, 8)}, "varies with integer or categorical"),
        ({"lr": integer(1, 2)}, "varies with log_uniform or categorical"),
        ({"seed": (1, 2)}, "--seed does not vary: give it one value"),
        ({"seed": integer(1, 2)}, "--seed does not vary: give it one value"),
        ({"double": categorical(True, False)}, "--double does not vary"),
        ({"lrr": 1e-3}, "There is no setting 'lrr' of tune; did you mean lr"),
    ],
)
def test_what_makes_no_sense_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as error:
        split_varied(DQN, given)
    assert said in str(error.value)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_flag_with_an_hp_type_varies(name: str) -> None:
    """As the reference's tables say; the rest takes one value."""
    known = tune_options(ALGORITHMS[name].config)
    assert not {o.name for o in known} & set(UNSUPPORTED_OPTIONS)
    varying = [o for o in known if o.hp_type is not None]
    assert {"lr", "gamma", "n_envs", "opt_epsilon"} <= {o.name for o in varying}
    for option in varying:
        low = option.low or 0
        ends = (option.type(low + 0.25), option.type(low + 0.5))
        values: tuple[Any, ...] = option.choices or ends
        if option.type is int:
            values = (int(low) + 1, int(low) + 2)
        if option.type is bool:
            values = (True, False)
        _, spaces = split_varied(known, {option.name: values})
        assert spaces == {option.name: Space(option.hp_type or "int", values)}
