"""Settings for playing and evaluating episodes."""

from dataclasses import dataclass

from xagents_ray.settings.options import Checked, count, option

EPISODE_LIMIT = (
    "default: where no time limit is known to end it, 10 times the longest episode in "
    "training, and at least 10,000"
)


@dataclass(frozen=True, kw_only=True)
class EpisodesConfig(Checked):
    """Settings shared by playing and evaluating."""

    sample: bool = option(
        False,
        "If specified, actions are drawn as in training, not the likeliest as "
        "with --greedy; epsilon-greedy agents then explore with --epsilon-end",
        off="--greedy",
        common=True,
    )
    eval_epsilon: float = option(
        0.0,
        "Probability of a random action in place of the policy's, at each step",
        low=0,
        high=1,
        known_as=("policy_eps", "epsilon_eval"),
    )
    eval_max_steps: int | None = count(
        None, f"Give up when an episode is longer; {EPISODE_LIMIT}", unit="env steps"
    )
    seed: int | None = option(
        None,
        "Random seed of the environments and the drawn actions",
        low=0,
        high=2**31 - 1,
    )


@dataclass(frozen=True, kw_only=True)
class PlayConfig(EpisodesConfig):
    """Episodes to play in one environment, and their display and recording."""

    episodes: int = count(1, "Number of episodes to play", unit="episodes", common=True)
    action_idx: int = option(
        0, "Index of the model's output that holds the action", low=0
    )
    frame_delay: float = option(
        0.0,
        "Delay between rendered frames, beyond the environment's own speed",
        low=0,
        unit="seconds",
    )
    frame_dir: str | None = option(
        None, "Path to directory to save frames as .jpg", is_folder=True
    )
    frame_frequency: int = count(
        1, "If --frame-dir is specified, save frames every n frames", unit="frames"
    )
    render: bool = option(
        False,
        "If specified, the gameplay will be rendered in a window",
        common=True,
    )
    render_end: bool = option(
        False,
        "If specified, --render and --frame-dir show only the last frame of an episode",
    )
    video_dir: str | None = option(
        None,
        "Path to directory to save an .mp4 of each episode",
        common=True,
        is_folder=True,
    )


@dataclass(frozen=True, kw_only=True)
class EvaluateConfig(EpisodesConfig):
    """Episodes to evaluate."""

    episodes: int = count(
        20,
        "Number of episodes, of all environments together",
        unit="episodes",
        common=True,
    )
    json: bool = option(
        False, "If specified, the result is printed as JSON with every episode"
    )
