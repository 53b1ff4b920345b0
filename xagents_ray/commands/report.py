"""`report`: one self-contained page about one run or several."""

import base64
import io
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from xagents_ray.algorithms import presets
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.commands.load import load
from xagents_ray.commands.plot import plot_history, plot_seeds
from xagents_ray.commands.runs import run_facts
from xagents_ray.core.errors import UserError, printable
from xagents_ray.core.files import output_file
from xagents_ray.core.version import __version__
from xagents_ray.settings.config import train_options
from xagents_ray.settings.paths import local_path, local_paths
from xagents_ray.settings.run import RunConfig
from xagents_ray.storage.run_directory import RunDirectory, locate_run

_RESULTS = {
    "env_steps": "Env steps",
    "mean_reward": "Final mean",
    "best_reward": "Best mean",
    "best_evaluation": "Best evaluation",
    "seconds": "Seconds",
    "seed": "Seed",
    "reason": "Ended",
}
_LARGEST_VIDEO = 50_000_000
_STYLE = """
:root { color-scheme: light dark; --line: #d8dde3; --soft: #5b6673; --bar: #0072b2 }
@media (prefers-color-scheme: dark) {
  :root { --line: #3a424c; --soft: #a3aebb; --bar: #56b4e9 }
  .curve { filter: invert(1) hue-rotate(180deg) }
}
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 60rem;
  padding: 1rem }
h1 { font-size: 1.6rem } h2 { font-size: 1.15rem; margin-top: 2rem }
.curve svg, video { width: 100%; height: auto }
.wide { overflow-x: auto }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line);
  vertical-align: top; overflow-wrap: break-word }
td.share { width: 60% }
th { font-weight: 600 } .soft { color: var(--soft) }
.bar { background: var(--bar); height: .7rem; min-width: 1px }
"""


def report(
    runs: str | Path | Sequence[str | Path] = "last",
    output: str | Path = "report.html",
    *,
    video: bool = True,
    run_dir: str | Path | None = None,
) -> Path:
    """Write one page about runs: curves, results, settings, an episode, and times.

    The page needs no other file and no network.

    Args:
        runs: directories of runs; `last` is the one that was started or resumed last.
        output: the file to write.
        video: whether to film an episode of the first run, if it has no video yet.
        run_dir: directory of runs, for `last`; None for `runs`.
    Returns:
        The path of the page.
    Raises:
        UserError: a run or its history can't be read, or the file can't be written.

    >>> xagents_ray.report("runs/ppo/CartPole-v1/first", "first.html", video=False)
    PosixPath('first.html')
    """
    named = local_paths("report", runs)
    if not named:
        raise UserError("There is nothing to report; name one run or more.")
    above = local_path("run_dir", str(run_dir or RunConfig.run_dir))
    found = [locate_run("report", each, above, None)[0] for each in named]
    path = Path(local_path("output", str(output)))
    page = _page(found, video)
    with output_file(path) as file:
        file.write(page.encode())
    return path


def _page(runs: Sequence[RunDirectory], films: bool) -> str:
    groups: dict[str, list[RunDirectory]] = {}
    for run in runs:
        agent, settings = run.settings()
        groups.setdefault(f"{agent} on {settings.get('env')}", []).append(run)
    title = ", ".join(groups)
    body = [f"<h1>{_text(title)}</h1>", _results(runs)]
    body += [_curves(name, group) for name, group in groups.items()]
    if films:
        body.append(_video(runs[0]))
    for run in runs:
        heading = "" if len(runs) == 1 else f": {_text(run.path)}"
        body.append(f"<h2>Settings{heading}</h2>{_settings(run)}")
        body.append(f"<h2>Where the time went{heading}</h2>{_times(run)}")
        body.append(f"<h2>Failures and versions{heading}</h2>{_origin(run)}")
    foot = f'<p class="soft">Written by xagents-ray {__version__}.</p>'
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{_text(title)}</title><style>{_STYLE}</style></head>"
        f"<body>{''.join(body)}{foot}</body></html>"
    )


def _results(runs: Sequence[RunDirectory]) -> str:
    facts = [run_facts(run) for run in runs]
    rows = [[title, *(x[name] for x in facts)] for name, title in _RESULTS.items()]
    return _table(["", *(run.path for run in runs)], rows)


def _curves(name: str, runs: Sequence[RunDirectory]) -> str:
    """Return the learning curves of runs that differ in their seeds, as a picture."""
    try:
        if len(runs) > 1:
            figure = plot_seeds([run.history for run in runs], env=name)
        else:
            figure = plot_history([runs[0].path], env=name)
    except UserError as error:  # no episode has ended
        return f"<p>{_text(error)}</p>"
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True)
    _, _, drawing = file.getvalue().partition("<svg")
    return f'<div class="curve"><svg{drawing}</div>'


def _video(run: RunDirectory) -> str:
    """Return a video of an episode: the run's own, or one that is filmed now."""
    heading = "<h2>An episode</h2>"
    own = next(iter(sorted((run.path / "video").glob("*.mp4"))), None)
    try:
        with TemporaryDirectory() as folder:
            if own is None or own.is_symlink():
                load(run.path).play(1, video_dir=folder, seed=1)
                own = next(Path(folder).glob("*.mp4"))
            if own.stat().st_size > _LARGEST_VIDEO:
                return f"{heading}<p>It is too long for this page.</p>"
            data = base64.b64encode(own.read_bytes()).decode()
    except (UserError, OSError, StopIteration) as error:
        return f"{heading}<p>It could not be filmed: {_text(error)}</p>"
    source = f"data:video/mp4;base64,{data}"
    return f'{heading}<video controls muted loop src="{source}"></video>'


def _settings(run: RunDirectory) -> str:
    """Return the settings that differ from the defaults, beside the preset's."""
    agent, settings = run.settings()
    algorithm = find_algorithm(agent)
    preset = presets.find_preset(agent, str(settings.get("env")))
    tuned = {} if preset is None else preset.settings
    defaults = {each.name: each.default for each in train_options(algorithm.config)}
    rows = [
        (name, value, tuned.get(name), defaults.get(name))
        for name, value in settings.items()
        if value != defaults.get(name) or name in tuned
    ]
    return _table(["Setting", "Value", "Preset", "Default"], rows)


def _times(run: RunDirectory) -> str:
    profile = _mapping(run.summary().get("profile"))
    shares = {
        part: share
        for part, share in _mapping(profile.get("shares")).items()
        if isinstance(share, int | float)
    }
    if not shares:
        return "<p>Unknown: the run has not ended in order.</p>"
    rows = "".join(
        f"<tr><td>{_text(part)}</td><td>{share:.0%}</td><td class='share'>"
        f"<div class='bar' style='width:{min(share, 1):.0%}'></div></td></tr>"
        for part, share in shares.items()
    )
    note = (
        "Shares of the time since the run began. Parts that run at the same time "
        "overlap, so they may add up to more than 100 %; waiting is that of env actors."
    )
    advice = f"Limited by {profile.get('limited_by')}: {profile.get('advice')}."
    return (
        f"<p>{_text(advice)}</p><table>{rows}</table><p class='soft'>{_text(note)}</p>"
    )


def _origin(run: RunDirectory) -> str:
    summary, starts = run.summary(), run.starts()
    last = starts[-1] if starts else {}
    rows: list[tuple[str, Any]] = [
        ("Failures", _listed(summary.get("failures")) or "none"),
        ("Env actors", summary.get("n_actors")),
        ("Cores of the learner", summary.get("learner_threads")),
        ("Seed", last.get("seed")),
        ("Begun", ", ".join(str(each.get("started")) for each in starts)),
        ("Command", last.get("command")),
        ("Commit of the working directory", last.get("commit")),
        ("Versions", _listed(last.get("versions"))),
    ]
    return _table(["", ""], rows)


def _mapping(value: Any) -> Mapping[str, Any]:
    """Return a value of a file if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}


def _listed(values: Any) -> str:
    return ", ".join(f"{name} {value}" for name, value in _mapping(values).items())


def _table(titles: Sequence[Any], rows: Iterable[Sequence[Any]]) -> str:
    head = "".join(f"<th>{_text(title)}</th>" for title in titles)
    lines = (
        f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>" for row in rows
    )
    return f'<div class="wide"><table><tr>{head}</tr>{"".join(lines)}</table></div>'


def _text(value: Any) -> str:
    """Return a value as HTML, with everything escaped."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1_000 else f"{value:,.0f}"
    if isinstance(value, tuple | list):
        return escape(printable(" ".join(map(str, value))))
    return escape(printable(str(value)))
