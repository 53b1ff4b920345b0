"""Settings of what a run prints."""

from dataclasses import dataclass

from xagents_ray.settings.options import Checked, count, option


@dataclass(frozen=True, kw_only=True)
class DisplayConfig(Checked):
    """Console output."""

    quiet: bool = option(
        False,
        "If specified, no messages by the agent will be displayed to the console",
        common=True,
    )
    log_frequency: int | None = count(
        None, "Log progress every n episodes", unit="episodes"
    )
    profile: bool = option(
        False,
        "If specified, progress says where the time goes, and what limits the run",
    )
    display_precision: int = option(
        2, "Number of decimals to be displayed", low=0, high=10
    )
