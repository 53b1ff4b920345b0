"""Settings of playing and evaluating."""

from dataclasses import dataclass

from xagents_ray.settings.options import Checked, count, option


@dataclass(frozen=True, kw_only=True)
class EpisodesConfig(Checked):
    """What playing and evaluating share."""

    sample: bool = option(
        False,
        "If specified, actions are drawn as in training, not the likeliest as "
        "with --greedy; epsilon-greedy agents then explore with --epsilon-end",
        off="--greedy",
    )
    seed: int | None = option(
        None,
        "Random seed of the environments and the drawn actions",
        low=0,
        high=2**31 - 1,
    )


@dataclass(frozen=True, kw_only=True)
class PlayConfig(EpisodesConfig):
    """Episodes of one environment, and where their pictures go."""

    episodes: int = count(1, "Number of episodes to play", unit="episodes")
    action_idx: int = option(
        0, "Index of the model's output that holds the action", low=0
    )
    frame_delay: float = option(
        0.0,
        "Delay between rendered frames, beyond the environment's own speed",
        low=0,
        unit="seconds",
    )
    frame_dir: str | None = option(None, "Path to directory to save frames as .jpg")
    frame_frequency: int = count(
        1, "If --frame-dir is specified, save frames every n frames", unit="frames"
    )
    render: bool = option(
        False, "If specified, the gameplay will be rendered in a window"
    )
    video_dir: str | None = option(
        None, "Path to directory to save an .mp4 of each episode"
    )


@dataclass(frozen=True, kw_only=True)
class EvaluateConfig(EpisodesConfig):
    """Episodes whose returns are measured."""

    episodes: int = count(
        20, "Number of episodes, of all environments together", unit="episodes"
    )
    json: bool = option(
        False, "If specified, the result is printed as JSON with every episode"
    )
