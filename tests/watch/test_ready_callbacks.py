"""Callbacks that are ready to use, called as a run calls them."""

from collections import deque
from pathlib import Path

import pytest

from xagents_ray.core.errors import UserError
from xagents_ray.watch.callbacks import RunContext
from xagents_ray.watch.progress import EndedEpisode, Progress
from xagents_ray.watch.ready_callbacks import (
    EveryEnvSteps,
    StopOnNoImprovement,
    StopOnReward,
)


@pytest.fixture
def progress() -> Progress:
    return Progress(deque(maxlen=10))


@pytest.fixture
def ctx(progress: Progress) -> RunContext:
    return RunContext(progress, Path(), lambda step, name, value: None)


def test_an_evaluation_ends_the_run(ctx: RunContext) -> None:
    stop = StopOnReward(10)
    assert stop.on_evaluation(ctx, 100, 9.9)
    assert stop.on_evaluation(ctx, 200, 10.0) is False


def test_a_run_ends_that_does_not_improve(ctx: RunContext) -> None:
    stop = StopOnNoImprovement(100, least=1.0)

    def goes_on(step: int, mean: float) -> bool | None:
        return stop.on_episode(ctx, EndedEpisode(step, mean, 1, mean, None))

    assert goes_on(50, 1.0) and goes_on(100, 3.0)
    assert goes_on(199, 4.0)  # by 1.0, not more
    assert goes_on(200, 4.0) is False


def test_a_function_is_called_now_and_then(ctx: RunContext, progress: Progress) -> None:
    called: list[int] = []
    every = EveryEnvSteps(100, lambda ctx: called.append(ctx.env_steps))
    progress.env_steps = 1_000  # of a resumed run
    every.on_start(ctx)
    for step in (1_050, 1_100, 1_150, 1_390, 1_399, 1_400):
        progress.env_steps = step
        every.on_rollout(ctx)
    assert called == [1_100, 1_390, 1_400]


@pytest.mark.parametrize("number", [0, -5, float("nan")])
def test_numbers_of_steps_are_positive(number: int) -> None:
    with pytest.raises(UserError, match="env_steps must be more than 0"):
        StopOnNoImprovement(number)
    with pytest.raises(UserError, match="env_steps must be more than 0"):
        EveryEnvSteps(number, print)
