"""The command line, made from the configs."""

import importlib
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import click

from xagents_ray.algorithms.presets import presets as all_presets
from xagents_ray.algorithms.row import Algorithm
from xagents_ray.algorithms.table import ALGORITHMS, find
from xagents_ray.commands.doctor.examine import examine
from xagents_ray.commands.evaluate import evaluate_with
from xagents_ray.commands.play import play_with
from xagents_ray.commands.tables import print_list, print_options, print_table
from xagents_ray.commands.train import train_with
from xagents_ray.commands.tune import tune_with
from xagents_ray.core.errors import (
    Broken,
    Diverged,
    EnvironmentFault,
    UserError,
    near,
)
from xagents_ray.core.version import __version__
from xagents_ray.policy.loading import SourceConfig
from xagents_ray.settings.config import GROUPS, EnvConfig
from xagents_ray.settings.episodes import EvaluateConfig, PlayConfig
from xagents_ray.settings.options import (
    Option,
    option,
    options,
    suggestion,
)
from xagents_ray.tuning.config import LEFT_OUT, tune_options


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
    except (Diverged, Broken) as error:
        if isinstance(error, Broken) and error.trace:
            click.echo(f"{error.trace}\n", err=True)
        _complain(str(error))
        return 1
    except click.ClickException as error:
        return _complain(error.format_message())
    except click.exceptions.Exit as error:
        return error.exit_code
    return code if isinstance(code, int) else 0


def _complain(message: str) -> int:
    click.echo(f"xagents-ray: {message}", err=True)
    return 2


class _Command(click.Command):
    """Takes unambiguous beginnings of flags, as xagents did: --n-env for --n-envs.

    Flags of several values take all words up to the next flag.

    Attributes:
        known: the options that its flags are made of.
    """

    known: Sequence[Option] = ()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and not isinstance(self, click.Group):
            ctx.meta["bare"] = True
        params = self.get_params(ctx)
        flags = [flag for p in params for flag in (*p.opts, *p.secondary_opts)]
        several = [p for p in params if getattr(p, "multiple", False)]
        many = {flag for p in several for flag in p.opts}
        bare = {flag for p in several if p.type is click.BOOL for flag in p.opts}
        words = [_whole(arg, flags) for arg in args]
        try:
            return super().parse_args(ctx, list(_repeated(words, many, bare)))
        except click.NoSuchOption as error:
            name = error.option_name
            hint = suggestion(name, self.known, as_flags=True) or near(name, flags)
            hint = hint or f": see {ctx.command_path} --help."
            raise UserError(f"There is no flag {name}{hint}") from None


def _repeated(words: Sequence[str], many: set[str], bare: set[str]) -> Iterator[str]:
    """Yield `--weights a b` as `--weights a --weights b`, and `true` for bare flags."""
    flag, taken = "", 0
    for word in words:
        if word.startswith("--"):
            if flag in bare and not taken:
                yield "true"
            name = word.partition("=")[0]
            flag, taken = (name if name in many else ""), int("=" in word)
        elif flag:
            if taken:
                yield flag
            taken += 1
        yield word
    if flag in bare and not taken:
        yield "true"


def _whole(argument: str, flags: Sequence[str]) -> str:
    name, equals, value = argument.partition("=")
    fits = [flag for flag in flags if flag.startswith(name)]
    if name.startswith("--") and name not in flags and len(fits) == 1:
        return fits[0] + equals + value
    return argument


class _Value(click.ParamType):  # type: ignore[type-arg]
    """A flag's value, checked by its config field."""

    def __init__(self, option: Option) -> None:
        # One of several values is checked alone.
        self._option = replace(option, many=False)
        self.name = option.type.__name__

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        return self._option.parse(value)


def _parameter(option: Option, varies: bool) -> click.Option:
    """Return the click option of a config field.

    Args:
        option: the field.
        varies: take several values where it has an hp_type.
    """
    many = option.many or (varies and option.hp_type is not None)
    shown = [option.help, option.unit, option.bounds]
    if option.choices:
        shown.append("|".join(option.choices))
    if option.default not in (None, False):
        shown.append(f"default: {option.default}")
    text = f"{shown[0]}. [{'; '.join(s for s in shown[1:] if s)}]".replace(" []", "")
    if option.type is bool and many:
        return click.Option([option.flag], type=bool, multiple=True, help=text)
    if option.type is bool:
        off = option.off or (f"--no-{option.flag[2:]}" if option.default else "")
        flags = "/".join(filter(None, (option.flag, off)))
        return click.Option([flags], is_flag=True, default=None, help=text)
    alone: dict[str, Any] = {}
    if option.bare:
        alone = {"is_flag": False, "flag_value": option.bare}
    return click.Option(
        [option.flag], type=_Value(option), multiple=many, help=text, **alone
    )


class _Agents(click.Group):
    """A command for each agent; another name is answered with the nearest."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise UserError(
                f"{error.option_name} comes after the agent: {ctx.command_path} AGENT "
                f"{error.option_name} …, with one of {', '.join(ALGORITHMS)}."
            ) from None

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = super().get_command(ctx, cmd_name)
        if found is None and not cmd_name.startswith("-"):
            find(cmd_name)  # raises
        return found


@dataclass(frozen=True, kw_only=True)
class _Errors:
    """What the command line shows of errors."""

    traceback: bool = option(
        False,
        help="If specified, an error of an own environment comes with its traceback",
    )


_CONTEXT = {"help_option_names": ["-h", "--help"]}
Call = Callable[[Algorithm, dict[str, Any]], int]


def _agent_command(
    command: str,
    algorithm: Algorithm,
    shown: Sequence[Option],
    call: Call,
    varies: bool,
    gone: Collection[str],
) -> click.Command:
    """Return the command of one agent; alone it prints the table of its options."""
    shown = [*shown, *options(_Errors)]

    @click.pass_context
    def callback(ctx: click.Context, /, **given: Any) -> int:
        if ctx.meta.get("bare"):
            print_options(f"xagents-ray {command} {algorithm.name}", shown)
            return 0
        with_traceback = given.pop("traceback")
        values = {n: value for n, value in given.items() if value not in (None, ())}
        algorithm.config.check_names(values)
        try:
            return call(algorithm, values)
        except EnvironmentFault as error:
            if with_traceback and error.trace:
                click.echo(error.trace, err=True)
            raise

    names = (name.replace("_", "-") for name in (*algorithm.config.replaced, *gone))
    refused = [click.Option([f"--{name}"], hidden=True) for name in names]
    about = f"{command.capitalize()} {algorithm.name.upper()}"
    made = _Command(
        algorithm.name,
        callback=callback,
        params=[*(_parameter(option, varies) for option in shown), *refused],
        help=f"{about}: {algorithm.config.__doc__}",
        context_settings=_CONTEXT,
    )
    made.known = shown
    return made


def _train(algorithm: Algorithm, values: dict[str, Any]) -> int:
    result = train_with(algorithm, values)
    return 0 if result.signal is None else 128 + result.signal


def _doctor(algorithm: Algorithm, values: dict[str, Any]) -> int:
    rows = examine(algorithm, values)
    cells = [(row.name, row.verdict, row.found) for row in rows]
    print_table(("check", "verdict", "found"), cells, wrapped=2)
    remedies = [f"{row.name}: {row.remedy}" for row in rows if row.remedy]
    if remedies:
        print_list("\nWhat to change:", remedies)
    else:
        click.echo("\nNothing to change.")
    return 2 if any(row.verdict == "error" for row in rows) else 0


def _tune(algorithm: Algorithm, values: dict[str, Any]) -> int:
    result = tune_with(algorithm, values)
    return 0 if result.signal is None else 128 + result.signal


def _play(algorithm: Algorithm, values: dict[str, Any]) -> int:
    signal = play_with(algorithm, values, click.echo)
    return 0 if signal is None else 128 + signal


def _evaluate(algorithm: Algorithm, values: dict[str, Any]) -> int:
    signal = evaluate_with(algorithm, values, click.echo)
    return 0 if signal is None else 128 + signal


def _only(config: type, names: Collection[str]) -> list[Option]:
    return [option for option in options(config) if option.name in names]


def _of(*groups: type) -> list[Option]:
    return [option for group in groups for option in options(group)]


def _add_group(
    name: str,
    about: str,
    shared: Sequence[Option],
    own: Sequence[str],
    call: Call,
    varies: bool = False,
    gone: Collection[str] = (),
) -> None:
    """Add a command with a command per agent to the root.

    Args:
        name: of the command.
        about: one sentence.
        shared: options of every agent.
        own: which of an agent's own settings are options too; none for all.
        call: what the command does.
        varies: whether options with an hp_type take several values.
        gone: settings that it refuses with a reason.
    """

    @root.group(cls=_Agents, invoke_without_command=True, name=name, help=about)
    @click.pass_context
    def group(ctx: click.Context) -> None:
        if ctx.invoked_subcommand is None:
            print_options(f"xagents-ray {name} <agent>", shared)
            click.echo(f"\nAgents: {', '.join(ALGORITHMS)}")
            click.echo(f"Use xagents-ray {name} <agent> to see the agent's options too")

    for row in ALGORITHMS.values():
        mine = _only(row.config, own) if own else _of(row.config)
        command = _agent_command(name, row, [*shared, *mine], call, varies, gone)
        group.add_command(command)


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

_POLICY = (
    "model",
    "actor_model",
    "epsilon_end",
    "step_noise_coef",
    "noise",
    "normalize_observations",
)
_add_group(
    "train", "Train given an agent and environment", _of(*GROUPS.values()), (), _train
)
_add_group(
    "doctor",
    "Check within 20 seconds what `train` with the same flags needs",
    _of(*GROUPS.values()),
    (),
    _doctor,
)
_add_group(
    "play",
    "Play a game given a trained agent and environment",
    [o for o in _of(EnvConfig, SourceConfig, PlayConfig) if o.name != "n_envs"],
    _POLICY,
    _play,
)
_add_group(
    "evaluate",
    "Measure a trained agent's mean reward",
    _of(EnvConfig, SourceConfig, EvaluateConfig),
    _POLICY,
    _evaluate,
)
_add_group(
    "tune",
    "Tune hyperparameters given an agent, hyperparameter specs, and environment",
    tune_options(None),
    (),
    _tune,
    varies=True,
    gone=LEFT_OUT,
)


@root.command(help="List the presets of --preset, and what they reach")
@click.argument("agent", required=False)
def presets(agent: str | None) -> int:
    """List presets, of one agent or of all."""
    rows = [
        (preset.agent, preset.env, preset.expected, preset.source)
        for preset in all_presets()
        if agent is None or preset.agent == find(agent).name
    ]
    print_table(("agent", "environment", "expected", "source"), rows, wrapped=2)
    return 0


@root.command(
    cls=_Command,
    context_settings=_CONTEXT,
    help="Draw training histories to a picture",
)
@click.argument("histories", nargs=-1)
@click.option("--column", default="mean_reward", help="Which column. [mean_reward]")
@click.option("--by", type=click.Choice(["step", "time"]), default="step")
@click.option("--labels", multiple=True, help="One for each history.")
@click.option("--title", help="Above the plot.")
@click.option("--smoothing", type=click.IntRange(1), default=1, help="Games. [1]")
@click.option("--output", default="history.png", help="A .png or .svg. [history.png]")
def plot(histories: tuple[str, ...], by: str, column: str, **rest: Any) -> int:
    """Draw training histories to a picture."""
    if not histories:
        raise UserError("Name the histories to plot: xagents-ray plot h.parquet ….")
    plotting = importlib.import_module("xagents_ray.commands.plot")
    plotting.plot_history(
        histories,
        agents=rest["labels"] or None,
        env=rest["title"],
        plot=column,
        benchmark=by,
        smoothing=rest["smoothing"],
        output=rest["output"],
    )
    click.echo(rest["output"])
    return 0
