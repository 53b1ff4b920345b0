"""What a weights file says of its policy; nothing in a file can name code or a path."""

import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from xagents_ray.algorithms.definition import Algorithm
from xagents_ray.core.errors import UserError, printable, shown
from xagents_ray.run.tensorflow_child import read_any_weights
from xagents_ray.settings.options import Option, flag, options
from xagents_ray.settings.training import EnvConfig
from xagents_ray.storage.weights import card_in
from xagents_ray.storage.weights_card import Card

_WORDS = re.compile(r"[\w., +-]{0,200}")
_ENV = re.compile(r"[\w.-]{1,100}(/[\w.-]{1,100})?")
# JSON: numbers below 1,000, as larger ones may be sizes, and words.
_ARGUMENT = re.compile(
    r'\w+=(-?\d{1,3}(\.\d{1,20})?|true|false|null|"[\w., +-]{0,100}")'
)
_SPEED = ("n_envs", "vectorization")
"""Settings of environments that say only how they are stepped."""


def read_card(path: str) -> Card | None:
    """Return the card of a weights file; None if it has none.

    Raises:
        UserError: the file is missing or damaged.
    """
    return card_in(read_any_weights(path)) if path.endswith(".npz") else None


def agent_of(path: str) -> str | None:
    """Return the agent that a weights file names, or None."""
    card = read_card(path)
    return None if card is None else card.agent


def described(card: Card, path: str) -> str:
    """Return a sentence about a policy in a file."""
    facts = card.facts
    parts = [f"{path}: {card.agent} of {card.settings.get('env')}"]
    for words, name in (("env steps", "env_steps"), ("mean reward", "mean_reward")):
        if isinstance(number := facts.get(name), int | float):
            parts.append(f"{words} {number:,.10g}")
    return printable(", ".join(parts))


@contextmanager
def settings_of(
    card: Card, algorithm: Algorithm, given: Mapping[str, Any], path: str
) -> Iterator[dict[str, Any]]:
    """Yield the settings that a card gives; its network's file exists until the end.

    Args:
        card: the card.
        algorithm: the algorithm that the user, or the card, names.
        given: settings of the user by flat name.
        path: path of the weights file, for messages.
    Raises:
        UserError: the card is of another algorithm, or a setting is missing that a file
            can't give.
    """
    if card.agent != algorithm.name:
        raise UserError(
            f"{path} holds weights of {shown(card.agent)}: name that agent."
        )
    known = {x.name: x for x in (*options(EnvConfig), *options(algorithm.config))}
    plain = {k: tuple(v) if type(v) is list else v for k, v in card.settings.items()}
    used = {k: v for k, v in plain.items() if k in known and k not in _SPEED}
    values = {k: v for k, v in used.items() if is_harmless(known[k], v)}
    for name in sorted(used.keys() - values.keys() - given.keys()):
        if hasattr(EnvConfig, name):
            raise UserError(
                f"{path} was trained with {flag(name)} {shown(used[name])}, and a file "
                f"may name neither code nor large numbers: give {flag(name)} yourself, "
                "if you trust it."
            )
    network = algorithm.models[0].file
    with tempfile.TemporaryDirectory(prefix="xagents-ray-") as folder:
        for name in (f"{network}.cfg", f"{network}.keras"):
            if (content := card.files.get(name)) is not None:
                file = Path(folder, name)
                file.write_bytes(content)
                values[network] = str(file)
        yield values


def is_harmless(option: Option, value: Any) -> bool:
    """Return whether a value from someone else names neither code nor a path."""
    if isinstance(value, bool | int | float | None):
        return True
    if option.scheduled:
        return True  # checked by the config, as any text of it
    if option.is_path:
        return False
    allowed = {"env": _ENV, "env_kwargs": _ARGUMENT}.get(option.name, _WORDS)
    texts = value if isinstance(value, tuple) else (value,)
    return all(isinstance(x, str) and allowed.fullmatch(x) for x in texts)
