"""Click parameters and commands, generated from options."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import click

from xagents_ray.core.errors import UserError
from xagents_ray.settings.options import Option, suggest_option

_ORDER = ("Environment", "Agent", "Run", "Watching", "Where it runs", "Options")
"""Titles of the sections of a help."""
_NARROW = 70
"""Width below which a flag and its help have no room side by side."""
_IS_WHOLE = "help_all"
"""Key of a context's `meta` for whether its help shows all flags."""


def _show_all(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    """Print the help with all flags, and end the command."""
    if value and not ctx.resilient_parsing:
        ctx.meta[_IS_WHOLE] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


_HELP_ALL = click.Option(
    ["--help-all"],
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_all,
    help="Show all flags and exit.",
)


class Command(click.Command):
    """A command that accepts unambiguous prefixes of flags: --n-env for --n-envs.

    Flags with several values take all words up to the next flag. If some of its options
    are common, `--help` shows only these, and `--help-all` shows all.

    Attributes:
        known: the command's options.
        sections: title of the help's section for each parameter, by its name.
        examples: commands at the end of the help.
        owners: function that maps a flag to the other agents that have it.
    """

    known: Sequence[Option] = ()
    sections: Mapping[str, str] = MappingProxyType({})
    examples: Sequence[str] = ()
    owners: Callable[[str], Sequence[str]] = staticmethod(lambda flag: ())

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Expand prefixes of flags; raise UserError with a suggestion if unknown."""
        if not args:
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
            if owners := self.owners(name):
                raise UserError(
                    f"{ctx.info_name} has no flag {name}, which is one of "
                    f"{', '.join(owners)}: leave it out."
                ) from None
            hidden = {x for p in params if getattr(p, "hidden", False) for x in p.opts}
            shown = [flag for flag in flags if flag not in hidden]
            hint = suggest_option(name, self.known, shown)
            whole = "--help-all" if self._has_common else "--help"
            hint = hint or f": see {ctx.command_path} {whole}."
            raise UserError(f"There is no flag {name}{hint}") from None

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return all parameters, with `--help-all` if `--help` leaves some out."""
        params = super().get_params(ctx)
        return [*params, _HELP_ALL] if self._has_common else params

    @property
    def _has_common(self) -> bool:
        return any(each.common for each in self.known)

    def _left_out(self, ctx: click.Context) -> set[str]:
        """Return the names of the options that the help doesn't show."""
        if ctx.meta.get(_IS_WHOLE) or not self._has_common:
            return set()
        return {each.name for each in self.known if not each.common}

    def format_options(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """Write the flags in sections, on lines of their own if there is no room."""
        rows: dict[str, list[tuple[str, str]]] = {}
        left_out = self._left_out(ctx)
        brief = {o.name: _text(o, is_brief=True) for o in self.known if left_out}
        for each in self.get_params(ctx):
            name, row = str(each.name), each.get_help_record(ctx)
            if row is not None and name not in left_out:
                title = self.sections.get(name, "Options")
                text = brief.get(name, row[1])
                rows.setdefault(title, []).append((row[0], text))
        first = 30 if formatter.width >= _NARROW else 4
        for title in sorted(rows, key=_ORDER.index):
            with formatter.section(title):
                formatter.write_dl(rows[title], col_max=first)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if self.examples:
            with formatter.section("Examples"):
                for each in self.examples:
                    formatter.write(f"{'':{formatter.current_indent}}{each}\n")
        if left_out := self._left_out(ctx):
            formatter.write(f"\n--help-all shows the other {len(left_out)} flags.\n")


def _repeated(words: Sequence[str], many: set[str], bare: set[str]) -> Iterator[str]:
    """Expand `--weights a b` to `--weights a --weights b`, and bare flags to `true`."""
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
    """A flag's value, parsed by its option."""

    def __init__(self, option: Option) -> None:
        # Click converts several values one by one.
        self._option = replace(option, many=False)
        self.name = option.type.__name__

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        return self._option.read(value)  # commands check the values later


def refused_flag(flag: str) -> click.Option:
    """Return a hidden Click parameter for a rejected flag, with or without a value."""
    return click.Option(
        [flag], hidden=True, multiple=True, is_flag=False, flag_value=""
    )


def _text(option: Option, is_brief: bool = False) -> str:
    """Return the help of an option's flag, if brief without details and limits."""
    limits = () if is_brief else (option.unit, option.bounds)
    shown = [*limits, "|".join(option.choices)]
    if option.default is not None and option.default is not False:
        shown.append(f"default: {option.default}")
    text = option.help.partition("; ")[0] if is_brief else option.help
    return f"{text}. [{'; '.join(filter(None, shown))}]".replace(" []", "")


def flag_parameter(option: Option, varies: bool) -> click.Option:
    """Return an option's Click parameter; with `varies`, it may take several values."""
    many = option.many or (varies and option.hp_type is not None)
    text = _text(option)
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
