"""The commands whose flags are not those of an agent."""

from collections.abc import Sequence
from typing import Any

import click
from click.shell_completion import get_completion_class

from xagents_ray.commands.cli import CONTEXT, HELP, root
from xagents_ray.commands.flags import Command
from xagents_ray.commands.later import later
from xagents_ray.commands.shortcuts import run_to_resume
from xagents_ray.settings.run import RunConfig

_report = later("xagents_ray.commands.report:report")
_plot = later("xagents_ray.commands.plot:plot_history")


@click.command("plot", cls=Command, context_settings=CONTEXT, help=HELP["plot"])
@click.argument("histories", nargs=-1)
@click.option(
    "--column", "plot", default="mean_reward", help="Column to draw. [mean_reward]"
)
@click.option(
    "--by",
    "benchmark",
    type=click.Choice(["step", "time"]),
    default="step",
    help="Draw over env steps, or over time. [step]",
)
@click.option("--labels", "agents", multiple=True, help="One for each history.")
@click.option("--title", "env", help="Title above the plot.")
@click.option(
    "--smoothing",
    type=click.IntRange(1),
    default=1,
    help="Episodes that are averaged. [1]",
)
@click.option("--run-dir", help="Directory of runs, for last. [runs]")
@click.option(
    "--output", default="history.png", help="A .png, .svg or .pdf. [history.png]"
)
def plot_command(histories: Sequence[str], agents: Sequence[str], **rest: Any) -> int:
    _plot(histories or ["last"], agents or None, **rest)
    click.echo(rest["output"])
    return 0


@click.command(
    "resume",
    context_settings={**CONTEXT, "ignore_unknown_options": True},
    help=HELP["resume"],
)
@click.argument(
    "words", nargs=-1, type=click.UNPROCESSED, metavar="[RUN] [FLAGS OF TRAIN]"
)
def resume_command(words: Sequence[str]) -> Any:
    train = ["train", *run_to_resume(words)]
    return root.main(train, "xagents-ray", standalone_mode=False)


@click.command("report", cls=Command, context_settings=CONTEXT, help=HELP["report"])
@click.argument("runs", nargs=-1)
@click.option("--output", "-o", default="report.html", help="File. [report.html]")
@click.option("--no-video", is_flag=True, help="Film no episode.")
@click.option("--run-dir", default=RunConfig.run_dir, help="Directory of runs. [runs]")
def report_command(
    runs: Sequence[str], output: str, no_video: bool, run_dir: str
) -> None:
    click.echo(_report(runs or "last", output, video=not no_video, run_dir=run_dir))


@click.command("help", context_settings=CONTEXT, help=HELP["help"])
@click.argument("words", nargs=-1, metavar="[COMMAND] [AGENT]")
def help_command(words: Sequence[str]) -> Any:
    return root.main([*words, "--help"], "xagents-ray", standalone_mode=False)


@click.command(
    "completion", cls=Command, context_settings=CONTEXT, help=HELP["completion"]
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Print what `eval "$(xagents-ray completion bash)"` runs."""
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(root, {}, "xagents-ray", "_XAGENTS_RAY_COMPLETE").source())
