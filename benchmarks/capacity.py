"""Predicts env steps per second with many env actors, from measured costs."""

from collections.abc import Sequence
from typing import NamedTuple

import click

_BITS = 8


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


@click.command()
@click.option(
    "--actors",
    multiple=True,
    type=click.IntRange(1),
    default=(8, 32, 128, 1_000, 4_000),
    show_default=True,
    help="Number of env actors; repeatable.",
)
@click.option("--envs", default=4, show_default=True, help="Environments of each.")
@click.option("--rows", default=128, show_default=True, help="Env steps of a rollout.")
@click.option("--nodes", default=1, show_default=True, help="Nodes with env actors.")
@click.option("--cores", default=2, show_default=True, help="Cores of each node.")
@click.option("--gigabits", default=10.0, show_default=True, help="The link, Gb/s.")
@click.option("--row-ms", required=True, type=float, help="A step of an env actor.")
@click.option("--row-cpu-ms", default=0.0, show_default=True, help="What a core does.")
@click.option("--phase-ms", default=0.0, show_default=True, help="A learning phase.")
@click.option("--step-us", default=0.0, show_default=True, help="Each env step in it.")
@click.option("--rollout-ms", default=0.5, show_default=True, help="The driver's work.")
@click.option("--step-bytes", default=0.0, show_default=True, help="An env step.")
@click.option("--weights-mb", default=0.0, show_default=True, help="The weights.")
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
