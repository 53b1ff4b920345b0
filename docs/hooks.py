"""What MkDocs asks while it builds the site: tables from options, equations as MathML.

A page has markers, which a reader of the Markdown doesn't see:

    <!-- flags: ppo -->         flags of an agent besides those of every agent
    <!-- flags: env -->         flags of a group, as `GROUPS` below names them
    <!-- plot -->               flags of `xagents-ray plot`
    <!-- presets: ppo -->       an agent's presets; `all` for those of every agent
    <!-- curves: ppo -->        how an agent learned, by `python -m benchmarks learning`
    <!-- agents -->             which agents take which spaces
    <!-- known-as -->           flags by the names that other libraries have for them
    <!-- decisions -->          links to the decision records
    <!-- include: FILE.md -->   a page at the checkout's root
    <!-- code: FILE.py -->      a file of the checkout, as code
    <!-- notebook: FILE -->     a notebook of the checkout, with its outputs

Equations between dollar signs become MathML, which browsers draw themselves: the site
needs no script or font for them, and works without a network.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from click import Option as Flag
from latex2mathml.converter import convert

from xagents_ray.algorithms.presets import all_presets
from xagents_ray.algorithms.table import ALGORITHMS
from xagents_ray.commands.all_commands import COMMANDS
from xagents_ray.commands.launch import LaunchConfig
from xagents_ray.policy.loading import SourceConfig
from xagents_ray.settings import config as settings
from xagents_ray.settings.algorithm import AlgorithmConfig
from xagents_ray.settings.episodes import EvaluateConfig, PlayConfig
from xagents_ray.settings.options import Option, options
from xagents_ray.tuning.plan import TuneConfig

DOCS = Path(__file__).parent
GROUPS: dict[str, type] = {
    **settings.GROUPS,
    "algorithm": AlgorithmConfig,
    "source": SourceConfig,
    "play": PlayConfig,
    "evaluate": EvaluateConfig,
    "tune": TuneConfig,
    "launch": LaunchConfig,
}
_MARKER = re.compile(r"^<!-- ([\w-]+)(?:: ([\w./-]+))? -->$", re.M)
_INLINE = re.compile(r"<code>[^<]*</code>")
_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
_EQUATION = re.compile(
    r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.S
)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return a page with its markers replaced by what they stand for."""
    return _MARKER.sub(
        lambda found: WRITERS.get(found[1], lambda _: found[0])(found[2]), markdown
    )


def on_page_content(html: str, **_: Any) -> str:
    """Return a page's HTML with its equations as MathML, and flags in one piece."""
    html = _INLINE.sub(lambda found: _FLAG.sub(r"<span>\g<0></span>", found[0]), html)
    return _EQUATION.sub(_equation, html)


def _equation(found: re.Match[str]) -> str:
    tag, bracket, tex = found.groups()
    for escaped, character in (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")):
        tex = tex.replace(escaped, character)
    tex = tex.replace(r"\log ", r"\log\,").strip()
    display = "block" if bracket == "[" else "inline"
    return f'<{tag} class="equation">{convert(tex, display=display)}</{tag}>'


def _table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    columns = list(columns)
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _text(text: str) -> str:
    """Return text that Markdown shows as it is, within a table."""
    text = re.sub(r"(--[a-z][a-z0-9-]*)", r"`\1`", text.replace("|", r"\|"))
    text = re.sub(r"([*_<>])", r"\\\1", text)
    return re.sub(r"([≥≤>]) ", "\\1\u00a0", text)


def _flags(owner: str) -> str:
    """Return the table of an agent's own flags, or of a group's."""
    if owner in GROUPS:
        shown = list(options(GROUPS[owner]))
    else:
        of_all = list(options(AlgorithmConfig))
        known = options(ALGORITHMS[owner].config)
        shown = [each for each in known if each not in of_all]
    rows = (
        (
            _name(each, owner),
            _text(each.described),
            _default(each),
            each.hp_type or "–",
        )
        for each in sorted(shown, key=lambda each: each.name)
    )
    return _table(("flag", "what it does", "default", "`tune` varies it"), rows)


def _plot(_: str) -> str:
    """Return the table of the flags of `plot`, which are no options of a config."""
    shown = [each for each in COMMANDS["plot"].params if isinstance(each, Flag)]

    def text(flag: Any) -> str:
        return flag.help or f"{' or '.join(flag.type.choices)}. [{flag.default}]"

    rows = ((f"`{each.opts[0]}`", _text(text(each))) for each in shown)
    return _table(("flag", "what it does [default]"), rows)


def _name(each: Option, owner: str) -> str:
    name = f'<code id="{owner}-{each.name}">{each.flag}</code>'
    return f"{name}<br>`--no-{each.flag[2:]}`" if each.default is True else name


def _default(each: Option) -> str:
    words = {None: "–", False: "off", True: "on"}
    if each.default is None or isinstance(each.default, bool):
        return words[each.default]
    return f"`{each.default}`"


def _presets(agent: str) -> str:
    """Return the table of an agent's presets, or of all."""
    of_all = agent == "all"
    rows = (
        ([each.agent] if of_all else [])
        + [f"`{each.env}`", each.name, _text(each.expected), _text(each.source)]
        for each in all_presets()
        if of_all or each.agent == agent
    )
    columns = ["environment", "name", "expected", "source"]
    return _table(["agent", *columns] if of_all else columns, rows)


def _curves(agent: str) -> str:
    """Return pictures of how an agent's presets learned, with what they reached."""
    parts = []
    for path in sorted((DOCS / "results").glob(f"{agent}-*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        seeds, env, commit = found["seeds"], found["env"], found["commit"]
        commit = commit[:7] if len(commit) == 40 else commit
        means = sorted(each["mean"] for each in seeds.values())
        reached = " · ".join(f"{mean:.4g}" for mean in means)
        own = "".join(f", `{name}={x}`" for name, x in found["settings"].items())
        parts.append(
            f"![Mean reward by env steps, {env}](../results/{path.stem}.svg)\n\n"
            f"{env}{own}, seeds {', '.join(seeds)}, commit {commit}: the final weights "
            f"play {reached} in {found['episodes']} greedy episodes each "
            f"([history](../results/{path.stem}.parquet))."
        )
    return "\n\n".join(parts)


def _agents(_: str) -> str:
    """Return the table of agents and the spaces that they take."""

    def cells(name: str) -> Iterator[str]:
        row = ALGORITHMS[name]
        reads_actions = any(model.reads_actions for model in row.models)
        yield f"[{name}]({name}.md)"
        for has in (
            row.discrete,
            row.multi_discrete,
            row.continuous,
            not reads_actions,
        ):
            yield "yes" if has else "–"
        yield "each round" if row.on_policy else "replay"
        yield str(len(row.models))

    columns = "discrete actions", "several discrete actions", "continuous actions"
    more = "images", "learns from", "weights files"
    return _table(("agent", *columns, *more), map(cells, sorted(ALGORITHMS)))


def _known_as(_: str) -> str:
    """Return the table of names that other libraries have for our flags."""
    known: dict[str, set[str]] = {}
    for config in (*settings.GROUPS.values(), *(r.config for r in ALGORITHMS.values())):
        for each in options(config):
            for name in each.known_as:
                known.setdefault(name, set()).add(each.flag)
    rows = (
        (f"`{name}`", ", ".join(f"`{flag}`" for flag in sorted(flags)))
        for name, flags in sorted(known.items())
    )
    return _table(("elsewhere", "here"), rows)


def _decisions(_: str) -> str:
    """Return a list of links to the decision records."""
    records = sorted((DOCS / "adr").glob("0*.md"))
    titles = (each.read_text(encoding="utf-8").splitlines()[0] for each in records)
    pairs = zip(records, titles, strict=True)
    return "\n".join(
        f"- [{title.removeprefix('# ')}](adr/{f.name})" for f, title in pairs
    )


def _include(file: str) -> str:
    """Return a file of the checkout's root, its links as the site has them."""
    text = (DOCS.parent / file).read_text(encoding="utf-8")
    return text.replace("](docs/", "](").replace("](CHANGELOG.md)", "](changelog.md)")


def _code(file: str) -> str:
    """Return a file of the checkout as a block of code."""
    path = DOCS.parent / file
    language = {".py": "python", ".sh": "sh"}.get(path.suffix, "ini")
    return f"```{language}\n{path.read_text(encoding='utf-8')}```"


def _notebook(file: str) -> str:
    """Return a notebook of the checkout as Markdown, with its outputs."""
    parts = []
    for cell in json.loads((DOCS.parent / file).read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        is_code = cell["cell_type"] == "code"
        parts.append(f"```python\n{source}\n```" if is_code else source)
        outputs = cell.get("outputs", ())
        for is_print, some in groupby(outputs, lambda output: "text" in output):
            shown = map(_output, some)
            parts += [f"```text\n{''.join(shown).rstrip()}\n```"] if is_print else shown
    return "\n\n".join(parts)


def _output(output: dict[str, Any]) -> str:
    """Return an output of a notebook's cell in its richest form."""
    if "text" in output:  # what the cell prints
        return "".join(output["text"])
    data = output["data"]
    for kind in ("image/png", "image/jpeg"):
        if kind in data:
            content = "".join(data[kind]).replace("\n", "")
            return f'<img alt="Output" src="data:{kind};base64,{content}">'
    if "text/html" in data:
        return f'<div class="output">\n{"".join(data["text/html"])}\n</div>'
    return f"```text\n{''.join(data['text/plain']).rstrip()}\n```"


WRITERS: dict[str, Callable[[str], str]] = {
    "flags": _flags,
    "plot": _plot,
    "presets": _presets,
    "curves": _curves,
    "agents": _agents,
    "known-as": _known_as,
    "decisions": _decisions,
    "include": _include,
    "code": _code,
    "notebook": _notebook,
}
