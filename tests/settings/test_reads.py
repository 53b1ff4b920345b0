"""Every option is read by code that acts on it."""

import ast
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import python

from xagents_ray.algorithms.table import ALGORITHMS
from xagents_ray.policy.loading import SourceConfig
from xagents_ray.settings.algorithm import groups_of
from xagents_ray.settings.config import GROUPS
from xagents_ray.settings.episodes import EvaluateConfig, PlayConfig
from xagents_ray.settings.options import Option, options
from xagents_ray.tuning.plan import TuneConfig

ROOT = Path(__file__).resolve().parents[2]
READ = re.compile(r'"(\w+)"(?: of "[^"]+")? has no attribute "(\w+)"')
CONFIGS = {
    *GROUPS.values(),
    *(row.config for row in ALGORITHMS.values()),
    TuneConfig,
    SourceConfig,
    PlayConfig,
    EvaluateConfig,
}
OPTIONS = [
    pytest.param(config, option, id=f"{config.__name__}.{option.name}")
    for config in sorted(CONFIGS, key=lambda config: config.__name__)
    for option in options(config)
]
# The classes of each config's settings: its own, its parents', and its groups'.
OWNERS = {
    config: {
        each.__name__
        for owner in (config, *groups_of(config))
        for each in owner.__mro__
    }
    for config in CONFIGS
}
DECLARING = set().union(*OWNERS.values())
NAMES = {option.name for config in CONFIGS for option in options(config)}
# A row names the option that holds a network's file, and `given["resume"]` is read
# before there is a config.
NAMED = {model.file for row in ALGORITHMS.values() for model in row.models} | {"resume"}


def left_out(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the declarations of options, and the methods that only check them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name in DECLARING:
            for each in node.body:
                is_field = isinstance(each, ast.AnnAssign)
                if is_field and ast.unparse(each.target) in NAMES:
                    yield each
        elif isinstance(node, ast.FunctionDef):
            if node.name == "__post_init__" or re.match("_?check_", node.name):
                yield node


@pytest.fixture(scope="module")
def reads(tmp_path_factory: pytest.TempPathFactory) -> set[tuple[str, str]]:
    """Return the class and the name of each option that is read.

    mypy checks a copy of the package in which configs have no fields: every read of
    one is an error, whatever the variable is called that holds the config.
    """
    copy = tmp_path_factory.mktemp("copy")
    for room in ("xagents_ray", "actors", "learners", "cluster"):
        place = copy / "xagents_ray" / ("" if room == "xagents_ray" else room)
        shutil.copytree(ROOT / room, place, dirs_exist_ok=True)
    for path in copy.rglob("*.py"):
        text = path.read_text("utf-8")
        if DECLARING.intersection(re.findall(r"^class (\w+)", text, re.M)):
            lines = text.splitlines()
            for node in left_out(ast.parse(text)):
                for i in range(node.lineno - 1, node.end_lineno or 0):
                    lines[i] = ""
            path.write_text("\n".join(lines), "utf-8")
    flags = ["--follow-imports=skip", "--no-incremental", "--check-untyped-defs"]
    done = python("-m", "mypy", *flags, "-p", "xagents_ray", cwd=copy)
    assert done.returncode == 1, done.stdout + done.stderr
    return set(READ.findall(done.stdout))


@pytest.mark.parametrize(("config", "option"), OPTIONS)
def test_every_option_is_read(
    config: type, option: Option, reads: set[tuple[str, str]]
) -> None:
    """By code that knows the config as this class or a parent, or one of its groups."""
    readers = {name for name, field in reads if field == option.name}
    assert readers & OWNERS[config] or option.name in NAMED, "it is read nowhere"


def test_what_is_not_a_read(reads: set[tuple[str, str]]) -> None:
    """The names of others' attributes, and options of other configs."""
    assert ("PPOConfig", "clip_norm") in reads
    assert not {("Option", "name"), ("A2CConfig", "clip_norm")} & reads
