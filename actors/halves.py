"""An env actor whose halves take turns while the learner's process acts for them."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from threading import Semaphore
from typing import Any

import numpy as np

from xagents_ray.actors.actor_setup import ActorSetup
from xagents_ray.actors.env_actor import EnvActor
from xagents_ray.actors.envs.env_state import decode_array, encode_array
from xagents_ray.actors.envs.vector import Change
from xagents_ray.core.errors import UserError, one_line
from xagents_ray.core.inference import slots_of
from xagents_ray.core.moments import merge_all
from xagents_ray.core.trajectory import (
    RolloutReport,
    Trajectory,
    Weights,
    merge_trajectories,
)

_HALVES = "halves"


class Turns:
    """Lets two threads run one at a time, in a rollout.

    One at a time, they don't compete for Python's lock, and the order is the same in
    each run.
    """

    def __init__(self) -> None:
        self._may_run = Semaphore(1), Semaphore(0)
        self._has_ended = [False, False]

    @contextmanager
    def part(self, own: int) -> Iterator[None]:
        """Wait for the first turn of a thread, 0 or 1; end its part with the block."""
        self._may_run[own].acquire()
        try:
            yield
        finally:
            self._has_ended[own] = True
            self._may_run[1 - own].release()

    def pass_on(self, own: int) -> None:
        """Let the other thread run until it passes on its turn, too, or ends."""
        if not self._has_ended[1 - own]:
            self._may_run[1 - own].release()
            self._may_run[own].acquire()


class HalvedEnvActor:
    """An env actor with two halves of its environments; see `EnvActor`.

    While the inference server computes the actions of one half, the other one steps.
    A single environment has no second half.

    Attributes:
        spec: spec of the environments.
    """

    def __init__(self, setup: ActorSetup) -> None:
        self._setup = setup
        self._slots = slots_of(setup.first_env, setup.n_envs)
        self._halves = [
            EnvActor(replace(setup, first_env=first, n_envs=count))
            for first, count in self._slots
        ]
        self.spec = self._halves[0].spec
        self._thread = ThreadPoolExecutor(1, "second half")

    def ready(self) -> None:
        """Do nothing; a call that returns shows that the environments exist."""

    def change_observations(self, change: Change) -> None:
        """Pass observations through a function from now on; see `Envs.change`."""
        for half in self._halves:
            half.change_observations(change)

    def stop(self) -> None:
        """Make a rollout in progress raise Stopped; callable from a signal handler."""
        for half in self._halves:
            half.stop()

    def close(self) -> None:
        self._thread.shutdown()
        for half in self._halves:
            half.close()

    def rollout(
        self, weights: Weights, length: int, env_steps: int
    ) -> tuple[Trajectory, RolloutReport]:
        """Step every environment `length` times; see `EnvActor.rollout`."""
        if len(self._halves) == 1:
            return self._halves[0].rollout(weights, length, env_steps)
        began, computed = time.perf_counter(), time.process_time()
        turns = Turns()

        def half(own: int) -> tuple[Trajectory, RolloutReport]:
            self._halves[own].while_acting(partial(turns.pass_on, own))
            with turns.part(own):
                return self._halves[own].rollout(weights, length, env_steps)

        later = self._thread.submit(half, 1)
        try:
            first = half(0)
        finally:
            wait([later])
        second = later.result()
        reports = first[1], second[1]
        seconds = time.perf_counter() - began
        stepping = sum(each.stepping for each in reports)
        episodes = [episode for each in reports for episode in each.episodes]
        report = RolloutReport(
            first[1].steps + second[1].steps,
            tuple(sorted(episodes, key=lambda episode: (episode.row, episode.env))),
            statistics=merge_all(*(each.statistics for each in reports)),
            weights_version=weights.version,
            stepping=stepping,
            acting=max(0.0, seconds - stepping),
            resets=sum(each.resets for each in reports),
            computing=time.process_time() - computed,
            seconds=seconds,
        )
        return merge_trajectories([first[0], second[0]]), report

    def state(self) -> dict[str, Any]:
        """Return the state as `EnvActor.state` does, which can resume from it too.

        That one begins new episodes, as the state of the halves' environments can't be
        joined.
        """
        states = [half.state() for half in self._halves]
        if len(states) == 1:
            return states[0]
        zeros = [np.zeros(count, np.int64) for _, count in self._slots]
        pairs = zip(states, zeros, strict=True)
        lengths = [decode_array(state["lengths"], like) for state, like in pairs]
        return {
            **states[0],
            "unfinished": sum(state["unfinished"] for state in states),
            "noise": [each for state in states for each in state["noise"]],
            "lengths": encode_array(np.concatenate(lengths)),
            "envs": None,
            "history": None,
            _HALVES: states,
        }

    def restore(self, state: dict[str, Any]) -> int:
        """Resume from the state of another actor; see `EnvActor.restore`."""
        try:
            parts = state[_HALVES] if _HALVES in state else self._parts_of(state)
            pairs = [*zip(self._halves, parts, strict=True)]
        except Exception as error:
            raise UserError(
                f"The state of {self._setup.config.env.env} can't be restored "
                f"({one_line(error)}); resume from another checkpoint."
            ) from None
        return sum(half.restore(part) for half, part in pairs)

    def restart(self, times: int) -> None:
        """Derive the first episodes and the noise from the restart count, 1 or more."""
        for half in self._halves:
            half.restart(times)

    def _parts_of(self, state: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the halves' parts of an env actor's state, without environments."""
        if len(self._slots) == 1:
            return [state]
        lengths = decode_array(state["lengths"], np.zeros(self._setup.n_envs, np.int64))
        parts = list[dict[str, Any]]()
        for first, count in self._slots:
            begin = first - self._setup.first_env
            own = slice(begin, begin + count)
            part = {
                "first_env": state["first_env"] + begin,
                "noise": state["noise"][own],
                "lengths": encode_array(lengths[own]),
                "envs": None,
            }
            parts.append({**state, **part})
        return parts
