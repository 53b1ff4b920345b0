"""Settings of playing and evaluating."""

from dataclasses import dataclass

from xagents_ray.settings.options import Checked, option


@dataclass(frozen=True, kw_only=True)
class EpisodesConfig(Checked):
    """What playing and evaluating share."""

    sample: bool = option(
        False,
        off="--greedy",
        help="If specified, actions are drawn as in training, not the likeliest as "
        "with --greedy; epsilon-greedy agents then explore with --epsilon-end",
    )
    seed: int | None = option(
        None,
        low=0,
        high=2**31 - 1,
        help="Random seed of the environments and the drawn actions",
    )


@dataclass(frozen=True, kw_only=True)
class PlayConfig(EpisodesConfig):
    """Episodes of one environment, and where their pictures go."""

    episodes: int = option(1, low=1, unit="episodes", help="Number of episodes to play")
    action_idx: int = option(
        0, low=0, help="Index of the model's output that holds the action"
    )
    frame_delay: float = option(
        0.0,
        low=0,
        unit="seconds",
        help="Delay between rendered frames, beyond the environment's own speed",
    )
    frame_dir: str | None = option(
        None, help="Path to directory to save frames as .jpg"
    )
    frame_frequency: int = option(
        1,
        low=1,
        unit="frames",
        help="If --frame-dir is specified, save frames every n frames",
    )
    render: bool = option(
        False, help="If specified, the gameplay will be rendered in a window"
    )
    video_dir: str | None = option(
        None, help="Path to directory to save an .mp4 of each episode"
    )


@dataclass(frozen=True, kw_only=True)
class EvaluateConfig(EpisodesConfig):
    """Episodes whose returns are measured."""

    episodes: int = option(
        20,
        low=1,
        unit="episodes",
        help="Number of episodes, of all environments together",
    )
    json: bool = option(
        False, help="If specified, the result is printed as JSON with every episode"
    )
