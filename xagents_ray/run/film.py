"""Plays whole episodes in one environment, on a display or into a video."""

import dataclasses
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path

from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.core.errors import Stopped
from xagents_ray.core.signals import Signals
from xagents_ray.core.trajectory import Array, Episode, Weights
from xagents_ray.run.driver import Driver
from xagents_ray.settings.episodes import PlayConfig
from xagents_ray.watch.recorder import BestEffort


def play_episodes(
    run: RunSpec,
    weights: Weights,
    config: PlayConfig,
    ended: Callable[[Episode], object],
    index: int = 0,
) -> int | None:
    """Play episodes in one environment, seeded with the run's seed.

    Args:
        run: the run whose policy acts.
        weights: the weights of the network that acts.
        config: settings of the display, the files and the number of episodes.
        ended: function that is called with each ended episode.
        index: index that the environment's factory receives.
    Returns:
        The number of the signal that ended the episodes early; None without one.
    """
    # Imported here, since importing the package must load no environments.
    from xagents_ray.actors.actor_setup import ActorSetup
    from xagents_ray.actors.envs.interface import errors_name_line
    from xagents_ray.actors.player import Player

    setup = ActorSetup.of(run, 1, first_index=index)
    with Signals() as signals, closing(Player(setup, config)) as player:
        signals.on_first = player.stop
        with suppress(Stopped), errors_name_line(str(run.config.env.env)):
            for episode in player.play(weights, run.seed, run.longest_episode):
                ended(episode)
    return signals.received


def film_monitored(
    run: RunSpec, driver: Driver, directory: Path, best_effort: BestEffort
) -> Path | None:
    """Film a run with --monitor-session; return the path of the video, if any.

    Args:
        run: the run whose policy acts.
        driver: the driver of the run.
        directory: directory of the run.
        best_effort: function that turns failures into warnings.
    """
    if run.config.run.monitor_session is None:
        return None
    folder = directory / "video"
    if not best_effort("The video", lambda: film(run, driver.state().learner, folder)):
        return None
    return next(folder.glob("*.mp4"), None)


def film(run: RunSpec, learned: Mapping[str, Array], folder: Path) -> None:
    """Write a video of one episode of a run's policy to a folder.

    Args:
        run: the run whose policy acts.
        learned: the arrays of the learner's state by name.
        folder: folder of the video; created if needed.
    """
    from xagents_ray.actors.envs.indices import film_index

    weights = Weights(1, run.algorithm.models[0].own(learned))
    run = dataclasses.replace(run, seed=run.evaluation_seed)
    limit, index = run.config.run.eval_max_steps, film_index(run.config.env)
    config = PlayConfig(video_dir=str(folder), eval_max_steps=limit)
    play_episodes(run, weights, config, lambda _: None, index)
