"""Turns the user's settings into a validated request for a run."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from xagents_ray.algorithms import presets
from xagents_ray.algorithms.definition import Algorithm
from xagents_ray.algorithms.table import plain_settings
from xagents_ray.core.errors import Mistakes, UserError, pluralize
from xagents_ray.run.prepare import Resumed, find_run
from xagents_ray.settings.algorithm import AlgorithmConfig
from xagents_ray.settings.config import Config, train_options
from xagents_ray.settings.options import Option, check_values
from xagents_ray.settings.run import RunConfig
from xagents_ray.storage import weights
from xagents_ray.watch.callbacks import Callback, load_callbacks


@dataclass(frozen=True)
class Request:
    """A requested run, validated except for what requires its environment.

    Attributes:
        algorithm: the algorithm that learns.
        given: the user's settings by flat name, as plain values.
        settings: the user's settings, and those of the preset or the resumed run.
        config: the config built from `settings`.
        resumed: the run to resume; None for a new one.
        callbacks: the user's callbacks, in the order in which they are called.
        notes: notes for the user, one sentence each.
    """

    algorithm: Algorithm
    given: Mapping[str, Any]
    settings: Mapping[str, Any]
    config: Config
    resumed: Resumed | None
    callbacks: Sequence[Callback]
    notes: Sequence[str]

    @classmethod
    def of(
        cls,
        algorithm: Algorithm,
        given: Mapping[str, Any],
        needs_end: bool = True,
        left_out: Collection[str] = (),
    ) -> "Request":
        """Validate settings without writing files or creating an environment.

        Args:
            algorithm: the algorithm that learns.
            given: the user's settings by flat name.
            needs_end: whether --max-steps or --target-reward is required.
            left_out: names of settings to ignore, which a preset may contain.
        Raises:
            UserError: settings are invalid; the message has a line for each mistake.
        """
        known, mistakes = train_options(algorithm.config), Mistakes()
        values = plain_settings(algorithm, given, mistakes)
        resumed: Resumed | None = None
        settings: dict[str, Any] | None = None
        notes: list[str] = []
        with mistakes:
            _check_shared(known, values)
            if values.get("resume") is not None:
                resumed, settings = find_run(algorithm.name, values)
                notes = [*resumed.notes]
            else:
                notes = presets.preset_hints(algorithm, values)
                settings = presets.apply(algorithm, values)
        if settings is None:  # can't check for missing or conflicting ones
            others = [o for o in known if o.name not in ("preset", "resume")]
            with mistakes:
                check_values(others, values)
            raise _all_of(mistakes, values)
        settings = {n: value for n, value in settings.items() if n not in left_out}
        config: Config | None = None
        with mistakes:
            config = Config.of(algorithm.config, settings)
        mistakes.found += _missing(algorithm, {**given, **settings}, needs_end)
        callbacks, lost = _files(algorithm, settings, mistakes)
        if config is None or mistakes.found:
            raise _all_of(mistakes, settings)
        notes += lost
        return cls(algorithm, values, settings, config, resumed, callbacks, notes)


def _check_shared(known: Sequence[Option], given: Mapping[str, Any]) -> None:
    """Raise UserError if `seeds` is combined with settings that runs can't share."""
    if given.get("seeds") is None:
        return
    mistakes = Mistakes()
    for each in known:
        if each.not_with_seeds and given.get(each.name) is not None:
            why = f"can't be given with --seeds: {each.not_with_seeds}."
            mistakes.found.append(UserError(f"{each.flag} {why}"))
    mistakes.report()


def _missing(
    algorithm: Algorithm, settings: Mapping[str, Any], needs_end: bool
) -> Iterator[UserError]:
    """Yield an error for each setting that is required and missing."""
    env = settings.get("env")
    if env is None:
        yield UserError("--env is missing: name one, as in --env CartPole-v1.")
    ends = settings.get("target_reward"), settings.get("max_steps")
    if needs_end and ends == (None, None):
        is_tuned = settings.get("preset") is None and settings.get("resume") is None
        known = presets.find_preset(algorithm.name, str(env)) if is_tuned else None
        hint = f", or --preset for the tuned settings of {env}" if known else ""
        yield UserError(
            f"Training needs an end: give --target-reward, --max-steps or both{hint}."
        )


def _files(
    algorithm: Algorithm, settings: Mapping[str, Any], mistakes: Mistakes
) -> tuple[list[Callback], list[str]]:
    """Check the paths of weights files; return the callbacks and notes on them."""
    run = own = None
    with suppress(UserError):  # already among the mistakes
        run = RunConfig.of(settings)
        own = algorithm.config.of(settings)
    if run is not None and own is not None:
        for flag in ("--weights", "--checkpoints"):
            with mistakes:
                check_paths(algorithm, own, flag, getattr(run, flag[2:]))
    if run is not None:
        with mistakes:
            return load_callbacks(run.callbacks, run.resume is not None)
    return [], []


def check_paths(
    algorithm: Algorithm,
    config: AlgorithmConfig,
    flag: str,
    paths: Sequence[str] | None,
) -> None:
    """Raise UserError unless there is one path of a known format per model."""
    check = weights.readable_kind if flag == "--weights" else weights.file_kind
    for path in paths or ():
        check(path)
    models = algorithm.adapted(config).models
    if paths is not None and len(paths) != len(models):
        raise UserError(
            f"{flag} names {pluralize(len(paths), 'file')} and {algorithm.name} has "
            f"{pluralize(len(models), 'model')} "
            f"({', '.join(m.name for m in models)}): give one path for each."
        )


def _all_of(mistakes: Mistakes, settings: Mapping[str, Any]) -> UserError:
    """Return one error for all mistakes, with an unknown environment first."""
    from xagents_ray.actors.envs import registry

    first = Mistakes()
    if isinstance(env := settings.get("env"), str):
        with first:
            registry.check_env_id(env)
    return Mistakes([*first.found, *mistakes.found]).error()
