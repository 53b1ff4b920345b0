"""Running statistics of Gymnasium's normalizing wrappers, shared by a run.

`NormalizeObservation` and `NormalizeReward` measure what is new in each environment;
the learner merges the moments and sends them back with the weights. So all env actors
normalize alike, and evaluations and loaded policies normalize as training did.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import vector
from gymnasium.wrappers.utils import RunningMeanStd

from xagents_ray.actors.envs import interface
from xagents_ray.core.moments import Moments, Statistics, merge_all, wrapper_name
from xagents_ray.core.trajectory import Array

_KINDS: dict[type, str] = {
    gym.wrappers.NormalizeObservation: "obs_rms",
    gym.wrappers.NormalizeReward: "return_rms",
    vector.NormalizeObservation: "obs_rms",
    vector.NormalizeReward: "return_rms",
}
"""Wrappers, and the attributes that hold their statistics."""


def is_normalizing(layer: Any) -> bool:
    """Return whether a layer is a wrapper whose statistics a run shares."""
    return isinstance(layer, tuple(_KINDS))


class MeasuringMoments(RunningMeanStd):
    """Running statistics in float64 that also collect the moments of new samples."""

    def __init__(self, before: RunningMeanStd) -> None:
        self.mean, self.var = np.float64(before.mean), np.float64(before.var)
        self.count = before.count
        self._new: Statistics = {}

    def update_from_moments(self, mean: Any, var: Any, count: int) -> None:
        """Merge the moments of further samples."""
        parent: Any = super()
        parent.update_from_moments(mean, var, count)
        new_mean, new_variance = (np.asarray(x, np.float64) for x in (mean, var))
        new = Moments(float(count), new_mean, new_variance)
        self._new = merge_all(self._new, {"": new})

    def take(self) -> Moments | None:
        """Return the moments of the samples since the last call; None without any."""
        new, self._new = self._new, {}
        return new.get("")

    def load(self, moments: Moments) -> None:
        """Continue from these moments."""
        self.mean, self.var, self.count = moments.mean, moments.variance, moments.size


class NormalizingWrappers:
    """The normalizing wrappers of an environment or vector environment.

    Args:
        layers: layers of the environment, outermost first.
    Attributes:
        shapes: shapes of the wrappers' statistics.
    """

    def __init__(self, layers: Sequence[Any]) -> None:
        self._layers: list[Any] = []
        self._moments: list[MeasuringMoments] = []
        for layer in layers:
            names = [name for kind, name in _KINDS.items() if isinstance(layer, kind)]
            for name in names:
                moments = MeasuringMoments(getattr(layer, name))
                setattr(layer, name, moments)
                self._layers.append(layer)
                self._moments.append(moments)
        self.shapes = [np.shape(each.mean) for each in self._moments]

    def take(self) -> list[Moments | None]:
        """Return the moments of each wrapper's samples since the last call."""
        return [each.take() for each in self._moments]

    def load(self, given: Sequence[Moments | None], frozen: bool) -> None:
        """Continue from moments of each wrapper; frozen ones don't change from then on.

        A wrapper without moments is left unchanged.
        """
        parts = zip(self._layers, self._moments, given, strict=True)
        for layer, own, moments in parts:
            if moments is not None:
                own.load(moments)
                layer.update_running_mean = not frozen


class SharingEnv(gym.Wrapper[Any, Any, Any, Any]):
    """An environment in a child process, with methods for its statistics."""

    def __init__(self, make: Callable[[], Any]) -> None:
        super().__init__(make())
        self._wrappers = NormalizingWrappers([*interface.wrapper_layers(self.env)])

    def take_statistics(self) -> list[Moments | None]:
        """Return new moments; see `NormalizingWrappers.take`."""
        return self._wrappers.take()

    def load_statistics(
        self, given: Sequence[Moments | None], frozen: bool = False
    ) -> None:
        """Continue from moments; see `NormalizingWrappers.load`."""
        self._wrappers.load(given, frozen)


class WrapperStatistics:
    """Statistics of all normalizing wrappers around and in a vector environment.

    Args:
        envs: the vector environment.
        one: an environment like those in it, or the vector environment itself.
    Attributes:
        shapes: shapes of the wrappers' statistics, outermost first: those around the
            vector environment, then those of each environment.
    """

    def __init__(self, envs: Any, one: Any) -> None:
        *around, base = interface.wrapper_layers(envs)
        self._around, self._remote = NormalizingWrappers(around), None
        envs = base.envs if isinstance(base, gym.vector.SyncVectorEnv) else []
        self._within = [
            NormalizingWrappers([*interface.wrapper_layers(x)]) for x in envs
        ]
        inner = self._within[0].shapes if self._within else []
        if isinstance(one, gym.Env) and not self._within:  # of AsyncEnvs
            inner = NormalizingWrappers([*interface.wrapper_layers(one)]).shapes
            self._remote = base if inner else None
        self.shapes = (*self._around.shapes, *inner)

    def take(self) -> Statistics:
        """Return the moments of all samples since the last call, by name."""
        if not self.shapes:
            return {}
        around = self._around.take()
        taken = [each.take() for each in self._within]
        if self._remote is not None:
            taken = self._remote.call("take_statistics")
        within = [_named(each, len(around)) for each in taken]
        return merge_all(_named(around, 0), *within)

    def load(self, arrays: Mapping[str, Array], frozen: bool = False) -> None:
        """Continue from the statistics among a policy's arrays.

        Args:
            arrays: arrays by name, among them those of `moments.moments_shapes`.
            frozen: whether loaded statistics don't change from then on, as in
                evaluations.
        """
        if not self.shapes:
            return
        found = moments_among(arrays, len(self.shapes))
        count = len(self._around.shapes)
        self._around.load(found[:count], frozen)
        for each in self._within:
            each.load(found[count:], frozen)
        if self._remote is not None:
            self._remote.call("load_statistics", found[count:], frozen)


def load_into(env: gym.Env[Any, Any], arrays: Mapping[str, Array]) -> None:
    """Load and freeze the statistics of an environment's wrappers."""
    wrappers = NormalizingWrappers([*interface.wrapper_layers(env)])
    wrappers.load(moments_among(arrays, len(wrappers.shapes)), frozen=True)


def moments_among(arrays: Mapping[str, Array], count: int) -> list[Moments | None]:
    """Return the moments of each wrapper; None for one without samples."""
    found: list[Moments | None] = []
    for name in map(wrapper_name, range(count)):
        size = float(arrays.get(f"{name}/size", 0))
        parts = (arrays[f"{name}/{part}"] for part in Moments._fields[1:] if size)
        found.append(Moments(size, *parts) if size else None)
    return found


def _named(taken: Sequence[Moments | None], first: int) -> Statistics:
    names = map(wrapper_name, itertools.count(first))
    pairs = zip(names, taken, strict=False)
    return {name: moments for name, moments in pairs if moments is not None}
