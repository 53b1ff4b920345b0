"""Costs of the parts of a work: `roofline`, `updates`, `replay`, `weights`."""

import itertools
import json
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TextIO

import click

from benchmarks.report import markdown, read
from benchmarks.subprocesses import in_fresh_process, module
from benchmarks.works import WORKS, Settings, settings_option
from xagents_ray.core.process import available_cores
from xagents_ray.settings.config import train_options

_SECONDS = 2.0
_ROLLOUT = {"stepping": "step", "forward (acting)": "act"}
_PHASE = {
    "inserting": "insert",
    "sampling": "draw",
    "forward + backward (learning), weights out": "learn",
}
_CALLS = {
    "sample_32": "32 sampled",
    "sample_4096": "64 × 64 sampled",
    "prioritize": "1,000 priorities",
}
"""Titles of the separately timed parts of a replay, by name of the part."""
_works = click.option(
    "--work", "names", type=click.Choice(list(WORKS)), multiple=True, help="Repeatable."
)
_settings = settings_option("A setting beside the work's own; repeatable.")


def _has_replay(name: str) -> bool:
    _, config = WORKS[name].config()
    return config.algorithm.replay is not None


def _timed(
    name: str, settings: Mapping[str, Any], parts: Sequence[str], one_core: bool = True
) -> dict[str, Any]:
    """Run `benchmarks.parts`; return its output with the median for each part."""
    WORKS[name].config(**settings)
    named: dict[str, Any] = {"work": name, "settings": settings, "parts": parts}
    asked = {**named, "one_core": one_core, "seconds": _SECONDS}
    measured = in_fresh_process(module("parts", asked))
    medians = {k: statistics.median(v) for k, v in measured["spans"].items()}
    return {**measured, "medians": medians}


def costs(spans: Mapping[str, Sequence[float]], env_steps: int) -> dict[str, float]:
    """Return the core microseconds per env step of each part of a run.

    Args:
        spans: seconds of each call of a rollout (`roll_out`), of its parts, and of the
            parts of a learning phase, by name; the fastest call has the least noise.
        env_steps: env steps of a rollout, and so between two learning phases.
    """
    best = {name: min(calls) for name, calls in spans.items()}
    spent = {part: best[name] for part, name in _ROLLOUT.items()}
    spent["storing a rollout"] = max(0.0, best["roll_out"] - sum(spent.values()))
    spent |= {part: best[name] for part, name in _PHASE.items() if name in best}
    return {part: 1e6 * seconds / env_steps for part, seconds in spent.items()}


@click.command()
@click.argument("work", type=click.Choice(list(WORKS)))
@_settings
@click.option(
    "--speeds",
    type=click.File(encoding="utf-8"),
    help="A file of throughput --json: print the share that its medians reach.",
)
def roofline(work: str, settings: Settings, speeds: TextIO | None) -> None:
    """Env steps a second of a work if all cores were used perfectly.

    Each part is timed alone on one core; the sum, divided by the number of cores, is
    the time that an env step takes at least.
    """
    given = {"local": True, **settings}
    names = ["roll_out", *_ROLLOUT.values(), "learn"]
    names += ["insert", "draw"] if _has_replay(work) else []
    timed = _timed(work, given, names)
    spent = costs(timed["spans"], timed["env_steps"])
    total = sum(spent.values())
    rows = [["part", "µs of a core per env step", "share"]]
    rows += [[part, f"{t:.1f}", f"{t / total:.0%}"] for part, t in spent.items()]
    click.echo(markdown(rows))
    bound = 1e6 * available_cores() / total
    click.echo(f"\n{available_cores()} perfectly used cores: {bound:,.0f} env steps/s")
    for result in read(json.load(speeds)) if speeds else ():
        for column, runs in result.speeds.items() if result.work == work else ():
            median = statistics.median(runs)
            click.echo(f"{column}: {median:,.0f} env steps/s, {median / bound:.0%}")


def grid(axes: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """Yield every combination of settings; axes without values are left out."""
    used = {name: values for name, values in axes.items() if values}
    for values in itertools.product(*used.values()):
        yield dict(zip(used, values, strict=True))


def variants(
    names: Sequence[str], axes: Mapping[str, Sequence[Any]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every work with each combination of the settings that its agent has."""
    for name in names:
        algorithm, _ = WORKS[name].config()
        known = {each.name for each in train_options(algorithm.config)}
        own = {axis: values for axis, values in axes.items() if axis in known}
        yield from ((name, variant) for variant in grid(own))


@click.command()
@_works
@_settings
@click.option("--threads", type=click.IntRange(min=1), multiple=True)
@click.option("--jit", type=click.Choice(["auto", "on", "off"]), multiple=True)
@click.option("--precision", multiple=True, metavar="NAME")
@click.option("--batch", type=click.IntRange(min=1), multiple=True)
@click.option("--json", "file", type=click.File("w", encoding="utf-8", lazy=False))
def updates(
    names: tuple[str, ...],
    settings: Settings,
    threads: tuple[int, ...],
    jit: tuple[str, ...],
    precision: tuple[str, ...],
    batch: tuple[int, ...],
    file: TextIO | None,
) -> None:
    """Milliseconds of one learning phase, by learner threads × jit × precision.

    All of these, and batch sizes of a replay, are repeatable; every combination is
    measured in a process of its own. Default: 1 and all threads, with jit and without.
    The first phase includes tracing and compiling.
    """
    axes: dict[str, Sequence[Any]] = {
        "learner_threads": threads or sorted({1, available_cores()}),
        "jit": jit or ("off", "on"),
        "precision": precision,
        "buffer_batch_size": batch,
    }
    done = []
    heads = ["work", "settings", "updates", "ms per phase", "ms per update", "first, s"]
    click.echo(markdown([heads]))
    for name, variant in variants(names or list(WORKS), axes):
        own = {"local": True, **settings, **variant}
        try:
            timed = _timed(name, own, ["learn"], one_core=False)
        except click.ClickException as error:
            click.echo(f"{name} {variant}: {error.message.splitlines()[-1]}", err=True)
            continue
        done.append({"work": name, "settings": own, **timed})
        phase, count = timed["medians"]["learn"], timed["updates"]
        shown = ", ".join(f"{k}={v}" for k, v in variant.items()) or "–"
        row = [name, shown, str(count), _ms(timed["spans"]["learn"])]
        row += [f"{1e3 * phase / count:.3f}", f"{timed['first']:.1f}"]
        click.echo(f"| {' | '.join(row)} |")
    if file is not None:
        json.dump(done, file, indent=1)
        file.write("\n")


@click.command()
@_works
@_settings
def replay(names: tuple[str, ...], settings: Settings) -> None:
    """Transitions a second that a full replay inserts, and that it samples.

    And the milliseconds that 32 transitions take, 64 batches of 64, and, with --set
    prioritized=true, 1,000 priorities.
    """
    rows = [["work", "inserted/s", "sampled/s", *(f"{n}, ms" for n in _CALLS.values())]]
    given = {"local": True, **settings}
    calls = [n for n in _CALLS if n != "prioritize" or given.get("prioritized")]
    for name in names or filter(_has_replay, WORKS):
        timed = _timed(name, given, ["insert", "draw", *calls])
        inserted = timed["env_steps"] / timed["medians"]["insert"]
        sampled = timed["sampled"] / timed["medians"]["draw"]
        spans = timed["spans"]
        shown = [_ms(spans[part]) if part in spans else "–" for part in _CALLS]
        rows.append([name, f"{inserted:,.0f}", f"{sampled:,.0f}", *shown])
    click.echo(markdown(rows))


@click.command()
@_works
@_settings
def weights(names: tuple[str, ...], settings: Settings) -> None:
    """Milliseconds to publish a learner's weights, and to bind them to a policy."""
    rows = [["work", "MB", "publish, ms", "bind, ms"]]
    given = {"local": True, **settings}
    for name in names or WORKS:
        timed = _timed(name, given, ["publish", "bind"])
        spans = timed["spans"]
        size = f"{timed['weights_nbytes'] / 1e6:.2f}"
        rows.append([name, size, _ms(spans["publish"]), _ms(spans["bind"])])
    click.echo(markdown(rows))


def _ms(spans: Iterable[float]) -> str:
    """Format the median and the range in milliseconds."""
    found = sorted(1e3 * span for span in spans)
    return f"{statistics.median(found):.3f} ({found[0]:.3f}–{found[-1]:.3f})"
