"""Pages name flags, settings and sentences that there are."""

import ast
import re
import shlex
import subprocess
from pathlib import Path

import click
import pytest
import yaml
from checkout import ROOT
from sources import tree_of

from xagents_ray.algorithms.table import ALGORITHMS, find_algorithm
from xagents_ray.commands.all_commands import COMMANDS
from xagents_ray.commands.launch import LaunchConfig
from xagents_ray.policy.loading import SourceConfig
from xagents_ray.settings.config import train_options
from xagents_ray.settings.episodes import EvaluateConfig, PlayConfig
from xagents_ray.settings.options import Option, options
from xagents_ray.tuning.plan import TuneConfig
from xagents_ray.watch.scalar_names import sb3_scalars

DOCS = ROOT / "docs"
# Records of what was measured or decided name flags of that time.
PAGES = [
    page.relative_to(DOCS).as_posix()
    for page in sorted(DOCS.rglob("*.md"))
    if page.parent.name != "adr" and page.name != "results.md"
]
ELSEWHERE = {
    "--head": "ray start",
    "--logdir": "tensorboard",
    "--shm-size": "docker run",
    "--build": "docker compose up",
    "--exit-code-from": "docker compose up",
    "--num-cpus": "ray start",
    "--num-gpus": "ray start",
    "--temp-dir": "ray start",
    "--working-dir": "ray job submit",
    "--wheel": "uv build",
    "--compile-bytecode": "uv pip install",
    "--json": "python -m benchmarks",
    "--peer-device": "python -m benchmarks",
    "--peer-vec": "python -m benchmarks",
    "--vs": "python -m benchmarks",
    "--help": "click",
    "--help-all": "the command line",
    "--version": "click",
    "--traceback": "the command line",
    "--set": "the command line",
    "--n-env": "short for --n-envs",
}
"""Flags that no option has, and what has them."""
OTHERS = re.compile(r"\| `(python|tensorboard|xagents |--)[^|]*\|")
"""What other programs are given, in a table's first column."""


def known() -> dict[str, list[Option]]:
    """Return all options by their flags."""
    rows = [train_options(row.config) for row in ALGORITHMS.values()]
    own = (SourceConfig, PlayConfig, EvaluateConfig, TuneConfig, LaunchConfig)
    found: dict[str, list[Option]] = {}
    for each in (
        *(o for row in rows for o in row),
        *(o for c in own for o in options(c)),
    ):
        found.setdefault(each.flag, []).append(each)
    return found


def flags_of(command: click.Command) -> set[str]:
    """Return the flags of a command that no option of an agent describes."""
    below = command.commands.values() if isinstance(command, click.Group) else ()
    own = {name for param in command.params for name in param.opts}
    return own.union(*map(flags_of, below))


def text_of(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_every_flag_is_an_option(page: str) -> None:
    flags = known()
    plain = set[str]().union(*map(flags_of, COMMANDS.values()))
    switches = {
        flag for flag, found in flags.items() if any(o.default is True for o in found)
    }
    off = {f"--no-{flag[2:]}" for flag in switches}
    allowed = {*flags, *plain, *off, *ELSEWHERE, "--greedy"}
    text = OTHERS.sub("", text_of(page))
    used = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*\b", text))
    assert used <= allowed, used - allowed


def known_as(heading: str) -> dict[str, set[str]]:
    """Return flags by the names of others, of the agents of a heading if it has any."""
    words = set(re.findall(r"\w+", heading.lower()))
    agents = {*ALGORITHMS} & words or {*ALGORITHMS}
    found: dict[str, set[str]] = {}
    for agent in agents:
        for each in train_options(ALGORITHMS[agent].config):
            for name in each.known_as:
                found.setdefault(name, set()).add(each.flag)
    return found


@pytest.mark.parametrize("page", ["stable-baselines3.md", "rllib.md", "cleanrl.md"])
def test_names_of_others_are_answered_with_the_same_flag(page: str) -> None:
    """Where an option knows another library's name, the page says the same flag."""
    heading, agreed = "", 0
    for line in text_of(f"coming-from/{page}").splitlines():
        heading = line if line.startswith("#") else heading
        if not line.startswith("| `"):
            continue
        first, *rest = line.split(" | ")
        flags = set(re.findall(r"--[a-z][a-z-]*", " ".join(rest)))
        answers = known_as(heading)
        for name in re.findall(r"`(\w+)", first):
            if rest[0] == "–":
                assert name not in answers, f"{name} means something else"
            elif name in answers and flags:
                assert flags & answers[name], (name, flags, answers[name])
                agreed += 1
    assert agreed > 8


DRLBOX = re.findall(r"^\| (`.*) \| (.*) \|$", text_of("coming-from-drlbox.md"), re.M)
# The arguments that drlbox's users give most.
ASKED = (
    *("env_maker", "state_to_input", "feature_maker", "model_maker"),
    *("load_model_custom", "save_interval", "policy_eps", "render_end"),
)


def calls(cell: str) -> list[ast.Call]:
    """Return the calls in a cell's code."""
    found = re.findall(r"`(\w+\(.*?\))`", cell)
    return [ast.parse(code, mode="eval").body for code in found]  # type: ignore[misc]


@pytest.mark.parametrize("row", DRLBOX, ids=[row[0] for row in DRLBOX])
def test_code_for_drlbox_names_settings_that_there_are(row: tuple[str, str]) -> None:
    for call in calls(row[1]):
        command = ast.unparse(call.func)
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        if command == "load":
            assert given.keys() <= {"agent", "env", "model", "which"}
            continue
        first = call.args[0]
        assert isinstance(first, ast.Constant)
        trained = train_options(find_algorithm(first.value).config)
        played = {"evaluate": EvaluateConfig, "play": PlayConfig}
        own = [] if command == "train" else options(played[command])
        known = {each.name: each for each in (*trained, *options(SourceConfig), *own)}
        for name, value in given.items():
            each = known[str(name)]
            if isinstance(value, ast.Constant):
                each.check(each.plain(value.value))


def test_what_is_asked_for_most_of_drlbox_has_code() -> None:
    for name in ASKED:
        assert any(f"`{name}" in was and calls(now) for was, now in DRLBOX), name


def sentences() -> str:
    """Return all texts of the source, with … for what is formatted into them."""
    found = []
    for room in ("xagents_ray", "actors", "learners", "cluster"):
        for path in (ROOT / room).rglob("*.py"):
            for node in ast.walk(tree_of(path)):
                if isinstance(node, ast.JoinedStr):
                    parts = (getattr(part, "value", "…") for part in node.values)
                    found.append(
                        "".join(p if isinstance(p, str) else "…" for p in parts)
                    )
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    found.append(node.value)
    return "\n".join(found)


def test_what_troubleshooting_quotes_is_said() -> None:
    said = sentences()
    text = text_of("guides/troubleshooting.md")
    quoted = re.findall(r'^\| "(.+?)" \|', text, re.M)
    assert len(quoted) > 35
    for sentence in quoted:
        parts = [part.strip() for part in sentence.split("…")]
        longest = max(parts, key=len)
        assert len(longest) > 15, sentence
        for part in parts:
            assert part in said, sentence


def test_every_metric_of_the_learners_is_documented() -> None:
    ours, _, _ = text_of("guides/files.md").partition("### As Stable-Baselines3")
    documented = set(re.findall(r"`train/(\w+)`", ours))
    named, words = set(), set()
    for path in (ROOT / "learners").glob("*.py"):
        for node in ast.walk(tree_of(path)):
            found = {x.value for x in ast.walk(node) if isinstance(x, ast.Constant)}
            words |= found
            called = getattr(node, "func", None)
            if getattr(called, "id", "") == "no_means":
                named |= found
    assert len(named) > 10 and named <= documented, named - documented
    assert documented <= words, documented - words


def test_every_name_of_stable_baselines3_is_documented() -> None:
    _, _, theirs = text_of("guides/files.md").partition("### As Stable-Baselines3")
    documented = set(re.findall(r"`(\w+/\w+)`", theirs))
    for agent in ALGORITHMS:
        named = sb3_scalars(agent, dict.fromkeys(documented, 1.0)).keys()
        assert named <= documented, (agent, named - documented)
    tree = tree_of(ROOT / "xagents_ray" / "watch" / "scalar_names.py")
    words = {x.value for x in ast.walk(tree) if isinstance(x, ast.Constant)}
    names = {str(x) for x in words if re.fullmatch(r"\w+/\w+", str(x))}
    assert len(names) > 30 and names <= documented, names - documented


def test_every_page_of_an_algorithm_is_there() -> None:
    pages = {Path(page).stem for page in PAGES if page.startswith("algorithms/")}
    assert pages == {*ALGORITHMS, "index"}


RECORDS = sorted((DOCS / "adr").glob("0*.md"))


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.stem[:4])
def test_a_decision_has_a_title_and_a_date(record: Path) -> None:
    title, _, rest = record.read_text(encoding="utf-8").partition("\n\n")
    assert title.startswith(f"# {int(record.stem[:4])}. ")
    assert re.match(r"20\d\d-\d\d-\d\d\n\n", rest)


@pytest.mark.parametrize(("length", "status"), [(1, 0), (72, 0), (73, 1), (0, 1)])
def test_the_hook_bounds_the_subject_of_a_commit(
    tmp_path: Path, length: int, status: int
) -> None:
    config = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    hooks = {each["id"]: each for each in yaml.safe_load(config)["repos"][0]["hooks"]}
    message = tmp_path / "COMMIT_EDITMSG"
    message.write_text(f"{'é' * length}\n\n{'why ' * 30}\n", encoding="utf-8")
    entry = shlex.split(hooks["subject-length"]["entry"])
    assert subprocess.run([*entry, message]).returncode == status
