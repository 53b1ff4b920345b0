"""The command line, generated from the configs."""

import signal
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pkgutil import resolve_name
from typing import Any, NoReturn

import click

from xagents_ray.algorithms.definition import Algorithm
from xagents_ray.algorithms.table import (
    agents_with,
    all_algorithms,
    find_algorithm,
    plugin_failures,
)
from xagents_ray.commands.episodes import evaluate_with, play_with
from xagents_ray.commands.flags import Command, flag_parameter, refused_flag
from xagents_ray.commands.launch import launch_group
from xagents_ray.commands.plot import plot_history
from xagents_ray.commands.presets import list_presets
from xagents_ray.commands.seeds import train_seeds
from xagents_ray.commands.tables import print_options
from xagents_ray.commands.training_run import train_with
from xagents_ray.commands.tune import tune_from_shell
from xagents_ray.core.arguments import check_characters
from xagents_ray.core.errors import Broken, Diverged, EnvironmentFault, UserError
from xagents_ray.core.installation import is_complete, missing_package
from xagents_ray.core.version import __version__
from xagents_ray.policy.loading import SourceConfig
from xagents_ray.settings.config import GROUPS
from xagents_ray.settings.episodes import EvaluateConfig, PlayConfig
from xagents_ray.settings.options import Option, flag, option, options
from xagents_ray.settings.training import EnvConfig
from xagents_ray.tuning.plan import UNSUPPORTED_OPTIONS, tune_options


def main() -> NoReturn:
    """Run the command line; a user's mistake exits with 2 and one sentence."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run the command line; return its exit code."""
    try:
        check_characters(arguments)
        code = root.main([*arguments], "xagents-ray", standalone_mode=False)
    except UserError as error:
        return _complain(str(error))
    except (Diverged, Broken) as error:
        if isinstance(error, Broken) and error.trace:
            click.echo(f"{error.trace}\n", err=True)
        _complain(str(error))
        return 1
    except ModuleNotFoundError as error:
        if is_complete():
            raise
        return _complain(missing_package(str(error.name)))
    except click.ClickException as error:
        return _complain(error.format_message())
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.Abort:  # Ctrl-C with nothing to shut down
        return _stopped(signal.SIGINT)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 0
        if code - 128 not in signal.valid_signals():
            raise
        return _stopped(signal.Signals(code - 128))
    return code if isinstance(code, int) else 0


def _stopped(number: signal.Signals) -> int:
    click.echo(f"xagents-ray: stopped by {number.name}", err=True)
    return 128 + number


def _complain(message: str) -> int:
    for line in message.splitlines():  # one per mistake
        click.echo(f"xagents-ray: {line}", err=True)
    return 2


@dataclass(frozen=True, kw_only=True)
class _Errors:
    """Options for the display of errors."""

    traceback: bool = option(
        False, "If specified, errors in your environment are shown with a traceback"
    )


_CONTEXT = {"help_option_names": ["-h", "--help"]}
Call = Callable[[Algorithm, dict[str, Any]], int | None]
"""Implementation of a command; returns the signal that ended it, or None."""


class _Agents(click.Group):
    """A command with one subcommand per agent.

    Args:
        name: name of the command.
        about: help of the command, one sentence.
        shared: options shared by all agents.
        call: function that implements the command.
        own: predicate that selects the agent-specific options of the command.
        varies: whether options with an hp_type take several values.
        refused: names of the settings that the command rejects.
    """

    def __init__(
        self,
        name: str,
        about: str,
        shared: Sequence[Option],
        call: Call,
        own: Callable[[Option], bool] = lambda option: True,
        varies: bool = False,
        refused: Collection[str] = (),
    ) -> None:
        super().__init__(name, help=about, invoke_without_command=True)
        self.callback, self._shared, self._call = self._print, shared, call
        self._own, self._varies, self._refused = own, varies, refused

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise UserError(
                f"{error.option_name} comes after the agent: {ctx.command_path} AGENT "
                f"{error.option_name} …, with one of {', '.join(all_algorithms())}."
            ) from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all algorithms."""
        return sorted(all_algorithms())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of an algorithm, built-in or registered."""
        if cmd_name.startswith("-"):
            return None
        row = find_algorithm(cmd_name)
        own = filter(self._own, options(row.config))
        shown = [*self._shared, *own, *options(_Errors)]
        hidden = map(flag, (*row.config.all_replaced(), *self._refused))
        about = f"{str(self.name).capitalize()} {row.name.upper()}"
        command = Command(
            row.name,
            callback=partial(self._run, row, shown),
            params=[
                *(flag_parameter(option, self._varies) for option in shown),
                *map(refused_flag, hidden),
            ],
            help=f"{about}: {row.config.__doc__}",
            context_settings=_CONTEXT,
        )
        command.known, command.owners = shown, self._owners
        return command

    def _owners(self, name: str) -> list[str]:
        """Return the agents that have the given flag."""
        return agents_with(name.removeprefix("--").replace("-", "_"), self._own)

    def format_epilog(self, ctx: click.Context, formatter: Any) -> None:
        """List the plugins that can't be used."""
        for each in plugin_failures().values():
            formatter.write(f"\n{each}\n")

    def _print(self) -> None:
        """Print the options shared by all agents, if no agent is given."""
        if click.get_current_context().invoked_subcommand is None:
            print_options(f"xagents-ray {self.name} <agent>", self._shared)
            click.echo(f"\nAgents: {', '.join(all_algorithms())}")
            for each in plugin_failures().values():
                click.echo(each, err=True)
            click.echo(
                f"Use xagents-ray {self.name} <agent> to see the agent's options too"
            )

    def _run(
        self, algorithm: Algorithm, shown: Sequence[Option], /, **given: Any
    ) -> int | None:
        """Run the command of an agent; without flags, print the table of options."""
        if click.get_current_context().meta.get("bare"):
            print_options(f"xagents-ray {self.name} {algorithm.name}", shown)
            return 0
        with_traceback = given.pop("traceback")
        values = {n: value for n, value in given.items() if value not in (None, ())}
        algorithm.config.check_names(values)
        try:
            signal = self._call(algorithm, values)
        except EnvironmentFault as error:
            if with_traceback and error.trace:
                click.echo(error.trace, err=True)
            raise
        return None if signal is None else 128 + signal


def _train(algorithm: Algorithm, values: dict[str, Any]) -> int | None:
    if "seeds" not in values:
        return train_with(algorithm, values).signal
    result = train_seeds(algorithm, values)
    if result.signal is None and result.failures:
        raise Broken(result.failure())
    return result.signal


def _doctor(algorithm: Algorithm, values: dict[str, Any]) -> int | None:
    command = resolve_name("xagents_ray.commands.doctor.command:run_doctor")
    with_traceback = click.get_current_context().params["traceback"]
    if not command(algorithm, values, with_traceback):
        click.get_current_context().exit(2)
    return None


def _of(*groups: type) -> list[Option]:
    return [option for group in groups for option in options(group)]


def _acts(option: Option) -> bool:
    return option.acts or option.explores


@click.group(invoke_without_command=True, context_settings=_CONTEXT)
@click.version_option(
    __version__, prog_name="xagents-ray", message="%(prog)s %(version)s"
)
@click.pass_context
def root(ctx: click.Context) -> None:
    """Distributed reinforcement learning on Ray and TensorFlow 2."""
    if ctx.invoked_subcommand is None:
        lines = (f"    {name:10} {each.help}" for name, each in root.commands.items())
        click.echo(_WELCOME.format(commands="\n".join(lines)))


_WELCOME = f"""\
xagents-ray {__version__}

Usage:
    xagents-ray <command> <agent> [options] [args]

Available commands:
{{commands}}

Use xagents-ray <command> to see more info about a command
Use xagents-ray <command> <agent> to see more info about command + agent"""


for _group in (
    _Agents(
        "train",
        "Train given an agent and environment",
        _of(*GROUPS.values()),
        _train,
    ),
    _Agents(
        "doctor",
        "Check within 20 seconds what `train` with the same flags needs",
        _of(*GROUPS.values()),
        _doctor,
    ),
    _Agents(
        "play",
        "Play an episode given a trained agent and environment",
        [o for o in _of(EnvConfig, SourceConfig, PlayConfig) if o.name != "n_envs"],
        lambda row, given: play_with(row, given, click.echo).signal,
        _acts,
    ),
    _Agents(
        "evaluate",
        "Measure a trained agent's mean reward",
        _of(EnvConfig, SourceConfig, EvaluateConfig),
        lambda row, given: evaluate_with(row, given, click.echo, True).signal,
        _acts,
    ),
    _Agents(
        "tune",
        "Tune hyperparameters given an agent, hyperparameter specs, and environment",
        tune_options(None),
        lambda row, given: tune_from_shell(row, given).signal,
        varies=True,
        refused=UNSUPPORTED_OPTIONS,
    ),
):
    root.add_command(_group)
root.add_command(launch_group())
root.add_command(list_presets)


@root.command(
    "plot",
    cls=Command,
    context_settings=_CONTEXT,
    help="Draw training histories to a picture",
)
@click.argument("histories", nargs=-1)
@click.option(
    "--column", "plot", default="mean_reward", help="Column to draw. [mean_reward]"
)
@click.option("--by", "benchmark", type=click.Choice(["step", "time"]), default="step")
@click.option("--labels", "agents", multiple=True, help="One for each history.")
@click.option("--title", "env", help="Title above the plot.")
@click.option("--smoothing", type=click.IntRange(1), default=1, help="Episodes. [1]")
@click.option("--run-dir", help="Directory of runs, for last. [runs]")
@click.option("--output", default="history.png", help="A .png or .svg. [history.png]")
def plot_command(histories: Sequence[str], agents: Sequence[str], **rest: Any) -> int:
    if not histories:
        raise UserError(
            "Name the histories to plot: xagents-ray plot last, or h.parquet …."
        )
    plot_history(histories, agents or None, **rest)
    click.echo(rest["output"])
    return 0
