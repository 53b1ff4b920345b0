"""From settings as they were given to a run that can be prepared: the only way."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xagents_ray.algorithms import presets
from xagents_ray.algorithms.row import Algorithm
from xagents_ray.algorithms.table import check_owners
from xagents_ray.core.errors import UserError
from xagents_ray.run.prepare import Resumed, find_run
from xagents_ray.settings.config import Config, train_options
from xagents_ray.settings.options import Option, plain
from xagents_ray.storage.weights import check_paths
from xagents_ray.watch.callbacks import Callback, load


@dataclass(frozen=True)
class Request:
    """A run that was asked for, checked as far as its environment is not needed.

    Attributes:
        algorithm: the algorithm that is to learn.
        given: the settings that were given, by flat name, as plain values.
        settings: those and the settings of the preset or of the resumed run.
        config: the config that all settings make.
        resumed: the run that continues; None for a new one.
        callbacks: the user's callbacks, in the order in which they are called.
        notes: what the user should know, one sentence each.
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
        """Check settings; write nothing, and make no environment.

        Args:
            algorithm: the algorithm that is to learn.
            given: settings by flat name, as they were given.
            needs_end: whether --max-steps or --target-reward must be given.
            left_out: names of settings that a preset may have without effect here.
        Raises:
            UserError: a setting is wrong; the message says what to do.
        """
        check_owners(algorithm, given)
        known = train_options(algorithm.config)
        given = plain(known, given)
        _check_shared(known, given)
        resumed: Resumed | None = None
        notes: list[str] = []
        if given.get("resume") is not None:
            resumed, settings = find_run(algorithm.name, given)
        else:
            notes = presets.hints(algorithm, given)
            settings = presets.apply(algorithm, given)
        settings = {n: value for n, value in settings.items() if n not in left_out}
        ends = settings.get("max_steps"), settings.get("target_reward")
        if not needs_end and ends == (None, None):
            settings["target_reward"] = 0.0
        config = Config.of(algorithm.config, settings)
        own, run = config.algorithm, config.run
        check_paths(algorithm, own, "--weights", run.weights)
        check_paths(algorithm, own, "--checkpoints", run.checkpoints)
        callbacks, lost = load(run.callbacks, resumed is not None)
        notes += lost
        return cls(algorithm, given, settings, config, resumed, callbacks, notes)


def _check_shared(known: Sequence[Option], given: Mapping[str, Any]) -> None:
    """Raise UserError for `seeds` beside a setting that several runs can't share."""
    if given.get("seeds") is None:
        return
    for each in known:
        if each.not_with_seeds and given.get(each.name) is not None:
            raise UserError(
                f"{each.flag} can't be given with --seeds: {each.not_with_seeds}."
            )
