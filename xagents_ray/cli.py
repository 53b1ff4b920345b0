"""The command line, made from the configs."""

import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from xagents_ray import __version__
from xagents_ray.algorithms import ALGORITHMS, Algorithm
from xagents_ray.config import GROUPS, Config
from xagents_ray.errors import UserError
from xagents_ray.options import Option, options
from xagents_ray.tables import print_options
from xagents_ray.training import train_config


def main() -> NoReturn:
    """Run the command line; exit 2 with one sentence for a user's mistake."""
    sys.path.append("")  # --env package.module:factory may lie where we stand
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code."""
    try:
        code = root.main(
            list(arguments), prog_name="xagents-ray", standalone_mode=False
        )
    except UserError as error:
        return _complain(str(error))
    except click.ClickException as error:
        return _complain(error.format_message())
    except click.exceptions.Exit as error:
        return error.exit_code
    return code if isinstance(code, int) else 0


def _complain(message: str) -> int:
    click.echo(f"xagents-ray: {message}", err=True)
    return 2


class _Command(click.Command):
    """Takes unambiguous beginnings of flags, as xagents did: --n-env for --n-envs."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and not isinstance(self, click.Group):
            ctx.meta["bare"] = True
        flags = [flag for p in self.get_params(ctx) for flag in p.opts]
        return super().parse_args(ctx, [_whole(arg, flags) for arg in args])


def _whole(argument: str, flags: Sequence[str]) -> str:
    name, equals, value = argument.partition("=")
    fits = [flag for flag in flags if flag.startswith(name)]
    if name.startswith("--") and name not in flags and len(fits) == 1:
        return fits[0] + equals + value
    return argument


class _Value(click.ParamType):  # type: ignore[type-arg]
    """A flag's value, checked by its config field."""

    def __init__(self, option: Option) -> None:
        self._option, self.name = option, option.type.__name__

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        return self._option.parse(value)


def _parameter(option: Option) -> click.Option:
    """Return the click option of a config field."""
    shown = [option.help, option.unit, option.bounds]
    if option.choices:
        shown.append("|".join(option.choices))
    if option.default not in (None, False):
        shown.append(f"default: {option.default}")
    text = f"{shown[0]}. [{'; '.join(s for s in shown[1:] if s)}]".replace(" []", "")
    if option.type is bool:
        return click.Option([option.flag], is_flag=True, default=None, help=text)
    return click.Option([option.flag], type=_Value(option), help=text)


def _train_command(algorithm: Algorithm) -> click.Command:
    groups = (*GROUPS.values(), algorithm.config)
    context = {"help_option_names": ["-h", "--help"]}

    @click.pass_context
    def train(ctx: click.Context, /, **given: Any) -> int:
        if ctx.meta.get("bare"):
            title = f"xagents-ray train {algorithm.name}"
            print_options(title, [option for g in groups for option in options(g)])
            return 0
        values = {name: value for name, value in given.items() if value is not None}
        result = train_config(algorithm, Config.of(algorithm.config, values))
        return 0 if result.signal is None else 128 + result.signal

    return _Command(
        algorithm.name,
        callback=train,
        params=[_parameter(option) for group in groups for option in options(group)],
        help=f"Train {algorithm.name.upper()}: {algorithm.config.__doc__}",
        context_settings=context,
    )


@click.group(
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(
    __version__, prog_name="xagents-ray", message="%(prog)s %(version)s"
)
@click.pass_context
def root(ctx: click.Context) -> None:
    """Distributed reinforcement learning on Ray and TensorFlow 2."""
    if ctx.invoked_subcommand is None:
        click.echo(_WELCOME)


@root.group(invoke_without_command=True, name="train")
@click.pass_context
def train_group(ctx: click.Context) -> None:
    """Train given an agent and environment."""
    if ctx.invoked_subcommand is None:
        shared = [option for group in GROUPS.values() for option in options(group)]
        print_options("xagents-ray train <agent>", shared)
        click.echo(f"\nAgents: {', '.join(ALGORITHMS)}")
        click.echo("Use xagents-ray train <agent> to see the agent's options too")


for _row in ALGORITHMS.values():
    train_group.add_command(_train_command(_row))

_WELCOME = f"""\
xagents-ray {__version__}

Usage:
    xagents-ray <command> <agent> [options] [args]

Available commands:
    train      Train given an agent and environment

Use xagents-ray <command> to see more info about a command
Use xagents-ray <command> <agent> to see more info about command + agent"""
