"""Validation of the settings of a call from Python."""

from collections.abc import Iterable, Mapping
from typing import Any

from xagents_ray.algorithms.definition import Algorithm
from xagents_ray.algorithms.table import check_owners
from xagents_ray.settings.options import check_known, options, plain_values


def check_settings(
    algorithm: Algorithm, groups: Iterable[type], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return settings of the groups and of an agent's acting as plain Python values.

    Settings that are None are left out.

    Raises:
        UserError: a setting is unknown.
    """
    own = [each for each in options(algorithm.config) if each.acts or each.explores]
    known = [*(each for group in groups for each in options(group)), *own]
    values = {name: value for name, value in given.items() if value is not None}
    check_owners(algorithm, values)
    check_known(values, known)
    return plain_values(known, values)
