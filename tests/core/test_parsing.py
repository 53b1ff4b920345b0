"""JSON and YAML of others: few bytes become little data, in little time."""

from pathlib import Path
from typing import Any

import pytest

from xagents_ray.core.parsing import (
    ExcessError,
    SettingsLoader,
    parse_json,
    parse_yaml,
    read_bounded,
)


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


@pytest.mark.parametrize("parse", [parse_json, parse_yaml])
def test_depth_is_bounded(parse: Any) -> None:
    value = parse(nested(100))
    for _ in range(99):
        (value,) = value
    assert value == []
    for levels in (101, 5_000, 100_000):
        with pytest.raises(ExcessError, match="nested deeper than 100 levels"):
            parse(nested(levels))


def test_json_that_is_none() -> None:
    for text in ("[", '{"a": NaN', "", b"\xff\xff", "1" * 5_000):
        with pytest.raises(ValueError):
            parse_json(text)
    assert parse_json(b'{"a": [1, {"b": null}]}') == {"a": [1, {"b": None}]}


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [1]\nb: [*a, *a]",
        "a: &a {x: 1}\nb: {<<: *a}",
        "\n".join(
            [
                "a0: &a0 [x, x]",
                *(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 40)),
            ]
        ),
    ],
)
def test_aliases_are_refused(text: str) -> None:
    with pytest.raises(ExcessError, match="it has an alias"):
        parse_yaml(text)


def test_the_number_of_values_is_bounded() -> None:
    assert len(parse_yaml("[" + "1," * 4_000 + "]")) == 4_000
    with pytest.raises(ExcessError, match="more than 5,000 values"):
        parse_yaml("[" + "1," * 5_000 + "]")


def test_settings_of_a_user_are_those_of_yaml_1_2() -> None:
    text = "[on, off, yes, no, true, False, 2026-01-31, 3e-4, 1.5, .5, 7, ~, '8']"
    assert parse_yaml(text, SettingsLoader) == [
        *("on", "off", "yes", "no", True, False, "2026-01-31"),
        *(3e-4, 1.5, 0.5, 7, None, "8"),
    ]
    assert parse_yaml("[on, 3e-4]") == [True, "3e-4"]  # as files of ours are written


@pytest.mark.parametrize(
    "text", ["{a: 1, b: 2, a: 3}", "x:\n  a: 1\n  'a': 2", "- {a: 1, ? a : 2}"]
)
def test_a_users_key_is_there_once(text: str) -> None:
    with pytest.raises(ExcessError, match="it has 'a' twice"):
        parse_yaml(text, SettingsLoader)
    assert parse_yaml(text)


ODD = ["[", "!!int ''", "!!float ''", "!!bool x", "!!timestamp x", "2001-99-99"]


@pytest.mark.parametrize("text", ODD)
def test_any_error_of_yaml_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        parse_yaml(text)


def test_size_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"12345")
    assert read_bounded(path, 5) == b"12345"
    with pytest.raises(ExcessError, match="more than 4 bytes"):
        read_bounded(path, 4)
    with pytest.raises(OSError, match="it is a device or a pipe"):
        read_bounded(Path("/dev/zero"), 1_000)


def test_lists_are_counted_only_where_a_file_has_few() -> None:
    """The states of thousands of environments have hundreds of thousands."""
    text = "[" + "[], {}, " * 100_000 + "[]]"
    assert len(parse_json(text)) == 200_001
    for given in (text, text.encode()):
        with pytest.raises(ExcessError, match="more than 20,000 lists and objects"):
            parse_json(given, most=20_000)
