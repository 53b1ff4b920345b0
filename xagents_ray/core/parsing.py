"""Parsers of JSON and YAML from files that others may have written.

A few bytes can't become much data, and nesting is too shallow to exhaust the stack.
"""

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar

import yaml

from xagents_ray.core.errors import shown
from xagents_ray.core.files import open_regular

_DEEPEST = 100  # levels of nesting
_MOST_VALUES = 5_000  # of a YAML file, which takes 0.1 ms for each
_LOOSE = "tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp"
DECIMALS = (
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"),
    list("-+.0123456789"),
)
"""Resolver of numbers such as 3e-4, which are text in YAML 1.1, for a loader."""


class ExcessError(ValueError):
    """A file has more, or is nested deeper, than a reader accepts."""


def read_bounded(path: Path, largest: int) -> bytes:
    """Return the contents of a file.

    Args:
        path: path of the file.
        largest: maximum size, in bytes.
    Raises:
        ExcessError: the file is larger.
        OSError: the file can't be read, or is a device or a pipe.
    """
    with open_regular(path) as file:
        data = file.read(largest + 1)
    if len(data) > largest:
        raise ExcessError(f"it has more than {largest:,} bytes")
    return data


def parse_json(
    text: str | bytes,
    parse_constant: Callable[[str], Any] | None = None,
    most: int | None = None,
) -> Any:
    """Return the value of a JSON text.

    Args:
        text: the text.
        parse_constant: see `json.loads`.
        most: maximum number of lists and objects; None for any number.
    Raises:
        ExcessError: it is nested too deeply, or has too many lists and objects.
        ValueError: it is not JSON.
    """
    brackets = ("[", "{") if isinstance(text, str) else (b"[", b"{")
    if most is not None and sum(map(text.count, brackets)) > most:  # type: ignore[arg-type]
        raise ExcessError(f"it has more than {most:,} lists and objects")
    too_deep = ExcessError(f"it is nested deeper than {_DEEPEST} levels")
    try:
        value = json.loads(text, parse_constant=parse_constant)
    except RecursionError:
        raise too_deep from None
    level = [value]
    for _ in range(_DEEPEST):
        level = [inner for each in level for inner in _inside(each)]
        if not level:
            return value
    raise too_deep


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


class PlainLoader(yaml.SafeLoader):  # type: ignore[misc]
    """Loader of YAML without aliases, with few values and shallow nesting."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._depth = self._values = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Return the next node, or raise ExcessError."""
        if self.check_event(yaml.AliasEvent):
            raise ExcessError("it has an alias, as in *name")
        self._depth += 1
        self._values += 1
        if self._depth > _DEEPEST:
            raise ExcessError(f"it is nested deeper than {_DEEPEST} levels")
        if self._values > _MOST_VALUES:
            raise ExcessError(f"it has more than {_MOST_VALUES:,} values")
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


class SettingsLoader(PlainLoader):
    """Loader of settings that a user writes; a key may be there once only.

    Numbers and truth values are those of YAML 1.2: 3e-4 is a number, and `on` is text,
    as dates are.
    """

    yaml_implicit_resolvers: ClassVar[dict[str, list[Any]]] = {
        first: [each for each in resolvers if each[0] not in _LOOSE]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_mapping_node(self, anchor: Any) -> Any:
        """Return the next mapping, or raise ExcessError."""
        node = super().compose_mapping_node(anchor)
        names = set[str]()
        for key, _ in node.value:
            if not isinstance(key.value, str):
                continue
            if key.value in names:
                raise ExcessError(f"it has {shown(key.value)} twice")
            names.add(key.value)
        return node


SettingsLoader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile("(?:true|false)$", re.I), list("tTfF")
)
SettingsLoader.add_implicit_resolver(*DECIMALS)


def parse_yaml(text: str, loader: type[PlainLoader] = PlainLoader) -> Any:
    """Return the value of a YAML document as plain data.

    Raises:
        ExcessError: it has aliases or too many values, or is nested too deeply.
        ValueError: it is not YAML.
    """
    try:
        return yaml.load(text, loader)
    except ValueError:
        raise
    except Exception as error:  # PyYAML's constructors also raise IndexError and others
        raise ValueError(str(error)) from error
