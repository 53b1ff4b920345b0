"""All commands, generated from the configs."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import click

from xagents_ray.algorithms.definition import Algorithm
from xagents_ray.algorithms.table import (
    agents_with,
    all_algorithms,
    find_algorithm,
    plugin_failures,
)
from xagents_ray.commands.assignments import Assignments, with_assignments
from xagents_ray.commands.cli import CONTEXT, HELP, CommandGroup
from xagents_ray.commands.flags import Command, flag_parameter, refused_flag
from xagents_ray.commands.later import later
from xagents_ray.commands.launch import launch_group
from xagents_ray.commands.plain_commands import (
    completion_command,
    help_command,
    plot_command,
    report_command,
    resume_command,
)
from xagents_ray.commands.presets import list_presets
from xagents_ray.commands.run_list import runs_group
from xagents_ray.commands.shortcuts import (
    with_agent_of_config,
    with_preset_of,
    with_run,
)
from xagents_ray.commands.tables import print_options
from xagents_ray.commands.training_run import train_with, what_next
from xagents_ray.core.errors import Broken, EnvironmentFault, UserError
from xagents_ray.policy.loading import SourceConfig
from xagents_ray.run.config_file import with_config
from xagents_ray.settings.config import GROUPS
from xagents_ray.settings.episodes import EvaluateConfig, PlayConfig
from xagents_ray.settings.options import Option, flag, option, options
from xagents_ray.settings.training import EnvConfig
from xagents_ray.tuning.plan import UNSUPPORTED_OPTIONS, tune_options
from xagents_ray.tuning.seeds_result import SeedsResult


@dataclass(frozen=True, kw_only=True)
class _Errors:
    """Options for the display of errors."""

    traceback: bool = option(
        False, "If specified, errors in your environment are shown with a traceback"
    )


_SECTIONS = {
    "env": "Environment",
    "training": "Run",
    "run": "Run",
    "display": "Watching",
    "pipeline": "Where it runs",
    "placement": "Where it runs",
}
_TITLES = {
    option.name: _SECTIONS[name]
    for name, group in GROUPS.items()
    for option in options(group)
}
"""Section of the help for each option that all agents share."""
_EXAMPLES = {
    "train": (
        "--env {env} --max-steps 100k",
        "--env {env} --preset --seeds 1 2 3",
        "--resume last --max-steps 200k",
    ),
    "doctor": ("--env {env} --max-steps 100k",),
    "play": ("--run last --video-dir videos",),
    "evaluate": ("--run last --episodes 100",),
    "tune": ("--env {env} --trial-steps 50k --lr 1e-4 1e-2",),
}
"""Words after a command and an agent, as examples in the help; `env` is formatted."""
Call = Callable[[Algorithm, dict[str, Any]], int | None]
"""Implementation of a command; returns the signal that ended it, or None."""


class _Agents(CommandGroup):
    """A command with one subcommand per agent.

    Args:
        name: name of the command.
        shared: options shared by all agents.
        call: function that implements the command.
        own: predicate that selects the agent-specific options of the command.
        varies: whether options with an hp_type take several values.
        refused: names of the settings that the command rejects.
        complete: function that completes the words after the command.
        bare: function that is called without words; it returns whether all is well.
            None prints the options that all agents share.
    """

    title = "Agents"

    def __init__(
        self,
        name: str,
        shared: Sequence[Option],
        call: Call,
        own: Callable[[Option], bool] = lambda option: True,
        varies: bool = False,
        refused: Collection[str] = (),
        complete: Callable[[Sequence[str]], list[str]] = list,
        bare: Callable[[], bool] | None = None,
    ) -> None:
        super().__init__(
            name,
            help=HELP[name],
            invoke_without_command=True,
            subcommand_metavar="AGENT …",
        )
        self.callback, self._shared, self._call = self._print, shared, call
        self._own, self._varies, self._refused = own, varies, refused
        self._complete, self._bare = complete, bare
        self._takes_config = any(each.name == "config" for each in shared)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, self._complete(args))
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
        more = options(Assignments) if self._takes_config else ()
        shown = [*self._shared, *own, *more, *options(_Errors)]
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
            context_settings=CONTEXT,
        )
        command.known, command.owners = shown, self._owners
        agent = {each.name: "Agent" for each in options(row.config)}
        command.sections = {each.name: "Run" for each in shown} | agent | _TITLES
        env = "CartPole-v1" if row.discrete else "Pendulum-v1"
        command.examples = [
            f"xagents-ray {self.name} {row.name} {rest.format(env=env)}"
            for rest in _EXAMPLES.get(str(self.name), ())
        ]
        return command

    def _owners(self, name: str) -> list[str]:
        """Return the agents that have the given flag."""
        return agents_with(name.removeprefix("--").replace("-", "_"), self._own)

    def format_epilog(self, ctx: click.Context, formatter: Any) -> None:
        """List the plugins that can't be used."""
        for each in plugin_failures().values():
            formatter.write(f"\n{each}\n")

    def _print(self) -> int:
        """Print the options shared by all agents, if no agent is given."""
        if self._bare is not None:
            if click.get_current_context().invoked_subcommand is None:
                return 0 if self._bare() else 2
            return 0
        if click.get_current_context().invoked_subcommand is None:
            print_options(f"xagents-ray {self.name} <agent>", self._shared)
            click.echo(f"\nAgents: {', '.join(all_algorithms())}")
            for each in plugin_failures().values():
                click.echo(each, err=True)
            click.echo(
                f"Use xagents-ray {self.name} <agent> to see the agent's options too"
            )
        return 0

    def _run(
        self, algorithm: Algorithm, shown: Sequence[Option], /, **given: Any
    ) -> int | None:
        """Run the command of an agent; without flags, print the table of options."""
        if click.get_current_context().meta.get("bare"):
            print_options(f"xagents-ray {self.name} {algorithm.name}", shown)
            return 0
        with_traceback, assigned = given.pop("traceback"), given.pop("set", ())
        values = {n: value for n, value in given.items() if value not in (None, ())}
        values = with_assignments(assigned, values, shown)
        algorithm.config.check_names(values)
        try:
            signal = self._call(algorithm, values)
        except EnvironmentFault as error:
            if with_traceback and error.trace:
                click.echo(error.trace, err=True)
            raise
        return None if signal is None else 128 + signal


_train_seeds = later("xagents_ray.commands.seeds:train_seeds")
_play = later("xagents_ray.commands.episodes:play_with")
_evaluate = later("xagents_ray.commands.episodes:evaluate_with")
_tune = later("xagents_ray.commands.tune:tune_from_shell")
_run_doctor = later("xagents_ray.commands.doctor.command:run_doctor")


def _train(algorithm: Algorithm, values: dict[str, Any]) -> int | None:
    values = with_config(algorithm, values)
    if values.get("seeds") is None:
        ended = train_with(algorithm, values)
        if not values.get("quiet"):
            click.echo(what_next(ended), nl=False)
        if ended.unsaved and ended.signal is None:
            click.get_current_context().exit(1)
        return ended.signal
    result: SeedsResult = _train_seeds(algorithm, values)
    if result.signal is None and result.failures:
        raise Broken(result.failure())
    lost = {seed: each.unsaved for seed, each in result.results.items()}
    if result.signal is None and any(lost.values()):
        named = (f"seed {n}: {', '.join(names)}" for n, names in lost.items() if names)
        raise Broken(f"Not saved: {'; '.join(named)}.")
    return result.signal


def _doctor(algorithm: Algorithm, values: dict[str, Any]) -> int | None:
    values = with_config(algorithm, values)
    with_traceback = click.get_current_context().params["traceback"]
    if not _run_doctor(algorithm, values, with_traceback):
        click.get_current_context().exit(2)
    return None


def _of(*groups: type) -> list[Option]:
    return [option for group in groups for option in options(group)]


def _acts(option: Option) -> bool:
    return option.acts or option.explores


_ALL: Sequence[click.Command] = (
    _Agents("train", _of(*GROUPS.values()), _train, complete=with_preset_of),
    _Agents(
        "doctor",
        _of(*GROUPS.values()),
        _doctor,
        complete=with_preset_of,
        bare=later("xagents_ray.commands.doctor.command:run_machine_doctor"),
    ),
    resume_command,
    _Agents(
        "play",
        [o for o in _of(EnvConfig, SourceConfig, PlayConfig) if o.name != "n_envs"],
        lambda row, given: _play(row, given, click.echo).signal,
        _acts,
        complete=with_run,
    ),
    _Agents(
        "evaluate",
        _of(EnvConfig, SourceConfig, EvaluateConfig),
        lambda row, given: _evaluate(row, given, click.echo, True).signal,
        _acts,
        complete=with_run,
    ),
    _Agents(
        "tune",
        tune_options(None),
        lambda row, given: _tune(row, given).signal,
        varies=True,
        refused=UNSUPPORTED_OPTIONS,
        complete=with_agent_of_config,
    ),
    launch_group(),
    list_presets,
    plot_command,
    report_command,
    runs_group,
    help_command,
    completion_command,
)
COMMANDS = {str(command.name): command for command in _ALL}
"""The commands by name."""
