"""The training loop, one for both drivers, and the function that starts it."""

import importlib
import secrets
import signal
import time
from collections import deque
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from xagents_ray.algorithms import Algorithm, find
from xagents_ray.config import Config, OffPolicyConfig
from xagents_ray.display import Display
from xagents_ray.errors import Stopped
from xagents_ray.networks.layout import Layout
from xagents_ray.progress import Progress
from xagents_ray.replay import Fill
from xagents_ray.signals import Signals
from xagents_ray.spec import EnvSpec
from xagents_ray.trajectory import RolloutReport


class Collected(NamedTuple):
    """One round of rollouts, as the loop sees it."""

    reports: Sequence[RolloutReport]
    replay: Fill | None


class Backend(Protocol):
    """Where the parts of a run live: this process, or Ray."""

    def collect(self, env_steps: int) -> Collected:
        """Roll every environment out with the newest weights; fill the replay.

        Raises:
            Stopped: a signal asked the run to end.
        """

    def learn(self, batches: int, env_steps: int) -> dict[str, float]:
        """Run one learning phase: on the newest round, or on K batches of replay.

        Raises:
            Stopped: as in `collect`, when the phase does not end soon.
        """

    def close(self) -> None:
        """End every part."""


@dataclass(frozen=True)
class Run:
    """A run before it starts.

    Attributes:
        algorithm: its row of the table.
        config: all settings.
        spec: of the environments.
        layout: of the network.
        seed: given, or drawn.
    """

    algorithm: Algorithm
    config: Config
    spec: EnvSpec
    layout: Layout
    seed: int

    @property
    def is_seeded(self) -> bool:
        """Whether the user gave the seed, and so wants a reproducible run."""
        return self.config.training.seed is not None


@dataclass(frozen=True)
class Result:
    """How a run ended.

    Attributes:
        reason: in one sentence.
        env_steps: of all environments together.
        games: that ended.
        updates: gradient steps.
        seconds: of training, without start-up.
        steps_per_second: env steps a second, learning phases included, from the
            first one's end to the last one's.
        mean_reward: of the newest games; None when none ended.
        best_reward: largest mean reward so far.
        episodes: (env step, return) of every game, in order.
        signal: that ended it; None when it ended by itself.
    """

    reason: str
    env_steps: int
    games: int
    updates: int
    seconds: float
    steps_per_second: float
    mean_reward: float | None
    best_reward: float | None
    episodes: tuple[tuple[int, float], ...]
    signal: int | None = None


def train(agent: str, **settings: Any) -> Result:
    """Train an agent; the same as `xagents-ray train AGENT`.

    Args:
        agent: `ppo` or `dqn`.
        settings: the command's flags with `_` for `-`: `env`, `n_envs`, `lr`, ….
    Returns:
        How it ended.
    Raises:
        UserError: a setting is wrong; the message says what to do.
    """
    algorithm = find(agent)
    return train_config(algorithm, Config.of(algorithm.config, settings))


def train_config(algorithm: Algorithm, config: Config) -> Result:
    """Train with a whole config; see `train`."""
    progress = Progress(deque(maxlen=config.training.reward_buffer_size))
    with Signals() as signals, Display(config) as display:
        run = prepare(algorithm, config)
        local = config.placement.local
        name = "xagents_ray.local" if local else "xagents_ray.cluster.driver"
        try:
            with closing(importlib.import_module(name).start(run, signals)) as backend:
                reason = _loop(run, backend, progress, display)
        except Stopped:
            number = signals.received
            assert number is not None
            reason = f"Stopped by {signal.Signals(number).name}"
        display.end(progress, reason)
    return Result(
        reason=reason,
        env_steps=progress.env_steps,
        games=progress.games,
        updates=progress.updates,
        seconds=progress.seconds,
        steps_per_second=progress.steps_per_second,
        mean_reward=progress.mean_reward,
        best_reward=progress.best_reward,
        episodes=tuple(progress.episodes),
        signal=signals.received,
    )


def prepare(algorithm: Algorithm, config: Config) -> Run:
    """Look at the environment and lay the network out; refuse what can't work."""
    environments = importlib.import_module("xagents_ray.actors.environments")
    spec: EnvSpec = environments.probe(config.env)
    algorithm.check_actions(spec)
    layout = algorithm.layout(config.algorithm.model, spec)
    seed = config.training.seed
    seed = secrets.randbits(31) if seed is None else seed
    return Run(algorithm, config, spec, layout, seed)


def _loop(run: Run, backend: Backend, progress: Progress, display: Display) -> str:
    """Collect and learn in turn until the run ends; return why it did."""
    owed = _Owed(run.config)
    progress.began = time.perf_counter()
    display.show(progress)
    while True:
        round_ = backend.collect(progress.env_steps)
        before = progress.env_steps
        reason = progress.collected(round_.reports, run.config.training)
        progress.replay_size = round_.replay.size if round_.replay else None
        if reason is not None:
            return reason
        batches = owed.batches(progress.env_steps - before, round_.replay)
        if batches:
            metrics = backend.learn(batches, progress.env_steps)
            progress.learnt(int(metrics["updates"]))
        display.show(progress)


class _Owed:
    """How many batches the next learning phase takes."""

    def __init__(self, config: Config) -> None:
        self._algorithm = config.algorithm
        self._steps = 0

    def batches(self, steps: int, replay: Fill | None) -> int:
        """Return what is owed after this many more env steps; 1 without a replay."""
        c = self._algorithm
        if not isinstance(c, OffPolicyConfig) or replay is None:
            return 1
        if replay.size == 0 or not (replay.is_full or replay.size >= c.initial_size):
            return 0
        self._steps += steps
        periods, self._steps = divmod(self._steps, c.train_frequency)
        return periods * c.gradient_steps
