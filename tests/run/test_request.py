"""What is asked for becomes a request, or all mistakes in it are reported."""

from typing import Any

import pytest

from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.errors import UserError
from xagents_ray.run.request import Request

NO_ENV = "--env is missing: name one, as in --env CartPole-v1."
NO_END = "Training needs an end: give --target-reward, --max-steps or both"
TWO_FILES = "--weights names 2 files and ppo has 1 model (policy): give one path for"
CARTPOLE = {"env": "CartPole-v1", "max_steps": 9}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"env": "CartPole-v1"}, [f"{NO_END}, or --preset for the tuned settings of"]),
        ({"env": "CartPole-v1", "preset": "auto"}, []),
        ({"env": "Blackjack-v1"}, [f"{NO_END}."]),
        ({"env": "CartPol-v1"}, ["There is no environment 'CartPol-v1'; did", NO_END]),
        ({}, [NO_ENV, NO_END]),
        (
            {"env": "nowhere:make", "lr": -1, "gamma": "big", "n_envs": 0},
            [
                "--env nowhere:make: module nowhere can't be imported",
                "--n-envs must be ≥ 1, got 0.",
                "--gamma takes a number, got 'big'.",
                "--lr must be > 0, got -1.",
                NO_END,
            ],
        ),
        (
            {**CARTPOLE, "optimizer": "rmsprop", "beta1": 0.5, "n_actors": 2},
            ["--n-actors 2 is more than --n-envs 1", "--beta1 is Adam's and"],
        ),
        (
            {**CARTPOLE, "weights": ["a.npz", "b.npz"], "callbacks": "nosuch:fn"},
            [TWO_FILES, "--callbacks nosuch:fn: module nosuch can't be imported"],
        ),
        (
            {**CARTPOLE, "her": True, "verbose": 1, "learning_rate": 1, "foo": 1},
            [
                "ppo has no setting her, which is one of",
                "--verbose isn't a setting of this agent",
                "There is no setting 'learning_rate'; did you mean lr?",
                "There is no setting 'foo'",
            ],
        ),
        (
            {**CARTPOLE, "max_frame": True, "eval_episodes": 3, "lr": 0},
            [
                "--max-frame has no effect without --preprocess",
                "--eval-episodes has no effect without --eval-every",
                "--lr must be > 0, got 0.",
            ],
        ),
        (
            {"seeds": [1], "seed": 2, "checkpoints": "a.npz", "env": "CartPole-v1"},
            ["--seed can't be given with --seeds", "--checkpoints can't be given"],
        ),
    ],
)
def test_all_mistakes_are_reported(given: dict[str, Any], expected: list[str]) -> None:
    found: list[str] = []
    try:
        Request.of(find_algorithm("ppo"), given)
    except UserError as error:
        found = str(error).splitlines()
    assert len(found) == len(expected), found
    for part in expected:
        assert any(line.startswith(part) for line in found), (part, found)
    if "There is no environment" in "".join(expected):
        assert found[0].startswith(expected[0])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        # A wrong end is no missing one, nor is an environment that is made already.
        ({"env": "CartPole-v1", "max_steps": -1}, "--max-steps must be ≥ 1, got -1."),
        ({"env": "CartPole-v1", "preset": "gone.yaml"}, "--preset gone.yaml: No such"),
        ({"env": "CartPole-v1", "resume": "gone"}, "--resume gone: there is no such"),
        ({**CARTPOLE, "lr_decay": True, "local": True, "n_actors": 1}, "--n-actors "),
    ],
)
def test_no_mistake_follows_from_another(given: dict[str, Any], expected: str) -> None:
    with pytest.raises(UserError) as error:
        Request.of(find_algorithm("ppo"), given)
    (line,) = str(error.value).splitlines()
    assert line.startswith(expected)


def test_what_needs_no_end() -> None:
    assert Request.of(find_algorithm("ppo"), {"env": "CartPole-v1"}, needs_end=False)
    with pytest.raises(UserError, match=f"^{NO_ENV}$"):
        Request.of(find_algorithm("ppo"), {}, needs_end=False)
