"""Tables of options, as the bare commands print them."""

from collections.abc import Iterable

from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from xagents_ray.options import Option


def print_options(title: str, options: Iterable[Option]) -> None:
    """Print flags, help, default and hp_type."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 120
    table = Table(box=MARKDOWN)
    for column in ("flags", "help", "default", "hp_type"):
        table.add_column(column, no_wrap=column != "help")
    for option in sorted(options, key=lambda option: option.name):
        table.add_row(
            option.flag, _help(option), _default(option), option.hp_type or "-"
        )
    console.print(f"{title}\n", soft_wrap=True)
    console.print(table)


def _help(option: Option) -> str:
    limits = "|".join(option.choices) or option.bounds
    extra = ", ".join(part for part in (option.unit, limits) if part)
    return f"{option.help} ({extra})" if extra else option.help


def _default(option: Option) -> str:
    if option.default is True:
        return "on"
    off = option.default is None or option.default is False
    return "-" if off else f"{option.default}"
