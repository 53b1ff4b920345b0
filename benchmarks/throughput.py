"""Training throughput: runs of xagents-ray and its peers in turn."""

import dataclasses
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from benchmarks.report import OURS, Result
from benchmarks.subprocesses import ROOT, in_fresh_process, module
from benchmarks.works import MODES, PEERS, WORKS, Settings, Work, parse_settings
from xagents_ray.core.errors import UserError
from xagents_ray.networks.layers import Convolutional, Dense
from xagents_ray.networks.layout import Layout
from xagents_ray.run.prepare import prepare_run

_SCRIPTS = {"rlox": "peer_rlox.py"}
_QUIET = 0.3
"""Maximum load of an idle machine."""


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Configuration of a measurement.

    Attributes:
        peers: interpreter of each peer's environment, by the peer's name.
        runs: number of runs of each library and mode.
        steps: env steps of a run; None for the work's.
        warmup: env steps before the measurement; None for the work's.
        settings: settings of all libraries in addition to the works'.
        modes: modes of our library; if empty, those of the work.
        variants: additional settings of further runs of ours, beside the works'
            variants and the runs without any.
        bare: whether the works' variants are left out.
        peer_vec: `dummy` or `subproc`, how peers step environments.
        peer_threads: PyTorch threads in a peer; None for its default.
        peer_device: `cpu` or `cuda`, where Stable-Baselines3 trains.
        peer_rollout: vector steps between two learning phases of off-policy peers; None
            for the same as ours.
        load: load average (1 min) before the first run.
    """

    peers: Mapping[str, str]
    runs: int
    steps: int | None = None
    warmup: int | None = None
    settings: Settings = field(default_factory=dict)
    modes: Sequence[str] = ()
    variants: Sequence[str] = ()
    bare: bool = False
    peer_vec: str = "dummy"
    peer_threads: int | None = None
    peer_device: str = "cpu"
    peer_rollout: int | None = None
    load: float = field(default_factory=lambda: round(os.getloadavg()[0], 2))

    def warn(self) -> None:
        """Warn if the machine is busy."""
        if self.load > _QUIET:
            click.echo(
                f"This machine is busy (load {self.load}): numbers will be low, and "
                "PyTorch's the lowest, for its threads wait for each other.",
                err=True,
            )

    def rounds(self, name: str) -> Iterator[Result]:
        """Run a work with each library and in each mode in turn, `runs` times.

        Yields the result with all numbers so far after each run.
        """
        work, commands = WORKS[name], self._commands(name)
        result = Result(name, work.title, {each: [] for each in commands})
        for number in range(1, self.runs + 1):
            for column, command in commands.items():
                run = _run(command)
                result.add(column, run)
                speed = f"{result.speeds[column][-1]:,.0f} env steps/s"
                click.echo(f"{name} {column} {number}/{self.runs}: {speed}", err=True)
                yield result

    def _commands(self, name: str) -> dict[str, list[str]]:
        """Return the command for each column."""
        work = WORKS[name]
        steps, warmup = self.steps or work.steps, self._warmup(work)
        if steps <= warmup:
            raise UserError(
                f"{name} is measured after {warmup:,} env steps: raise --steps."
            )
        shared = {**self.settings, "max_steps": steps}
        commands = {}
        own_variants = () if self.bare else work.variants
        for variant in dict.fromkeys(("", *own_variants, *self.variants)):
            own = parse_settings(variant.split(",")) if variant else {}
            for mode in self.modes or work.modes:
                settings = {**shared, **MODES[mode], **own}
                work.config(**settings)  # raises for invalid settings before any run
                asked = {"work": name, "warmup": warmup, "settings": settings}
                column = " ".join(filter(None, (OURS, mode, variant)))
                commands[column] = module("one_run", asked)
        for peer, python in self.peers.items():
            if peer in work.peers:
                words = json.dumps(self._asked(peer, work, shared))
                script = str(ROOT / "benchmarks" / _SCRIPTS.get(peer, "peer.py"))
                commands[peer] = [python, "-I", script, words]
        return commands

    def _warmup(self, work: Work) -> int:
        return work.warmup if self.warmup is None else self.warmup

    def _asked(self, peer: str, work: Work, shared: Settings) -> dict[str, Any]:
        """Return the argument of the peer's script."""
        run = prepare_run(*work.config(**shared))
        return {
            "library": peer,
            "agent": work.agent,
            "settings": run.config.values(),
            "network": _network(run.layout),
            "steps": run.config.training.max_steps,
            "warmup": self._warmup(work),
            "vec": self.peer_vec,
            "threads": self.peer_threads,
            "device": self.peer_device,
            "rollout": self.peer_rollout,
        }

    def facts(self) -> dict[str, Any]:
        """Return the configuration as JSON data, without the peers' paths."""
        return dataclasses.asdict(self) | {"peers": list(self.peers)}


def parse_peers(texts: Sequence[str]) -> dict[str, str]:
    """Parse strings like `sb3=PYTHON`; return the interpreters by the peers' names.

    Raises:
        UserError: a name is unknown, or an interpreter doesn't exist.
    """
    peers = {}
    for text in texts:
        name, _, python = text.partition("=")
        if name not in PEERS:
            raise UserError(f"--vs takes one of {', '.join(PEERS)}, got {name!r}.")
        if not os.access(python, os.X_OK) or os.path.isdir(python):
            raise UserError(
                f"--vs {name}=PYTHON needs the interpreter of an environment that has "
                "it: benchmarks/peers.sh DIR makes one."
            )
        peers[name] = os.path.abspath(python)
    return peers


def _network(layout: Layout) -> dict[str, Any]:
    """Return the units of a network's hidden dense layers, and their activation."""
    hidden = [
        layer
        for i, layer in enumerate(layout.layers)
        if isinstance(layer, Dense)
        and not isinstance(layer, Convolutional)
        and i not in layout.outputs
    ]
    return {
        "units": [layer.kernel_shape[-1] for layer in hidden],
        "activation": hidden[0].activation,
    }


def _run(command: Sequence[str]) -> dict[str, Any]:
    run = in_fresh_process(command)
    if not run["env_steps"]:
        raise click.ClickException(
            "A run had fewer than two learning phases to measure: raise --steps."
        )
    return run
