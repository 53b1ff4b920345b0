"""Callbacks that take part in the loop of a run in this process."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from xagents_ray.core.trajectory import Array, Observations, Trajectory
from xagents_ray.watch.callbacks import Callback


class Hooks(Callback):
    """Base of a callback that changes parts of the training loop of a local run.

    A run has at most one. It is called in the process that steps the environments and
    learns.
    """

    def check(self, settings: Mapping[str, Any]) -> Sequence[str]:
        """Return notes for the user on a run that has not started.

        Args:
            settings: settings of the run by flat name, with those of its preset or of
                the resumed run.
        Raises:
            UserError: a setting doesn't work with these hooks.
        """
        return ()

    def name_of(self, method: str) -> str:
        """Return what an error in a method of these hooks calls it."""
        return f"{type(self).__name__}.{method}"

    def attach(
        self,
        read: Callable[[Sequence[str]], Mapping[str, Array]],
        load: Callable[[Mapping[str, Array]], None],
        named: Callable[[str], AbstractContextManager[None]],
    ) -> None:
        """Called before the run with functions for use in it.

        Args:
            read: function of the names of models that returns a copy of their arrays in
                the learner, `policy/dense-0/kernel`.
            load: function that replaces arrays of the learner; the run acts with them
                then. Target networks stay as they are.
            named: function of the name of a user's function that returns a context in
                which an error in it becomes one sentence.
        """

    def step(self, update: Callable[[], str | None]) -> str | None:
        """Run one step of the loop.

        Args:
            update: function that collects rollouts and learns, as a step usually does;
                it returns why the run ends, or None.
        Returns:
            Why the run ends; None to continue.
        """
        return update()

    def observations(self, observations: Observations) -> Observations:
        """Return what the policy and the learner see of [B, *observation_shape].

        Several arrays are a dict of them, `EnvSpec.arrays`.
        """
        return observations

    def batch(self, collect: Callable[[], Trajectory]) -> Trajectory:
        """Return a rollout to learn from or to store; `collect` steps for one."""
        return collect()


def hooks_among(callbacks: Sequence[Callback]) -> Hooks | None:
    """Return the callback that is a `Hooks`, if there is one."""
    return next((each for each in callbacks if isinstance(each, Hooks)), None)


def loop_step(
    callbacks: Sequence[Callback],
) -> Callable[[Callable[[], str | None]], str | None]:
    """Return the function that runs one step of a run's loop; see `Hooks.step`."""
    return (hooks_among(callbacks) or Hooks()).step
