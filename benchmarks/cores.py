"""Times an env step of Pong on a core, alone and beside busy ones.

An env actor with its environments is a process of its own, as on Ray. Processes begin
each part of an env step at the same time.
"""

import os
import resource
import statistics
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from benchmarks.parts import ActingParts, repeat
from benchmarks.report import markdown, ran_on, write
from benchmarks.works import WORKS
from xagents_ray.algorithms.run_spec import RunSpec
from xagents_ray.core.errors import UserError
from xagents_ray.core.trajectory import Weights
from xagents_ray.run.prepare import prepare_run

_STEPS = 16
"""Steps of each environment in a call of a part."""
_SIZE = 512
"""Rows and columns of the matrices whose product is timed."""
_LONGEST = 300.0
"""Seconds that a process waits for the others, one of which may have failed."""
_TOPOLOGY = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
_start: Any = None
"""Barrier of the processes of a case."""


class Case(NamedTuple):
    """Processes that are busy at the same time."""

    title: str
    cores: Sequence[set[int]]  # those that each process may use
    threads: int = 1  # of the environments and of matrix products in each process


def cases(cores: Sequence[int], siblings: Sequence[str]) -> Iterator[Case]:
    """Yield the cases for a machine.

    Args:
        cores: numbers of the cores that this process may use.
        siblings: for each of them, a text that is the same for the hardware threads of
            one physical core.
    """
    every, pinned, half = set(cores), [{core} for core in cores], len(cores) // 2
    yield Case("one process on one core", pinned[:1])
    yield Case("one process on any core", [every])
    if half:
        threads = min(4, len(cores))
        yield Case(f"one process, {threads} threads", [every], threads)
        # Their cores may share a physical one, whatever the machine says of it.
        yield Case("two processes, neighboring cores", pinned[:2])
        yield Case("two processes, half of the cores apart", [pinned[0], pinned[half]])
        pairs = zip(siblings[::-1], cores[::-1], strict=True)
        physical = [{core} for core in sorted(dict(pairs).values())]
        if len(physical) < len(cores):
            yield Case("one process per physical core", physical)
        yield Case("one process per core", pinned)
        yield Case("one process per core, on any core", [every] * len(cores))


def _siblings(core: int) -> str:
    try:
        return Path(_TOPOLOGY.format(core)).read_text(encoding="utf-8").strip()
    except OSError:
        return str(core)


def _weights(run: RunSpec) -> Weights:
    """Return random weights, as a learner's would need TensorFlow."""
    algorithm, config = run.algorithm, run.config.algorithm
    extras = algorithm.extras(algorithm.models[0], config, run.spec)
    draw = np.random.default_rng(run.seed).standard_normal
    shapes = run.layout.shapes | extras
    return Weights(1, {k: 0.05 * draw(v, np.float32) for k, v in shapes.items()})


def _product() -> Callable[[], Any]:
    matrix = np.ones((_SIZE, _SIZE), np.float32)
    return lambda: matrix @ matrix


def _use(barrier: Any) -> None:
    global _start
    _start = barrier


def _time_parts(
    cores: set[int], threads: int, n_envs: int, seconds: float
) -> dict[str, float]:
    """Return microseconds per env step of each part, and GFLOP/s, in one process.

    `switches` is how often a thread waits while the environments step once, which shows
    threads that hand work to each other.
    """
    os.sched_setaffinity(0, cores)
    work = WORKS["ppo-pong"]
    given = work.config(n_envs=n_envs, n_steps=_STEPS, local=True)
    run = replace(prepare_run(*given), threads=threads)
    parts = ActingParts(run, _weights(run))
    threadpool_limits(threads, user_api="blas")
    calls: dict[str, Callable[[], Any]] = {
        "stepping": parts.stepper(),
        "acting": parts.actor(),
        "rollout": parts.roll_out,
        "product": _product(),
    }
    spans, switches = dict[str, float](), dict[str, float]()
    for name, call in calls.items():
        _start.wait()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
        done = repeat(call, seconds)
        after = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
        spans[name] = statistics.median(done)
        switches[name] = (after - before) / (len(done) + 1)
    product = spans.pop("product")
    each = {k: 1e6 * v / (n_envs * _STEPS) for k, v in spans.items()}
    each["gflops"] = 2e-9 * _SIZE**3 / product
    return each | {"switches": switches["stepping"] / _STEPS}


def _measure(case: Case, n_envs: Sequence[int], seconds: float) -> list[dict[str, Any]]:
    """Return medians over the processes of a case, for each number of environments."""
    context, found = get_context("spawn"), list[dict[str, Any]]()
    barrier = context.Barrier(len(case.cores), timeout=_LONGEST)
    with ProcessPoolExecutor(len(case.cores), context, _use, (barrier,)) as pool:
        for count in n_envs:
            calls = [
                pool.submit(_time_parts, cores, case.threads, count, seconds)
                for cores in case.cores
            ]
            each = [call.result() for call in calls]
            medians = {k: statistics.median(one[k] for one in each) for k in each[0]}
            sizes = {"processes": len(case.cores), "threads": case.threads}
            found.append({"case": case.title, **sizes, "n_envs": count, **medians})
    return found


@click.command()
@click.option(
    "--n-envs",
    type=click.IntRange(min=1),
    multiple=True,
    help="Environments of each process; repeatable. Default: 1, 2 and 8.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(min=0),
    default=0.25,
    show_default=True,
    help="Time to repeat each part.",
)
@click.option(
    "--json",
    "file",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    help="Write the numbers, the cores and the BLAS library here, after each case.",
)
def cores(n_envs: tuple[int, ...], seconds: float, file: Path | None) -> None:
    """Microseconds of an env step of Pong by part, alone and beside busy cores.

    Whether physical cores, their hardware threads, threads of the environments or
    matrix products make it slow.
    """
    if not hasattr(os, "sched_setaffinity"):
        raise UserError("`cores` chooses cores for processes, which needs Linux.")
    usable = sorted(os.sched_getaffinity(0))
    siblings = [_siblings(core) for core in usable]
    facts = {**ran_on(), "siblings": siblings, "blas": threadpool_info()}
    rows: list[dict[str, Any]] = []
    heads = ["case", "environments", "stepping, µs", "acting, µs", "rollout, µs"]
    click.echo(markdown([[*heads, "GFLOP/s", "waits per step"]]))
    for case in cases(usable, siblings):
        for row in _measure(case, n_envs or (1, 2, 8), seconds):
            rows.append(row)
            parts = (row[k] for k in ("stepping", "acting", "rollout", "gflops"))
            cells = [f"{x:,.0f}" for x in parts] + [f"{row['switches']:.1f}"]
            click.echo(f"| {case.title} | {row['n_envs']} | {' | '.join(cells)} |")
        if file is not None:
            write(file, {**facts, "rows": rows})
