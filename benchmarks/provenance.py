"""Where results come from: the commit, the sources and the settings of a training."""

import ast
import functools
import hashlib
import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.subprocesses import ROOT
from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.core.errors import UserError
from xagents_ray.run.request import Request
from xagents_ray.settings.options import options

_WRITTEN = ("docs/results", "docs/results.md", "benchmarks/results/gate")
"""What `python -m benchmarks learning` and `gate` write themselves."""
_SOURCES = ("xagents_ray", "actors", "learners", "cluster")
_ROOMS = ("learners", "replay")
_PER_RUN = ("run", "display")
"""Groups of settings that don't affect what is learned."""


def clean_commit(root: Path = ROOT) -> str:
    """Return the commit of a checkout without changes, 40 hexadecimal digits.

    Results that `python -m benchmarks learning` and `gate` write may have changed.

    Raises:
        UserError: it is no checkout, or files have uncommitted changes.
    """
    try:
        commit = _git(root, "rev-parse", "HEAD").strip()
    except (OSError, subprocess.CalledProcessError):
        raise UserError(
            f"{root} is no git checkout with a commit: results name the commit that "
            "they are from, so clone the repository."
        ) from None
    others = [f":(top,exclude){path}" for path in _WRITTEN]
    changes = _git(root, "status", "--porcelain", "--", ":(top)", *others).splitlines()
    if changes:
        more = f" and {len(changes) - 1} more" if changes[1:] else ""
        raise UserError(
            f"{changes[0][3:]}{more} isn't committed: results name the commit that "
            "they are from, so commit or stash the changes first."
        )
    return commit


@functools.cache
def source_digest(commit: str, root: Path = ROOT) -> str:
    """Return a digest of the sources that train, as they are in a commit."""
    trees = [f"{commit}:{folder}" for folder in _SOURCES]
    return hashlib.sha256(_git(root, "rev-parse", *trees).encode()).hexdigest()


def resolved_settings(agent: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return all settings that affect what a run learns, as JSON data by flat name.

    Files of networks are named with a digest of their content. The seed is left out.

    Args:
        agent: name of the algorithm.
        given: settings by flat name, such as `env` and `preset`.
    Raises:
        UserError: a setting is invalid.
    """
    algorithm = find_algorithm(agent)
    groups = Request.of(algorithm, given, needs_end=False).config.groups()
    found = {
        name: value
        for group, values in groups.items()
        if group not in _PER_RUN
        for name, value in values.items()
        if name != "seed"
    }
    for each in options(algorithm.config):
        if each.is_path and found[each.name] is not None:
            path = Path(found[each.name])
            found[each.name] = f"{path.name} {_digest(path.read_bytes())}"
    plain: dict[str, Any] = json.loads(json.dumps(found, sort_keys=True))
    return plain


def settings_digest(resolved: Mapping[str, Any]) -> str:
    """Return a digest of the result of `resolved_settings`, 16 hexadecimal digits."""
    return _digest(json.dumps(resolved, sort_keys=True).encode())


@functools.cache
def has_changed(commit: str, agent: str, root: Path = ROOT) -> bool | None:
    """Return whether an agent's learner or replay has changed since a commit.

    None if the clone lacks the commit.
    """
    files = [str(path) for path in learning_sources(agent)]
    words = ["git", "diff", "--quiet", commit, "HEAD", "--", *files]
    code = subprocess.run(words, cwd=root, capture_output=True).returncode
    return {0: False, 1: True}.get(code)


@functools.cache
def learning_sources(agent: str) -> tuple[Path, ...]:
    """Return the sources of an agent's learner and replay, relative to the checkout.

    They include what these import from `learners/` and `xagents_ray/replay/`.
    """
    row = find_algorithm(agent)
    places = (row.learner, row.replay)
    modules = [x.partition(":")[0] for x in places if isinstance(x, str)]
    found: set[Path] = set()
    while modules:
        path = _source(modules.pop())
        if path is not None and path not in found:
            found.add(path)
            modules += _imported(path)
    return tuple(sorted(found))


def _source(module: str) -> Path | None:
    """Return the file of a module of `learners/` or `replay/`; None for any other."""
    _, *parts = module.split(".")
    if not parts or parts[0] not in _ROOMS:
        return None
    folder = Path() if parts[0] == "learners" else Path("xagents_ray")
    path = folder.joinpath(*parts).with_suffix(".py")
    return path if (ROOT / path).is_file() else None


def _imported(path: Path) -> Iterator[str]:
    """Yield the names that a file imports from modules: `a.b` and `a.b.name`."""
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", *words], cwd=root, capture_output=True, text=True, check=True
    )
    return done.stdout


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
