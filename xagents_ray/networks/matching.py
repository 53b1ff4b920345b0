"""Checks of a weights file's arrays against a network."""

from collections.abc import Mapping

import numpy as np

from xagents_ray.core.errors import UserError, pluralize
from xagents_ray.core.moments import OBSERVATION, POLICY_STATISTICS, WRAPPER
from xagents_ray.core.trajectory import Array
from xagents_ray.networks.layout import Layout

_REMEDY = (
    "--model and the network's other settings must be those that these weights were "
    "trained with"
)


def match_arrays(
    arrays: Mapping[str, Array],
    expected: Mapping[str, tuple[int, ...]],
    optional: Mapping[str, tuple[int, ...]],
    path: str,
    layout: Layout | None = None,
) -> tuple[dict[str, Array], list[str]]:
    """Return a file's arrays, checked and completed, and notes for the user.

    Args:
        arrays: decoded arrays by name.
        expected: shapes of required arrays by name.
        optional: shapes of optional arrays by name. A missing log_std becomes zeros, a
            missing action_scaling 1; missing statistics of observations and wrappers
            stay missing.
        path: path of the file, for messages.
        layout: layout of the model, for messages.
    Returns:
        float32 arrays by name, with float64 statistics, and one sentence for each
        missing optional array.
    Raises:
        UserError: a name or shape is wrong, or a number is NaN or infinite.
    """
    for name in expected:
        if name not in arrays:
            raise UserError(f"{path}: has no {name}; {_REMEDY}.")
    checked = {}
    for name, array in arrays.items():
        shape = expected.get(name, optional.get(name))
        if problem := _problem(name, array.shape, shape, layout):
            raise UserError(f"{path}: {problem}.")
        checked[name] = _finite(name, array, path)
    return checked, _complete(checked, optional, path)


def _complete(
    arrays: dict[str, Array], optional: Mapping[str, tuple[int, ...]], path: str
) -> list[str]:
    """Add missing optional arrays where they have a default; return notes on them."""
    notes = []
    if "log_std" in optional and "log_std" not in arrays:
        arrays["log_std"] = np.zeros(optional["log_std"], np.float32)
        notes.append(f"{path} has no log_std; it starts at 0.")
    if "action_scaling" in optional and "action_scaling" not in arrays:
        arrays["action_scaling"] = np.ones((), np.float32)
        notes.append(
            f"{path} doesn't say whether its actions are scaled; if it is older than "
            "--action-scaling, give --no-action-scaling unless bounds are -1 and 1."
        )
    mean = f"{OBSERVATION}/mean"
    if mean in optional and mean not in arrays:
        notes.append(
            f"{path} has no statistics of observations; they start from scratch."
        )
    if any(name.startswith(WRAPPER) and name not in arrays for name in optional):
        notes.append(
            f"{path} has no statistics of the environment's wrappers; they start from "
            "scratch."
        )
    return notes


def _finite(name: str, array: Array, path: str) -> Array:
    """Return a float32 copy, float64 of statistics; UserError if it isn't finite."""
    dtype = np.float64 if name.startswith(POLICY_STATISTICS) else np.float32
    with np.errstate(over="ignore"):
        copy: Array = np.array(array, dtype)
    if not np.isfinite(copy).all():
        raise UserError(
            f"{path}: {name} has numbers that are not finite; give weights from "
            "before the run diverged."
        )
    return copy


def _problem(
    name: str,
    shape: tuple[int, ...],
    expected: tuple[int, ...] | None,
    layout: Layout | None,
) -> str:
    """Return what is wrong with an array and how to fix it; "" if it fits."""
    if shape == expected:
        return ""
    if expected is None and name.startswith(OBSERVATION):
        return "was trained with --normalize-observations: give that flag too"
    if expected is None and name == "action_scaling":
        return (
            "was trained on continuous actions with --action-scaling: take such an "
            "environment, and leave out --no-action-scaling"
        )
    if expected is None and name.startswith(WRAPPER):
        return (
            "was trained with a normalizing wrapper of Gymnasium: give --wrappers, or "
            "the environment, as it was"
        )
    if expected is None:
        return f"has {name}, which this agent's network lacks; {_REMEDY}"
    first: dict[str, tuple[int, ...]] = {}  # shapes of the images that kernels read
    if layout is not None and len(shape) == 4:
        own = [each for each in layout.layers if each.source < 0]
        first = {f"{each.name}/kernel": layout.shape_at(each.source) for each in own}
    if layout is not None and len(image := first.get(name, ())) == 3:
        frames, rest = divmod(shape[2], image[-1] // layout.stack)
        if frames not in (0, layout.stack) and rest == 0:
            return (
                f"was trained on {pluralize(frames, 'frame')} at a time, not on "
                f"{layout.stack}: give --frame-stack {frames}"
            )
    return (
        f"{name} is {list(shape)}, this agent's network needs {list(expected)}; use "
        f"the same environment, and {_REMEDY}"
    )
