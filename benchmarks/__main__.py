"""`python -m benchmarks`, from the root of a checkout."""

import json
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn, TextIO

import click

from benchmarks import alternated, commits, mutation
from benchmarks import capacity as prediction
from benchmarks import chart as charts
from benchmarks import cores as stepping
from benchmarks import driver as drivers_work
from benchmarks import gate as gates
from benchmarks import inputs as seen
from benchmarks import learning as learns
from benchmarks import memory as actor_memory
from benchmarks import predict as acting
from benchmarks import recording as records
from benchmarks import roofline as parts
from benchmarks import scaling as growth
from benchmarks import soak as long_run
from benchmarks import startup as beginning
from benchmarks import sums as shared
from benchmarks import throughput as speed
from benchmarks.report import (
    Result,
    joined,
    losses,
    markdown,
    read,
    report,
    table,
    write,
)
from benchmarks.summary import write_pictures
from benchmarks.works import MODES, WORKS, settings_option
from xagents_ray.core.errors import Stopped, UserError


def main() -> NoReturn:
    """Run the command line; a user's mistake exits with 2 and one sentence."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        cli(prog_name="python -m benchmarks")
    except UserError as error:
        click.echo(f"benchmarks: {error}", err=True)
        sys.exit(2)
    except Stopped:
        sys.exit(130)
    raise AssertionError("click exits by itself")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Measure xagents-ray on this machine."""


for each in (
    parts.roofline,
    parts.updates,
    parts.replay,
    parts.weights,
    stepping.cores,
    drivers_work.driver,
    prediction.capacity,
    learns.learning,
    gates.gate,
    seen.inputs,
    shared.sums,
):
    cli.add_command(each)
for each in (commits.same_numbers, alternated.same_speed, mutation.mutants):
    cli.add_command(each)


@cli.command()
@click.option(
    "--vs",
    "peers",
    multiple=True,
    metavar="PEER=PYTHON",
    help="Alternate with sb3 (Stable-Baselines3), sbx, rlox or contrib, run by the "
    "interpreter of an environment that has it, which benchmarks/peers.sh makes; "
    "repeatable.",
)
@click.option(
    "--work",
    "names",
    type=click.Choice(list(WORKS)),
    multiple=True,
    help="What to train; repeatable. Default: all.",
)
@click.option(
    "--mode",
    "modes",
    type=click.Choice(list(MODES)),
    multiple=True,
    help="How ours is run; repeatable. Default: what the work says.",
)
@click.option(
    "--runs",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="Runs of each library, mode and work.",
)
@click.option(
    "--steps",
    type=click.IntRange(min=1),
    help="Env steps of a run. Default: what the work says.",
)
@click.option(
    "--warmup",
    type=click.IntRange(min=0),
    help="Env steps before the measurement, which begins after the first learning "
    "phase in any case. Default: what the work says.",
)
@settings_option(
    "A setting beside the work's own, as n-envs=8 or vectorization=envpool; "
    "peers take those that they know too; repeatable."
)
@click.option(
    "--variant",
    "variants",
    multiple=True,
    metavar="NAME=VALUE,…",
    help="Run ours with these settings too, in turn with all others; repeatable.",
)
@click.option("--bare", is_flag=True, help="Leave out the works' own variants.")
@click.option(
    "--peer-vec",
    type=click.Choice(["dummy", "subproc"]),
    default="dummy",
    show_default=True,
    help="How peers step their environments.",
)
@click.option(
    "--peer-threads",
    type=click.IntRange(min=1),
    help="Threads of PyTorch in peers. Default: its own choice.",
)
@click.option(
    "--peer-device",
    type=click.Choice(["cpu", "cuda"]),
    default="cpu",
    show_default=True,
    help="Where Stable-Baselines3 trains; SBX takes a GPU where its JAX finds one.",
)
@click.option(
    "--peer-rollout",
    type=click.IntRange(min=1),
    help="Vector steps between two learning phases of off-policy peers, which have as "
    "many updates per env step as ours anyway. Default: those of ours, 16.",
)
@click.option(
    "--json",
    "file",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    help="Write every run's number and what it ran on here, after each run.",
)
def throughput(
    names: tuple[str, ...],
    file: Path | None,
    peers: tuple[str, ...],
    **others: Any,
) -> None:
    """Training env steps a second, after the first learning phase."""
    bench = speed.Bench(peers=speed.parse_peers(peers), **others)
    bench.warn()
    results: dict[str, Result] = {}
    for name in names or WORKS:
        for result in bench.rounds(name):
            results[name] = result
            if file is not None:
                write(file, report(bench.facts(), list(results.values())))
    click.echo(table(list(results.values())))


@cli.command()
@click.argument("files", type=click.File(encoding="utf-8"), nargs=-1, required=True)
@click.option(
    "--json",
    "file",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    help="Write the joined report here.",
)
def join(files: tuple[TextIO, ...], file: Path | None) -> None:
    """Join files of throughput --json, of the same commit, and print their table."""
    whole = joined([json.load(each) for each in files])
    click.echo(table(read(whole)))
    if file is not None:
        write(file, whole)


@cli.command()
@click.argument("stored", type=click.File(encoding="utf-8"))
@click.argument("picture", type=click.Path(path_type=Path, dir_okay=False))
def chart(stored: TextIO, picture: Path) -> None:
    """Draw a file of throughput --json as a picture, .svg or .png."""
    charts.draw(read(json.load(stored)), picture)


@cli.command()
@click.option(
    "--results",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    default=learns.RESULTS,
    show_default="docs/results",
    help="Has the numbers, and takes the pictures.",
)
def summary(results: Path) -> None:
    """Draw the results of `learning` as summary.svg, as `learning` itself does."""
    write_pictures(results)


@cli.command()
@click.argument("recorded", type=click.File(encoding="utf-8"))
@click.argument("now", type=click.File(encoding="utf-8"))
@click.option(
    "--tolerance",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.1,
    show_default=True,
    help="Share of a ratio that noise may take.",
)
def regress(recorded: TextIO, now: TextIO, tolerance: float) -> None:
    """Whether ratios to the peers have fallen, in two files of throughput --json.

    The exit code is 1 if any has. Ratios can be compared between machines only roughly.
    """
    fallen = losses(read(json.load(recorded)), read(json.load(now)), tolerance)
    click.echo("\n".join(fallen) or "No ratio has fallen.")
    sys.exit(bool(fallen))


@cli.command()
def memory() -> None:
    """Memory that one env actor with 8 Pong environments shares with nobody."""
    actor_memory.measure()


@cli.command()
@click.option("--agent", "agents", type=click.Choice(["ppo", "dqn"]), multiple=True)
@click.option("--actors", type=click.IntRange(min=1), multiple=True)
@click.option("--runs", type=click.IntRange(min=1), default=3, show_default=True)
@click.option(
    "--step-ms",
    type=click.FloatRange(0),
    default=10.0,
    show_default=True,
    help="Time that an environment sleeps in each step, ms.",
)
@click.option("--json", "file", type=click.File("w", encoding="utf-8", lazy=False))
def scaling(
    agents: tuple[str, ...],
    actors: tuple[int, ...],
    runs: int,
    step_ms: float,
    file: TextIO | None,
) -> None:
    """Env steps a second by number of env actors; default: 1, 8 and 32."""
    counts = actors or (1, 8, 32)
    done = growth.measure(agents or ("ppo", "dqn"), counts, runs, step_ms)
    if file is not None:
        json.dump([run._asdict() for run in done], file, indent=1)
        file.write("\n")


@cli.command()
@click.option("--runs", type=click.IntRange(min=1), default=3, show_default=True)
@click.option("--agent", default="ppo", show_default=True)
def startup(runs: int, agent: str) -> None:
    """Seconds until a command prints, steps and learns, with --local and on Ray.

    A second table has the parts of the start with --local.
    """
    events = [f"{event}, s" for event in beginning.EVENTS]
    click.echo(markdown([["mode", *events], *beginning.measure(agent, runs)]))
    parts = beginning.measure_parts(agent, runs)
    click.echo(markdown([["part, with --local", "seconds", "of CPU"], *parts]))


@cli.command()
@click.option("--runs", type=click.IntRange(min=1), default=5, show_default=True)
def predict(runs: int) -> None:
    """Seconds to load a policy of CartPole, and for 10,000 single actions of it."""
    click.echo(markdown([["what", "seconds"], *acting.measure(runs)]))


@cli.command()
@click.option("--runs", type=click.IntRange(min=1), default=3, show_default=True)
def recording(runs: int) -> None:
    """Share of a run that history, TensorBoard, display and checkpoints take."""
    click.echo(
        markdown([["work", "seconds", *records.PARTS, "all"], *records.measure(runs)])
    )


@cli.command()
@click.option("--minutes", type=click.FloatRange(min=2), default=10, show_default=True)
@click.option(
    "--sleepers",
    type=click.IntRange(min=0),
    default=0,
    help="Env actors of PPO, whose environments sleep 40 ms in each step; 0 runs DQN.",
)
@click.option("--json", "file", type=click.File("w", encoding="utf-8", lazy=False))
def soak(minutes: float, sleepers: int, file: TextIO | None) -> None:
    """Memory of DQN on Pong with 4 env actors and a full replay, or of PPO."""
    rows = long_run.measure(minutes, sleepers)
    if file is not None:
        json.dump(rows, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
