"""Arrays that a user's methods return in place of those of the training loop."""

from typing import Any

import numpy as np

from xagents_ray import UserError


def like(expected: Any, given: Any, name: str) -> Any:
    """Return an array with the dtype of the expected one, or a dict of such arrays.

    Args:
        expected: the array or dict of the training loop.
        given: the value that the user's method returned.
        name: name of the method, for messages.
    Raises:
        UserError: the shape or the names differ, or an array can't be converted.
    """
    if isinstance(expected, dict):
        if not isinstance(given, dict) or given.keys() != expected.keys():
            raise UserError(
                f"{name} must be a dict of the arrays {', '.join(expected)}: return "
                "one like the dict that is given."
            )
        pairs = expected.items()
        return {key: like(x, given[key], f"{name}[{key!r}]") for key, x in pairs}
    array = np.asarray(given)
    is_kind = np.can_cast(array.dtype, expected.dtype, "same_kind")
    if array.shape != expected.shape or not is_kind:
        raise UserError(
            f"{name} is {array.dtype} {array.shape} and must be {expected.dtype} "
            f"{expected.shape}: return an array of that form; state_to_input= makes "
            "observations of another one."
        )
    return array.astype(expected.dtype, copy=False)
