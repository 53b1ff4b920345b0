"""`play` and `evaluate`, as commands and as Python functions."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from xagents_ray.algorithms.definition import Algorithm
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.commands.settings import check_settings
from xagents_ray.core.errors import UserError, printable
from xagents_ray.core.process import one_blas_thread
from xagents_ray.core.python_calls import python_call
from xagents_ray.policy import episodes
from xagents_ray.policy.episodes import Evaluation
from xagents_ray.policy.loading import SourceConfig, load_policy
from xagents_ray.settings.episodes import EpisodesConfig, EvaluateConfig, PlayConfig
from xagents_ray.settings.options import options
from xagents_ray.settings.training import EnvConfig

Say = Callable[[str], object]


def evaluate(agent: str, **settings: Any) -> Evaluation:
    """Measure returns of whole episodes; the same as `xagents-ray evaluate AGENT`.

    Args:
        agent: name of the algorithm, such as `ppo`.
        settings: the command's flags with `_` for `-`: `run` with the directory of a
            run or `last`, or `weights` and `env`; `episodes`, `n_envs`, `seed`, ….
    Returns:
        The returns, with `mean` and `std`.
    Raises:
        UserError: a setting is invalid; the message says what to do.
        KeyboardInterrupt: the user pressed Ctrl-C.

    >>> xagents_ray.evaluate("ppo", run="last", episodes=2, seed=1)
    <Evaluation: mean ..., std ..., min ..., max ... of 2 episodes, seed 1>
    """
    return _called(agent, EvaluateConfig, settings, evaluate_with)


def play(agent: str, **settings: Any) -> Evaluation:
    """Play episodes in one environment; the same as `xagents-ray play AGENT`.

    Args:
        agent: name of the algorithm, such as `ppo`.
        settings: the command's flags with `_` for `-`: `run` with the directory of a
            run or `last`, or `weights` and `env`; `video_dir`, `render`, `seed`, ….
    Returns:
        The episodes.
    Raises:
        UserError: a setting is invalid, no display is available, or rendering or
            writing fails; the message says what to do.
        KeyboardInterrupt: the user pressed Ctrl-C.

    >>> xagents_ray.play("ppo", run="last", frame_dir="frames", seed=1)
    <Evaluation: mean ..., std 0.00, min ..., max ... of 1 episode, seed 1>
    """
    return _called(agent, PlayConfig, settings, play_with)


def play_with(algorithm: Algorithm, given: Mapping[str, Any], say: Say) -> Evaluation:
    """Play, given settings by flat name; `say` gets a line of text per episode."""
    config = PlayConfig.of(given)
    _check_sampling(algorithm, config, given)
    trained = load_policy(algorithm, given)
    for note in trained.run.notes:
        say(printable(note))
    return episodes.show_episodes(trained.run, trained.weights, config, say)


def evaluate_with(
    algorithm: Algorithm, given: Mapping[str, Any], say: Say, bar: bool = False
) -> Evaluation:
    """Evaluate, given settings by flat name; `say` gets the notes and the result.

    With `bar`, a terminal shows the number of finished episodes.
    """
    config = EvaluateConfig.of(given)
    _check_sampling(algorithm, config, given)
    trained = load_policy(algorithm, given)
    with _progress(config.episodes, bar) as progress:
        found = episodes.evaluate_policy(trained.run, trained.weights, config, progress)
    if not config.json:
        for note in trained.run.notes:
            say(printable(note))
    if found.episodes:
        line = json.dumps({**found.summary(), "notes": [*trained.run.notes]})
        say(line if config.json else str(found))
    return found


@contextmanager
def _progress(total: int, shown: bool) -> Iterator[Callable[[int, int], object]]:
    """Show a progress bar on a terminal; yield the function that updates it."""
    from rich.console import Console

    console = Console(stderr=True)
    if not (shown and console.is_terminal):
        yield lambda ended, env_steps: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    steps = TextColumn("episodes, {task.fields[env_steps]:,} env steps")
    counted = MofNCompleteColumn()
    with Progress(BarColumn(), counted, steps, console=console, transient=True) as bar:
        task = bar.add_task("", total=total, env_steps=0)
        yield lambda ended, env_steps: bar.update(
            task, completed=ended, env_steps=env_steps
        )


def _called(
    agent: str,
    config: type[EpisodesConfig],
    settings: Mapping[str, Any],
    call: Callable[[Algorithm, Mapping[str, Any], Say], Evaluation],
) -> Evaluation:
    """Run a command for a call from Python, without printing."""
    algorithm = find_algorithm(agent)
    groups = EnvConfig, SourceConfig, config
    given = check_settings(algorithm, groups, settings)
    with python_call(), one_blas_thread():
        return episodes.unless_stopped(call(algorithm, given, lambda line: None))


def _check_sampling(
    algorithm: Algorithm, config: EpisodesConfig, given: Mapping[str, Any]
) -> None:
    """Raise UserError when a setting of exploration is used without --sample."""
    for each in options(algorithm.config):
        if each.explores and each.name in given and not config.sample:
            raise UserError(
                f"{each.flag} is for actions that are drawn: add --sample, or leave it "
                "out."
            )
