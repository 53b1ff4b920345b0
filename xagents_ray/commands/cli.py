"""The command line; it imports its commands only to call one."""

import shutil
import signal
import sys
from collections.abc import Sequence
from pkgutil import resolve_name
from typing import Any, NoReturn

import click

from xagents_ray.core.arguments import check_characters
from xagents_ray.core.errors import (
    Broken,
    Diverged,
    UserError,
    did_you_mean,
    one_line,
    shown,
)
from xagents_ray.core.installation import is_complete, missing_package
from xagents_ray.core.process import end_now
from xagents_ray.core.version import __version__

HELP = {
    "train": "Train given an agent and environment",
    "doctor": "Check this machine, or what `train` with the same flags needs",
    "resume": "Continue the newest run, or the one in a directory",
    "play": "Play an episode given a trained agent and environment",
    "evaluate": "Measure a trained agent's mean reward",
    "tune": (
        "Tune hyperparameters given an agent, hyperparameter specs, and environment"
    ),
    "launch": "Write the files that bring a training to a cluster",
    "presets": "List the presets of --preset, or print one as a file for it",
    "plot": "Draw training histories to a picture",
    "completion": "Print a script that completes commands in bash, zsh or fish",
    "help": "Show the help of a command",
    "report": "Write one page about runs: curves, settings, an episode, times",
    "runs": "List runs; show one, compare two, or delete some",
}
"""The commands, with their help."""
CONTEXT = {
    "help_option_names": ["-h", "--help"],
    "terminal_width": min(shutil.get_terminal_size().columns, 100) - 2,
}


def main() -> NoReturn:
    """Run the command line; a user's mistake exits with 2 and one sentence."""
    code = run(sys.argv[1:])
    if code > 128:  # after a signal TensorFlow may be busy in a thread for long
        end_now(code)
    sys.exit(code)


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
    except MemoryError as error:
        _complain(
            f"Out of memory ({one_line(error)}): ask for less at once, or close other "
            "programs."
        )
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


class CommandGroup(click.Group):
    """A group of commands that answers an unknown one with the nearest."""

    title = "Commands"
    """Title of the list of commands."""

    def format_commands(self, ctx: click.Context, formatter: Any) -> None:
        """Write whole sentences, which click cuts where lines are short."""
        commands = ((x, self.get_command(ctx, x)) for x in self.list_commands(ctx))
        rows = [(name, each.help or "") for name, each in commands if each]
        with formatter.section(self.title):
            formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return a command's name, the command, and the words after it.

        Raises:
            UserError: the first word names no command.
        """
        is_flag = args[0].startswith("-")
        if not is_flag and self.get_command(ctx, args[0]) is None:
            known = self.list_commands(ctx)
            hint = did_you_mean(args[0], known) or f"; known: {', '.join(known)}."
            raise UserError(f"There is no command {shown(args[0])}{hint}")
        return super().resolve_command(ctx, args)


class _Root(CommandGroup):
    """The group of all commands, which are imported when one is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(HELP)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in HELP:
            return None
        commands = resolve_name("xagents_ray.commands.all_commands:COMMANDS")
        command: click.Command = commands[cmd_name]
        return command

    def format_commands(self, ctx: click.Context, formatter: Any) -> None:
        """Write the commands' help without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(sorted(HELP.items()))


@click.group(cls=_Root, invoke_without_command=True, context_settings=CONTEXT)
@click.version_option(
    __version__, prog_name="xagents-ray", message="%(prog)s %(version)s"
)
@click.pass_context
def root(ctx: click.Context) -> None:
    """Distributed reinforcement learning on Ray and TensorFlow 2."""
    if ctx.invoked_subcommand is None:
        lines = (f"    {name:10} {text}" for name, text in HELP.items())
        click.echo(_WELCOME.format(commands="\n".join(lines)))


_WELCOME = f"""\
xagents-ray {__version__}

Usage:
    xagents-ray <command> <agent> [options] [args]

Available commands:
{{commands}}

Use xagents-ray <command> to see more info about a command
Use xagents-ray <command> <agent> to see more info about command + agent"""
