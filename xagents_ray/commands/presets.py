"""The command `presets`: all presets in a table, or one as a file."""

import click

from xagents_ray.algorithms import presets as kept
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.commands.cli import HELP
from xagents_ray.commands.flags import Command
from xagents_ray.commands.tables import print_table
from xagents_ray.tuning import plan


@click.command("presets", cls=Command, help=HELP["presets"])
@click.argument("agent", required=False)
@click.argument("env", required=False)
@click.argument("name", default=kept.AUTO_PRESET)
def list_presets(agent: str | None, env: str | None, name: str) -> int:
    """List presets, of one agent or of all; with an environment, print its settings."""
    row = None if agent is None else find_algorithm(agent)
    if row is not None and env is not None:
        found = kept.named_preset(row.name, env, name)
        text = plan.preset_yaml(row, found.settings, found.expected, found.source)
        click.echo(text, nl=False)
        return 0
    rows = [
        (preset.agent, preset.env, preset.name, preset.expected, preset.source)
        for preset in kept.all_presets()
        if row is None or preset.agent == row.name
    ]
    columns = ("agent", "environment", "name", "expected", "source")
    print_table(columns, rows, wrapped=[3, 4])
    return 0
