"""Cards of `.npz` weights files: what the weights are of, and where they came from.

A card is the array `card`, uint8, of a JSON object; files of the network, such as
`model.cfg`, are arrays `files/NAME`. Whoever made the file may have written anything.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from xagents_ray.core.parsing import parse_json
from xagents_ray.core.trajectory import Array

_CARD, _FILES = "card", "files/"
_LARGEST = 1 << 20  # bytes of a card
_MOST_LISTS = 1_000


class Card(NamedTuple):
    """Description of the weights in a file.

    Attributes:
        agent: name of the algorithm.
        settings: settings of the environment and the algorithm, by flat name.
        facts: env steps, rewards, seed, version and date, as far as they are known.
        files: contents of the network's files, by setting with `.cfg` or `.keras`.
    """

    agent: str
    settings: dict[str, Any]
    facts: dict[str, Any]
    files: dict[str, bytes]


def is_of_card(name: str) -> bool:
    """Return whether an array of this name belongs to a card."""
    return name == _CARD or name.startswith(_FILES)


def card_arrays(card: Card) -> dict[str, Array]:
    """Return a card as arrays by name, uint8 [N] each."""
    values = {"agent": card.agent, "settings": card.settings, "facts": card.facts}
    texts = {_CARD: json.dumps(values).encode()}
    texts |= {f"{_FILES}{name}": content for name, content in card.files.items()}
    return {name: np.frombuffer(text, np.uint8) for name, text in texts.items()}


def card_of(arrays: Mapping[str, Array]) -> Card | None:
    """Return the card among a file's arrays, or None.

    Raises:
        ValueError: it is damaged.
    """
    if _CARD not in arrays:
        return None
    text = arrays[_CARD].tobytes()
    if len(text) > _LARGEST:
        raise ValueError(f"its card has more than {_LARGEST:,} bytes")
    found = parse_json(text, most=_MOST_LISTS)
    files = {
        name.removeprefix(_FILES): array.tobytes()
        for name, array in arrays.items()
        if name.startswith(_FILES)
    }
    agent, settings, facts = (found[key] for key in ("agent", "settings", "facts"))
    if (type(agent), type(settings), type(facts)) != (str, dict, dict):
        raise ValueError("its card is damaged")
    return Card(agent, settings, facts, files)
