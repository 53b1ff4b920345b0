"""The user's callbacks during a run: events, and their view of the run."""

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from xagents_ray.core import objects
from xagents_ray.core.errors import Broken, UserError, did_you_mean, one_line
from xagents_ray.core.user_code import (
    find_named,
    place_that_raised,
    starting_at_the_user,
    traceback_of,
)
from xagents_ray.watch.progress import EndedEpisode, Progress
from xagents_ray.watch.result import Result


class RunContext:
    """A run as its callbacks see it.

    Attributes:
        directory: directory of the run, with its checkpoints and history.

    Example:
        >>> class Report(xagents_ray.Callback):
        ...     def on_end(self, ctx, result):
        ...         print(ctx.directory, ctx.env_steps >= 200)
        >>> result = xagents_ray.train(
        ...     "a2c", env="CartPole-v1", max_steps=200, run_dir="others",
        ...     name="seen", callbacks=[Report()], local=True, quiet=True)
        others/a2c/CartPole-v1/seen True
    """

    def __init__(
        self,
        progress: Progress,
        directory: Path,
        log: Callable[[int, str, float], None],
    ) -> None:
        self._progress, self._log = progress, log
        self.directory = directory

    @property
    def env_steps(self) -> int:
        """Env steps of all environments together, earlier sessions included."""
        return self._progress.env_steps

    @property
    def updates(self) -> int:
        """Number of gradient steps."""
        return self._progress.updates

    @property
    def episodes(self) -> int:
        """Number of episodes that ended."""
        return self._progress.episode_count

    @property
    def seconds(self) -> float:
        """Seconds of training, without start-up."""
        return self._progress.seconds

    @property
    def mean_reward(self) -> float | None:
        """Mean return of the newest episodes; None before the first one."""
        return self._progress.mean_reward

    @property
    def best_reward(self) -> float | None:
        """Largest mean reward of a full reward buffer; None before the first one."""
        return self._progress.best_reward

    def log(self, name: str, value: float) -> None:
        """Record a metric of your own, `ctx.log("buffer/age", 3.5)`.

        It becomes a column of the history, in the row of the newest episode, and
        reaches TensorBoard and Weights & Biases once a second.

        Args:
            name: name of the metric's column.
            value: a number; the history stores NaN as no value.
        Raises:
            UserError: the name is a built-in column of the history.
        """
        self._log(self.env_steps, name, float(value))


class Callback:
    """Base of user-defined callbacks; override the methods that you need.

    Every method gets the run's `RunContext`. It runs in the process that started the
    run, on Ray too, and the run waits for it. If it returns False, the run ends in
    order after the learning phase in progress. If it raises, the run is saved and ends
    with that error.

    Example:
        >>> import xagents_ray
        >>> class StopEarly(xagents_ray.Callback):
        ...     def on_episode(self, ctx, episode):
        ...         ctx.log("length", episode.length)
        ...         return episode.episode_return < 200
        >>> callbacks = [StopEarly()]  # of xagents_ray.train
    """

    def on_start(self, ctx: RunContext) -> bool | None:
        """Called before the first rollout."""

    def on_rollout(self, ctx: RunContext) -> bool | None:
        """Called after every environment has been stepped, before learning."""

    def on_episode(self, ctx: RunContext, episode: EndedEpisode) -> bool | None:
        """Called when an episode has ended, before `on_rollout`.

        Args:
            ctx: the state of the run.
            episode: the episode's `episode_return` (raw rewards), `length` and `step`
                (env steps), and the run's `mean_reward`, `best_reward` and
                `mean_length` after it; also `success` and the run's `success_rate`,
                None outside of goal environments.
        """

    def on_update(self, ctx: RunContext, metrics: Mapping[str, float]) -> bool | None:
        """Called after a learning phase.

        Args:
            ctx: the state of the run.
            metrics: metrics of the phase by name: losses, entropy and others.
        """

    def on_evaluation(
        self, ctx: RunContext, env_steps: int, mean_reward: float
    ) -> bool | None:
        """Called after an evaluation of `--eval-every`.

        Args:
            ctx: the state of the run.
            env_steps: env steps after which the evaluated weights were learned.
            mean_reward: mean return of the greedy episodes.
        """

    def on_checkpoint(self, ctx: RunContext, path: Path) -> bool | None:
        """Called after a checkpoint was written to the directory `path`."""

    def on_end(self, ctx: RunContext, result: Result) -> bool | None:
        """Called when the run is over and saved; its return value is ignored."""


_One: TypeAlias = Callback | Callable[..., Any]
OwnCallbacks: TypeAlias = _One | Sequence[str | _One]
"""What `callbacks=` takes besides names: instances or classes, or functions."""
EVENTS = [name for name in vars(Callback) if name.startswith("on_")]
# Names of events in Stable-Baselines3 and other libraries.
_KNOWN_AS = {"_on_step": "on_rollout", "on_step": "on_rollout"}


class _Listener(Callback):
    """An object of another class that has methods for some of the events."""

    def __init__(self, given: Any) -> None:
        self.__name__ = _name(given)
        for event in EVENTS:
            if callable(method := getattr(given, event, None)):
                setattr(self, event, method)


class _AfterRollouts(Callback):
    """A plain function, called after each round of rollouts."""

    def __init__(self, function: Callable[[RunContext], bool | None]) -> None:
        self._function = function
        self.__name__ = _name(function)

    def on_rollout(self, ctx: RunContext) -> bool | None:
        return self._function(ctx)


class Callbacks:
    """Calls the callbacks of a session of a run; after an error, none is called.

    Attributes:
        reason: why the run should end; None until a callback returns False.
    """

    def __init__(self, callbacks: Sequence[Callback], context: RunContext) -> None:
        self._callbacks, self._context = callbacks, context
        self.reason: str | None = None

    def __call__(self, event: Callable[..., bool | None], *given: Any) -> None:
        """Call a method of all callbacks.

        Raises:
            Broken: a callback raised; the cause is its error, without our own frames.
        """
        for each in self._callbacks:
            where = f"{_name(each)}.{event.__name__}"
            try:
                answer = getattr(each, event.__name__)(self._context, *given)
            except Exception as error:
                self._callbacks = ()
                broken = self._broken(where, error)
                raise broken from starting_at_the_user(error)
            if isinstance(answer, bool | np.bool_) and not answer:
                steps = self._context.env_steps
                self.reason = self.reason or f"Stopped by {where} at {steps} steps"

    def collected(self, episodes: Iterable[EndedEpisode]) -> None:
        """Report a round of rollouts, and the episodes that ended in it."""
        for episode in episodes:
            self(Callback.on_episode, episode)
        self(Callback.on_rollout)

    def _broken(self, where: str, error: Exception) -> Broken:
        remedy = "fix it there"
        if self._context.env_steps:
            directory = shlex.quote(str(self._context.directory))
            remedy += f", and continue with --resume {directory}"
        place = place_that_raised(error)
        message = f"{where}: {one_line(error)} ({place}); {remedy}."
        return Broken(message, traceback_of(error))


def load_callbacks(
    names: Sequence[str] | None, is_resumed: bool
) -> tuple[list[Callback], list[str]]:
    """Return the callbacks that a run's settings name, and notes on missing ones.

    A resumed run lacks callbacks that were passed from Python in another process.

    Raises:
        UserError: an object is not a callback, or a name can't be found.
    """
    found, lost = [], []
    for name in names or ():
        given = objects.find_kept("callbacks", name)
        if given is None and is_resumed and ":" not in name:
            lost.append(name)
            continue
        given = find_named("--callbacks", name) if given is None else given
        found.append(_as_callback(name, given))
    if not lost:
        return found, []
    note = f"This run had callbacks passed from Python ({', '.join(lost)}): "
    return found, [note + "pass them again in callbacks=[…] to keep them"]


def _as_callback(name: str, given: Any) -> Callback:
    if isinstance(given, type) and _event_methods(given):
        try:
            given = given()
        except Exception as error:
            place = place_that_raised(error)
            raise UserError(
                f"--callbacks {name}: {one_line(error)}{place and f' ({place})'}; it "
                "is made without arguments."
            ) from error
    if methods := _event_methods(given):
        _check_events(type(given).__name__, methods)
        return given if isinstance(given, Callback) else _Listener(given)
    if callable(given) and not isinstance(given, type):
        return _AfterRollouts(given)
    raise UserError(
        f"--callbacks {name} is {given!r:.80}: take an xagents_ray.Callback, another "
        "object with methods such as on_episode, or a function of the run's context."
    )


def _event_methods(given: Any) -> list[str]:
    """Return the names of methods for events, those of other libraries included.

    Attributes of an instance count only if its class has no such method.
    """
    for names in (dir(type(given)), dir(given)):
        named = [each for each in names if each.startswith("on_") or each in _KNOWN_AS]
        if found := [each for each in named if callable(getattr(given, each, None))]:
            return found
    return []


def _check_events(owner: str, methods: Iterable[str]) -> None:
    """Raise UserError if a method is for an unknown event."""
    for name in methods:
        if name not in EVENTS:
            known = _KNOWN_AS.get(name)
            hint = f"; did you mean {known}?" if known else did_you_mean(name, EVENTS)
            what = f"{owner}.{name} is called by no event"
            raise UserError(f"{what}{hint or '; there are ' + ', '.join(EVENTS)}.")


def _name(given: Any) -> str:
    """Return the name of a function or a class, or of another object's class."""
    return getattr(given, "__name__", type(given).__name__)
