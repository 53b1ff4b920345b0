"""Callbacks that take part in the loop of a run in this process."""

from collections.abc import Callable, Mapping, Sequence

from xagents_ray.core.trajectory import Array, Trajectory
from xagents_ray.watch.callbacks import Callback


class Hooks(Callback):
    """Base of a callback that changes parts of the training loop of a local run.

    A run has at most one. It is called in the process that steps the environments and
    learns.
    """

    def attach(
        self,
        read: Callable[[], Mapping[str, Array]],
        load: Callable[[Mapping[str, Array]], None],
    ) -> None:
        """Called before the run with functions that access the learner.

        Args:
            read: function that returns the learner's arrays, `policy/dense-0/kernel`.
            load: function that replaces some of them; the run acts with them then.
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

    def observations(self, observations: Array) -> Array:
        """Return what the policy and the learner see of [B, *observation_shape]."""
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
