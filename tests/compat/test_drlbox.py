"""Each line of code of the drlbox table names settings that there are."""

import ast
import re
from pathlib import Path

import pytest

from xagents_ray.algorithms.table import find_algorithm
from xagents_ray.policy.loading import SourceConfig
from xagents_ray.settings.config import train_options
from xagents_ray.settings.options import options
from xagents_ray.settings.run import EvaluateConfig, PlayConfig

TABLE = Path(__file__).parents[2] / "docs" / "coming-from-drlbox.md"
ROWS = re.findall(r"^\| (`.*) \| (.*) \|$", TABLE.read_text(encoding="utf-8"), re.M)
# The arguments that drlbox's users give most.
ASKED = (
    "env_maker",
    "state_to_input",
    "feature_maker",
    "model_maker",
    "load_model_custom",
    "save_interval",
    "policy_eps",
    "render_end",
)


def calls(cell: str) -> list[ast.Call]:
    """Return the calls in a cell's code."""
    found = re.findall(r"`(\w+\(.*?\))`", cell)
    return [ast.parse(code, mode="eval").body for code in found]  # type: ignore[misc]


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_its_settings_are_known(row: tuple[str, str]) -> None:
    for call in calls(row[1]):
        command = ast.unparse(call.func)
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        if command == "load":
            assert given.keys() <= {"agent", "env"}
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


def test_what_is_asked_for_most_has_code() -> None:
    for name in ASKED:
        assert any(f"`{name}" in was and calls(now) for was, now in ROWS), name
