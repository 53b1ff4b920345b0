"""Printing of tables and lists."""

from collections.abc import Container, Iterable, Sequence

from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from xagents_ray.core.errors import printable
from xagents_ray.settings.options import Option


def print_options(title: str, options: Iterable[Option]) -> None:
    """Print a table of options: flag, help, default and hp_type."""
    rows = [
        (option.flag, option.described, _default(option), option.hp_type or "-")
        for option in sorted(options, key=lambda option: option.name)
    ]
    console_of().print(f"{title}\n", soft_wrap=True)
    print_table(("flags", "help", "default", "hp_type"), rows, wrapped=[1])


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str]], wrapped: Container[int]
) -> None:
    """Print a table; `wrapped` has the indices of the columns that may wrap."""
    table = Table(box=MARKDOWN)
    for i, column in enumerate(columns):
        table.add_column(column, no_wrap=i not in wrapped)
    for row in rows:
        table.add_row(*map(printable, row))
    console_of().print(table)


def print_list(title: str, items: Iterable[str]) -> None:
    """Print a title and a bulleted list."""
    grid = Table.grid(padding=(0, 1))
    for item in items:
        grid.add_row("-", printable(item))
    console_of().print(f"{title}\n", soft_wrap=True)
    console_of().print(grid)


def console_of() -> Console:
    """Return the console for tables: as wide as the terminal, or 120 characters."""
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = 120
    return console


def _default(option: Option) -> str:
    if option.default is True:
        return "on"
    off = option.default is None or option.default is False
    return "-" if off else f"{option.default}"
