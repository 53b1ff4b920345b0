"""`xagents-ray launch`: writes files that run a training on a cluster."""

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import click

from xagents_ray.algorithms.definition import Algorithm
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.commands.assignments import with_assignments
from xagents_ray.commands.cli import CONTEXT, HELP, CommandGroup
from xagents_ray.commands.flags import Command, flag_parameter
from xagents_ray.commands.shortcuts import with_agent_of_config
from xagents_ray.commands.tables import print_options
from xagents_ray.core.errors import UserError
from xagents_ray.core.version import __version__
from xagents_ray.run.config_file import with_config
from xagents_ray.run.request import Request
from xagents_ray.settings.config import train_options
from xagents_ray.settings.options import Checked, count, option, options

_TARGETS = {
    "docker": (
        "An image, and a compose file for one machine",
        "cd {folder} && docker compose up --build --exit-code-from driver",
    ),
    "kuberay": (
        "An image, a RayJob and a RayCluster for Kubernetes",
        "read the first lines of {folder}/rayjob.yaml",
    ),
    "slurm": ("A batch script for Slurm", "sbatch {folder}/train.sbatch"),
    "ray": (
        "Clusters for Ray's launcher, and a script for `ray job submit`",
        "read the first lines of {folder}/on-prem.yaml or aws.yaml",
    ),
}
_WHEEL = "`uv build --wheel -o {folder}/wheels` in a checkout"
"""How to get the wheel into the folder, until it is on PyPI."""


@dataclass(frozen=True, kw_only=True)
class LaunchConfig(Checked):
    """Contents and directory of the files."""

    output: str | None = option(
        None, "Folder to write, which must be new or empty", is_folder=True
    )
    workers: int = count(2, "Nodes besides the head")
    gpu: bool = option(False, "If specified, the learner gets a GPU")
    image: str | None = option(
        None, "Name of the image, with the registry; default: xagents-ray:VERSION"
    )


class _Target(Command):
    """A command that takes a `train` command after its flags and --."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = args[: args.index("--")] if "--" in args else args
        ctx.meta["command"] = args[len(own) + 1 :]
        if "--" not in args and "train" in own:
            raise UserError(f"{_example(ctx)}: the command comes after --.")
        return super().parse_args(ctx, own)


def _example(ctx: click.Context) -> str:
    return f"{ctx.command_path} -o FOLDER -- train ppo --env CartPole-v1 --preset"


def launch_group() -> click.Group:
    """Return the `launch` command, with a subcommand per kind of cluster."""

    @click.group(
        cls=CommandGroup,
        invoke_without_command=True,
        context_settings=CONTEXT,
        help=HELP["launch"],
    )
    @click.pass_context
    def launch(ctx: click.Context) -> None:
        if ctx.invoked_subcommand is None:
            click.echo(ctx.get_help())

    for target, (about, _) in _TARGETS.items():
        flags = [flag_parameter(each, False) for each in options(LaunchConfig)]
        flags[0].opts.insert(0, "-o")
        command = _Target(
            target,
            callback=partial(_launch, target),
            params=[*flags],
            help=about,
            epilog="The command to launch comes after --.",
            context_settings=CONTEXT,
        )
        command.known = list(options(LaunchConfig))
        launch.add_command(command)
    return launch


def _launch(target: str, /, **given: Any) -> None:
    """Write the files; print their names and the next steps."""
    ctx = click.get_current_context()
    if ctx.meta.get("bare") and not ctx.meta["command"]:
        print_options(_example(ctx), options(LaunchConfig))
        return
    config = LaunchConfig.of({n: v for n, v in given.items() if v is not None})
    if config.output is None:
        raise UserError(f"-o is missing: name a folder, as in {_example(ctx)}.")
    words = ctx.meta["command"]
    sources, added = _check(ctx, words)
    write = resolve_name("xagents_ray.cluster.launch.folder:write_folder")
    folder = Path(config.output)
    names = write(
        target,
        [*words, *added],
        folder,
        sources,
        workers=config.workers,
        gpu=config.gpu,
        image=config.image,
    )
    click.echo(f"{folder}: {', '.join(names)}")
    if target != "slurm":
        click.echo(f"Put modules that the training imports into {folder}/files.")
        wheel = _WHEEL.format(folder=shlex.quote(str(folder.absolute())))
        click.echo(f"xagents-ray {__version__} is not on PyPI yet: first {wheel}.")
    click.echo(f"Next: {_TARGETS[target][1].format(folder=shlex.quote(str(folder)))}")


def _check(ctx: click.Context, words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the files that a command uses, and arguments to add.

    These are also the files of its preset and its --config, and the arguments are flags
    for those, whose paths may be absolute there.

    Raises:
        UserError: it isn't a `train` command, or it can't be launched.
    """
    if list(words[:1]) != ["train"] or len(words) < 3:
        raise UserError(f"Name a training to launch, as in {_example(ctx)}.")
    algorithm, values = _parsed(ctx, with_agent_of_config(words[1:]))
    known, given = train_options(algorithm.config), with_config(algorithm, values)
    for each in known:
        if each.not_launched and given.get(each.name) not in (None, each.default):
            raise UserError(f"{each.flag} {each.not_launched}: leave it out.")
    request = Request.of(algorithm, given)
    preset = str(given.get("preset") or "")
    files = [preset] if Path(preset).is_file() else []
    settings = request.settings if files else request.given
    files += [str(values["config"])] if "config" in values else []
    added: list[str] = []
    for each in known:
        if not each.is_path or settings.get(each.name) is None:
            continue
        paths = settings[each.name] if each.many else [settings[each.name]]
        if each.name not in values:
            paths = [_nearby(path) for path in paths]
            added += [each.flag, *paths]
        files += paths
    return files, added


def _parsed(
    ctx: click.Context, words: Sequence[str]
) -> tuple[Algorithm, dict[str, Any]]:
    """Return the agent and the settings, by flat name, in the words after `train`."""
    root = ctx.find_root()
    train = root.command.get_command(root, "train")  # type: ignore[attr-defined]
    algorithm = find_algorithm(words[0])
    within = click.Context(train, root, "train")
    command = train.get_command(within, algorithm.name)
    parsed = command.make_context(algorithm.name, list(words[1:]), within)
    assigned = parsed.params.pop("set")
    del parsed.params["traceback"]
    values = {n: v for n, v in parsed.params.items() if v not in (None, ())}
    return algorithm, with_assignments(assigned, values, command.known)


def _nearby(path: str) -> str:
    """Make a path relative if it is below the working directory."""
    relative = os.path.relpath(path)
    return path if ".." in Path(relative).parts else relative
