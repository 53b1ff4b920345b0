"""Conversion of Python objects that options accept to the text in the config."""

import ast
import contextlib
import json
import re
import sys
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Protocol

from xagents_ray.core import objects
from xagents_ray.core.errors import UserError, shown
from xagents_ray.core.parsing import parse_json


class KerasOptimizer(Protocol):
    """A keras.optimizers.Optimizer; Keras has no type hints."""

    learning_rate: Any


def environment(value: Any) -> Any:
    """Return a name for an environment's class, factory or Gymnasium EnvSpec.

    A registered EnvSpec is named by its ID, any other one `spec:ID`.

    Raises:
        UserError: the value is an environment instance.
    """
    if value is None or isinstance(value, str):
        return value
    if _is_spec(value):
        if sys.modules["gymnasium"].registry.get(value.id) == value:
            return value.id
        return objects.keep("env", value, f"spec:{value.id}")
    if callable(value):
        return objects.keep("env", value, _name_of_lambda(value))
    if callable(getattr(value, "reset", None)):
        raise UserError(
            f"env is an environment that is made already, {value!r:.80}, and a run "
            "makes several: give its id, its class or a function that makes it, as in "
            "env=lambda: make_env()."
        )
    return value


def _name_of_lambda(value: Any) -> str:
    """Return a name that says what a lambda makes; "" for any other value.

    For example, `lambda: gym.make("CartPole-v1")` is named `lambda-CartPole-v1` and
    `lambda: Corridor(5)` is named `lambda-Corridor`.
    """
    if getattr(value, "__name__", "") != "<lambda>":
        return ""
    code = value.__code__
    texts = [text for text in code.co_consts if isinstance(text, str)]
    words = re.findall(r"[\w-]+", texts[0][:40]) if texts else code.co_names[-1:]
    return "-".join(["lambda", *words])


def arguments(value: Any) -> Any:
    """Return the arguments in a dict or in `key=value` strings as `key=JSON` strings.

    A string that begins with `{` is a JSON object with several arguments. The values in
    `key=value` are JSON, Python literals or plain strings.

    Raises:
        UserError: a string has neither form, or JSON can't represent a value.
    """
    if value is None or not isinstance(value, Mapping | str | tuple):
        return value
    given: dict[Any, Any] = {}
    for each in (value,) if isinstance(value, Mapping | str) else value:
        if not isinstance(each, Mapping | str):
            raise _no_argument(each)
        given |= each if isinstance(each, Mapping) else _parsed(each)
    return tuple(f"{_name(n)}={_json(n, each)}" for n, each in given.items()) or None


def variables(value: Any) -> Any:
    """Return the environment variables in a dict as `NAME[=VALUE]` strings."""
    if not isinstance(value, Mapping):
        return value
    pairs = value.items()
    return tuple(n if each is None else f"{n}={each}" for n, each in pairs) or None


def callbacks(value: Any) -> Any:
    """Return the names of callbacks: objects, classes and functions."""
    return _several("callbacks", value, _is_callback)


def _is_callback(value: Any) -> bool:
    return callable(value) or any(n.startswith(("on_", "_on_")) for n in dir(value))


def wrappers(value: Any) -> Any:
    """Return the names of classes and functions that wrap an environment."""
    return _several("wrappers", value, callable)


def state_to_input(value: Any) -> Any:
    """Return the name of a function of observations."""
    return objects.keep("state_to_input", value) if callable(value) else value


def network(value: Any) -> Any:
    """Return the name of a Keras model, or of a function that makes one."""
    keras = sys.modules.get("keras")
    is_model = keras is not None and isinstance(value, keras.Model)
    if not (is_model or callable(value)):
        return value
    taken = [
        n
        for s, n in objects.kept_names("network")
        if objects.find_kept(s, n) is not value
    ]
    label = ""
    if is_model:
        label, number = value.name, 1
        while label in taken:
            number += 1
            label = f"{value.name}-{number}"
    return objects.keep("network", value, label, taken)


def keras_optimizer(value: Any) -> Any:
    """Return a Keras optimizer's config as JSON, from which the learner rebuilds it.

    Raises:
        UserError: the class isn't built into Keras, or its learning rate is a schedule;
            or the value is JSON of something else.
    """
    if is_json(value) and not _is_optimizer(value):
        raise UserError(
            f"--optimizer takes adam, rmsprop, or from Python one of keras.optimizers, "
            f"got {shown(value)}."
        )
    keras = sys.modules.get("keras")
    if keras is None or not isinstance(value, keras.optimizers.Optimizer):
        return value
    config = keras.optimizers.serialize(value)
    if not config["module"].startswith("keras."):
        raise UserError(
            f"optimizer: {type(value).__name__} is not one of keras.optimizers, which "
            "the learner can make from its settings: take one of these."
        )
    if not isinstance(config["config"]["learning_rate"], float):
        raise UserError(
            "optimizer: its learning rate is a schedule: give it a number, and "
            "lr_decay=True where it is to fall over max_steps."
        )
    return json.dumps(config)


def is_json(value: Any) -> bool:
    """Return whether a value is JSON from `keras_optimizer`."""
    return isinstance(value, str) and value.startswith("{")


def _is_optimizer(text: str) -> bool:
    """Return whether JSON is an optimizer's config, which has no other objects."""
    with contextlib.suppress(ValueError, LookupError, TypeError, AttributeError):
        found = parse_json(text)
        values = [*(found.get("config") or {}).values()]
        values += [x for each in values if isinstance(each, list) for x in each]
        is_plain = not any(isinstance(each, dict) for each in values)
        return is_plain and found["module"] == "keras.optimizers"
    return False


def whole_number(text: str) -> str | int:
    """Return the whole number that a text such as 1e5 or 1.5M means, or the text."""
    found = re.fullmatch(
        r"(-?\d{1,9}(?:\.\d{0,9})?)(?:([kM])|e\+?(\d\d?))?", text, re.I
    )
    if found is None or text.removeprefix("-").isdigit():
        return text
    number, suffix, exponent = found.groups()
    power = int(exponent or 0) + {"": 0, "k": 3, "m": 6}[(suffix or "").lower()]
    whole = Decimal(number).scaleb(power)
    return int(whole) if whole == whole.to_integral() else text


def _several(setting: str, value: Any, is_object: Callable[[Any], bool]) -> Any:
    """Return the names of one or several objects; leave other values unchanged."""
    if value is None or not (isinstance(value, tuple) or is_object(value)):
        return value
    names: list[Any] = []
    for each in value if isinstance(value, tuple) else (value,):
        kept = objects.keep(setting, each, taken=names) if is_object(each) else each
        names.append(kept)
    return tuple(names) or None


def _is_spec(value: Any) -> bool:
    registration = sys.modules.get("gymnasium.envs.registration")
    return registration is not None and isinstance(value, registration.EnvSpec)


def _parsed(text: str) -> dict[str, Any]:
    if text.startswith("{"):
        with contextlib.suppress(ValueError):
            found: dict[str, Any] = parse_json(text)
            return found
    name, equals, value = text.partition("=")
    if not equals:
        raise _no_argument(text)
    for parse in (parse_json, ast.literal_eval):
        # Python's parser raises the last two at deep nesting.
        with contextlib.suppress(
            ValueError, SyntaxError, TypeError, MemoryError, RecursionError
        ):
            return {name: parse(value)}
    return {name: value}


def _name(name: Any) -> str:
    if isinstance(name, str) and name.isidentifier():
        return name
    raise _no_argument(name)


def _no_argument(given: Any) -> UserError:
    return UserError(
        f"--env-kwargs takes key=value, or a JSON object, got {shown(given)}: write "
        "gravity=-5, or '{\"gravity\": -5}'."
    )


def _json(name: Any, value: Any) -> str:
    try:
        return json.dumps(value.item() if hasattr(value, "item") else value)
    except (TypeError, ValueError):
        raise UserError(
            f"env_kwargs: {name} is {shown(value)}, which a run's settings can't hold: "
            f"give env=functools.partial(…, {name}=…) in its place."
        ) from None
