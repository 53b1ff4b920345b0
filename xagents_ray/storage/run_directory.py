"""A run's directory: its settings, starts and summary."""

import hashlib
import importlib.metadata
import json
import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import yaml

from xagents_ray.core.errors import UserError, did_you_mean, has_controls, printable
from xagents_ray.core.files import open_regular, replace_bytes
from xagents_ray.core.parsing import parse_json, parse_yaml, read_bounded
from xagents_ray.core.version import __version__
from xagents_ray.storage import migrations

_CONFIG, _STARTS, _SUMMARY = "config.yaml", "run.json", "summary.json"
_LARGEST = 1 << 20  # maximum size of config.yaml, in bytes
_LARGEST_JSON = 1 << 22  # of the other files
_T = TypeVar("_T")
_PACKAGES = ("tensorflow", "keras", "ray", "gymnasium", "ale-py", "numpy")


class RunDirectory:
    """`RUNS/<agent>/<env>/<name>/`, with its checkpoints and history of episodes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.history = path / "history.parquet"

    @classmethod
    def create(
        cls, run_dir: str, agent: str, env: str, name: str | None, seed: int
    ) -> "RunDirectory":
        """Create the directory of a new run.

        Args:
            run_dir: directory of all runs.
            agent: name of the agent.
            env: name of the environment.
            name: name of the run; None for the time and the seed.
            seed: seed of the run.
        Raises:
            UserError: it already exists, or can't be created.
        """
        own_name = name or f"{time.strftime('%Y%m%d-%H%M%S')}-seed{seed}"
        above = Path(run_dir) / agent / env.replace("/", "-").replace(":", "-")
        try:
            above.mkdir(parents=True, exist_ok=True)
            path, number = above / own_name, 1
            while True:
                try:
                    path.mkdir()
                    return cls(path)
                except FileExistsError:
                    if name is not None:
                        raise UserError(
                            f"{path} already exists: resume it with "
                            f"--resume {cls(path).quoted}, or choose another --name."
                        ) from None
                number += 1
                path = above / f"{own_name}-{number}"
        except OSError as error:
            raise UserError(
                f"--run-dir {run_dir}: the directory of the run can't be "
                f"made there ({error.strerror}); name one that can be written."
            ) from None

    @property
    def has_started(self) -> bool:
        """Whether a run has been started here."""
        return (self.path / _STARTS).exists()

    @property
    def quoted(self) -> str:
        """The path, quoted for a shell."""
        return shlex.quote(str(self.path))

    def begin(
        self,
        agent: str,
        seed: int,
        groups: Mapping[str, Mapping[str, Any]],
        copies: Mapping[str, bytes],
    ) -> None:
        """Write the settings, and append this start; OSError if that fails.

        The summary of an earlier session is deleted.

        Args:
            agent: name of the agent.
            seed: seed of the run.
            groups: settings by name, in their groups.
            copies: contents of files that settings name, in case the user changes them,
                by setting and ending.
        """
        (self.path / _SUMMARY).unlink(missing_ok=True)
        for name, content in copies.items():
            replace_bytes(self.path / name, content)
        whole = {"format": migrations.newest_format(), "agent": agent, **groups}
        plain = json.loads(json.dumps(whole))
        data = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True).encode()
        replace_bytes(self.path / _CONFIG, _digest(data) + data)
        start = {
            "command": shlex.join(sys.argv),
            "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "seed": seed,
            "commit": _commit(),
            "versions": _versions(),
        }
        text = json.dumps([*self.starts(), start], indent=2)
        replace_bytes(self.path / _STARTS, text.encode())

    def starts(self) -> list[dict[str, Any]]:
        """Return the starts and resumptions of the run; [] if the file is lost."""
        found: list[Any] = _read_json(self.path / _STARTS, [])
        return [each for each in found if isinstance(each, dict)]

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Write the summary of the run's end; OSError if that fails."""
        whole = {"format": migrations.newest_format(), **summary}
        replace_bytes(self.path / _SUMMARY, json.dumps(whole, indent=2).encode())

    def summary(self) -> dict[str, Any]:
        """Return the summary of the run's end; {} before the end, or if it is lost.

        Raises:
            UserError: a newer version of the package wrote it.
        """
        path = self.path / _SUMMARY
        values: dict[str, Any] = _read_json(path, {})
        try:
            later = migrations.migrations_from(values.pop("format", 1), path)
        except migrations.NewerFormatError as error:
            raise UserError(f"{error}.") from None
        except ValueError:  # damaged
            return {}
        for migration in later:
            values = migration.summary(values)
        return values

    def settings(self) -> tuple[str, dict[str, Any]]:
        """Return the agent and the settings by their flat names.

        Raises:
            UserError: they can't be read.
        """
        path = self.path / _CONFIG
        try:
            with open_regular(path) as file:
                digest, data = file.readline(_LARGEST), file.read(_LARGEST)
            if digest != _digest(data):
                raise ValueError  # its paths can't be trusted
            found = parse_yaml(data.decode())
            later = migrations.migrations_from(found.pop("format", 1), path)
            agent = found.pop("agent")
            values = {
                key: tuple(value) if isinstance(value, list) else value
                for group in found.values()
                for key, value in group.items()
            }
            if not values or any(map(has_controls, (agent, *values))):
                raise ValueError
            for migration in later:
                values = migration.settings(agent, values)
        except migrations.NewerFormatError as error:
            raise UserError(f"{error}.") from None
        except OSError as error:
            raise UserError(
                f"{self.path} is not a run's directory ({_CONFIG}: {error.strerror}); "
                "name one that holds config.yaml."
            ) from None
        except Exception:
            raise UserError(
                f"{path} was edited or damaged: restore it, or begin a new run with "
                "the --weights of this one."
            ) from None
        for copy in (*self.path.glob("*.cfg"), *self.path.glob("*.keras")):
            if values.get(copy.stem) is not None:
                values[copy.stem] = str(copy)
        return agent, values


def _read_json(path: Path, default: _T) -> _T:
    """Return the contents of a JSON file; the default if damaged or another type."""
    try:
        found = _printable(parse_json(read_bounded(path, _LARGEST_JSON)))
    except (OSError, ValueError):
        return default
    return found if isinstance(found, type(default)) else default


def _printable(value: Any) -> Any:
    """Return JSON with control characters in texts escaped."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [_printable(each) for each in value]
    if isinstance(value, dict):
        return {printable(name): _printable(each) for name, each in value.items()}
    return value


def run_directories(folder: Path) -> list[RunDirectory]:
    """Return the directories of all runs below a folder, by their paths."""
    found = [path.parent for path in sorted(folder.rglob(_CONFIG))]
    return [RunDirectory(path) for path in found if (path / _STARTS).exists()]


def _digest(data: bytes) -> bytes:
    """Return the first line of the settings file, a checksum of the rest."""
    return f"# sha256 {hashlib.sha256(data).hexdigest()}\n".encode()


def locate_run(
    flag: str, named: str, run_dir: str, agent: str | None
) -> tuple[RunDirectory, Path | None]:
    """Return the run directory that a flag names, and the checkpoint if it names one.

    `named` is a run's directory, one of its checkpoints, or `last`: the run in
    `run_dir` that was started or resumed last, by `agent` if it is not None. Runs
    without an episode or a checkpoint count only if there are no others.

    Raises:
        UserError: the directory doesn't exist.
    """
    if not isinstance(named, str):
        raise UserError(
            f"{flag} takes the directory of a run, or last, got {named!r:.80}: name "
            "one of them."
        )
    if named == "last":
        above = Path(run_dir), *Path(run_dir).glob("seeds/*")  # with several seeds
        found = [p for x in above for p in x.glob(f"{agent or '*'}/*/*/{_STARTS}")]
        if not found:
            whose = f" of {agent}" if agent else ""
            raise UserError(
                f"There is no run{whose} in {run_dir}: name its directory, or the "
                "right --run-dir."
            )
        runs = [RunDirectory(path.parent) for path in found]
        begun = [x for x in runs if x.history.exists() or any(x.checkpoints.glob("*"))]
        newest = max(
            begun or runs, key=lambda run: (run.path / _STARTS).stat().st_mtime_ns
        )
        return newest, None
    path = Path(named)
    if not os.path.isdir(path):  # Path.is_dir raises without permission
        raise UserError(f"{flag} {named}: there is no such directory{_nearest(path)}")
    if path.parent.name == "checkpoints":
        return RunDirectory(path.parent.parent), path
    return RunDirectory(path), None


def _nearest(path: Path) -> str:
    """Return advice for the path of a run that doesn't exist."""
    try:
        others = [each.name for each in path.parent.iterdir() if each.is_dir()]
    except OSError:
        others = []
    texts = {name: str(path.with_name(name)) for name in others}
    if path.parent == Path():
        texts["last"] = "last"
    hint = did_you_mean(path.name, texts, texts)
    return hint or "; name a run's, or last."


def _versions() -> dict[str, str]:
    versions = {"xagents-ray": __version__, "python": platform.python_version()}
    for name in _PACKAGES:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


def _commit() -> str | None:
    """Return the working directory's git commit, with + if there are changes."""

    def git(*words: str) -> str:
        done = subprocess.run(
            ["git", *words], capture_output=True, text=True, timeout=5, check=True
        )
        return done.stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None
