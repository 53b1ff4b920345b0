"""Predicts env steps per second with many env actors, from measured costs."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import click

_BITS = 8
_COUNT = click.IntRange(1)
_COST = click.FloatRange(0)
_POSITIVE = click.FloatRange(0, min_open=True)


class Costs(NamedTuple):
    """What the parts of a run cost; seconds, unless another unit is named.

    Attributes:
        row: all environments of an env actor step once, with the choice of actions.
        row_cpu: part of `row` that occupies a core.
        phase: a learning phase, without what depends on its size.
        step: duration that each env step adds to a learning phase.
        rollout: the driver's work for a rollout, with Ray's calls.
        step_nbytes: bytes of an env step in a trajectory.
        weights_nbytes: bytes of the weights of one version.
    """

    row: float
    row_cpu: float
    phase: float
    step: float
    rollout: float
    step_nbytes: float
    weights_nbytes: float


class Shape(NamedTuple):
    """How a run is laid out.

    Attributes:
        actors: number of env actors.
        envs: environments per env actor.
        rows: env steps of each environment in a rollout.
        nodes: number of nodes with env actors.
        cores: cores of each of these nodes.
        gigabits: speed of the link of the learner's node, Gb/s.
    """

    actors: int
    envs: int
    rows: int
    nodes: int = 1
    cores: int = 2
    gigabits: float = 10.0


def predict(costs: Costs, shape: Shape) -> dict[str, float]:
    """Return the env steps per second that each part of a run could reach alone.

    With a policy lag all parts work at the same time, and the smallest one decides. All
    env actors return a rollout in each learning phase.
    """
    steps = shape.actors * shape.envs * shape.rows
    busy = shape.actors * costs.row_cpu / (shape.nodes * shape.cores)
    sent = steps * costs.step_nbytes + shape.nodes * costs.weights_nbytes
    seconds = {
        "environments": shape.rows * costs.row,
        "cores": shape.rows * busy,
        "driver": shape.actors * costs.rollout,
        "learner": costs.phase + steps * costs.step,
        "link": sent * _BITS / (shape.gigabits * 1e9) if shape.nodes > 1 else 0.0,
    }
    return {part: steps / spent for part, spent in seconds.items() if spent}


def _option(name: str, kind: click.ParamType, default: float, text: str) -> Any:
    """Return an option with a default."""
    return click.option(
        f"--{name}", type=kind, default=default, show_default=True, help=text
    )


@click.command()
@click.option(
    "--actors",
    multiple=True,
    type=click.IntRange(1),
    default=(8, 32, 128, 1_000, 4_000),
    show_default=True,
    help="Number of env actors; repeatable.",
)
@_option("envs", _COUNT, 4, "Environments of each env actor.")
@_option("rows", _COUNT, 128, "Env steps of each environment in a rollout.")
@_option("nodes", _COUNT, 1, "Nodes with env actors.")
@_option("cores", _COUNT, 2, "Cores of each of these nodes.")
@_option("gigabits", _POSITIVE, 10.0, "Link of the learner's node, Gb/s.")
@click.option(
    "--row-ms",
    type=_POSITIVE,
    required=True,
    help="An env actor's step of all its environments, ms.",
)
@_option("row-cpu-ms", _COST, 0.0, "CPU time of such a step, ms.")
@_option("phase-ms", _COST, 0.0, "A learning phase, apart from its env steps, ms.")
@_option("step-us", _COST, 0.0, "Each env step of a learning phase, µs.")
@_option("rollout-ms", _COST, 0.5, "The driver's work for a rollout, ms.")
@_option("step-bytes", _COST, 0.0, "An env step in a trajectory, bytes.")
@_option("weights-mb", _COST, 0.0, "The weights, MB.")
def capacity(
    actors: Sequence[int],
    envs: int,
    rows: int,
    nodes: int,
    cores: int,
    gigabits: float,
    row_ms: float,
    row_cpu_ms: float,
    phase_ms: float,
    step_us: float,
    rollout_ms: float,
    step_bytes: float,
    weights_mb: float,
) -> None:
    """Predict env steps a second from measured costs; docs/scaling.md has some."""
    costs = Costs(
        row=row_ms / 1e3,
        row_cpu=row_cpu_ms / 1e3,
        phase=phase_ms / 1e3,
        step=step_us / 1e6,
        rollout=rollout_ms / 1e3,
        step_nbytes=step_bytes,
        weights_nbytes=weights_mb * 1e6,
    )
    click.echo("| env actors | env steps/s | limited by | of linear |")
    click.echo("|---|---|---|---|")
    for count in actors:
        speeds = predict(costs, Shape(count, envs, rows, nodes, cores, gigabits))
        part, speed = min(speeds.items(), key=lambda item: item[1])
        share = speed / speeds["environments"]
        click.echo(f"| {count} | {speed:,.0f} | {part} | {share:.0%} |")
