"""Entries of `info`: success, and those stored with each step for other goals.

`compute_reward` of a goal environment may read the `info` of its step. The entries that
it reads are found by calling it; they must be numbers, or arrays of numbers.
"""

from collections.abc import (
    Callable,
    ItemsView,
    Iterator,
    KeysView,
    Mapping,
    Sequence,
    ValuesView,
)
from itertools import pairwise
from typing import Any

import numpy as np

from xagents_ray.actors.envs import interface
from xagents_ray.core.errors import UserError
from xagents_ray.core.spec import InfoField
from xagents_ray.core.trajectory import Array, BoolArray

_SUCCESS = ("is_success", "success")
"""Entries of `info` that report success; the first one present counts."""


class ReadInfo(dict[Any, Any]):
    """An `info` that reports the keys that are looked up.

    Args:
        info: the entries.
        on_read: function that is called with each key before its lookup.
    """

    def __init__(
        self, info: Mapping[Any, Any], on_read: Callable[[Any], object]
    ) -> None:
        super().__init__(info)
        self._on_read = on_read

    def __getitem__(self, key: Any) -> Any:
        self._on_read(key)
        return super().__getitem__(key)

    def __contains__(self, key: Any) -> bool:
        self._on_read(key)
        return super().__contains__(key)

    def __iter__(self) -> Iterator[Any]:
        for key in super().__iter__():
            self._on_read(key)
            yield key

    def get(self, key: Any, default: Any = None) -> Any:
        return self[key] if key in self else default

    def keys(self) -> Any:
        return KeysView(self)

    def values(self) -> Any:
        return ValuesView(self)

    def items(self) -> Any:
        return ItemsView(self)


def find_fields(
    infos: Sequence[Mapping[Any, Any]], keys: set[Any], env_id: str, place: str
) -> tuple[InfoField, ...]:
    """Return how the entries with these keys are stored.

    An entry that no info has is expected to be a number.

    Args:
        infos: infos of some steps.
        keys: keys of the entries.
        env_id: id of the environment.
        place: file and line of the environment's `step`, for the message.
    Raises:
        EnvironmentFault: an entry is neither a number nor an array of one shape.
    """
    fields = []
    for key in sorted(keys, key=repr):
        values = [each[key] for each in infos if each.get(key) is not None]
        numbers = [_numbers(key, value, env_id, place) for value in values or [0.0]]
        shapes = {each.shape for each in numbers}
        if len(shapes) > 1:
            what = f"has the shapes {' and '.join(map(str, sorted(shapes)))}"
            raise _not_stored(key, what, env_id, place)
        dtype = np.result_type(*numbers).str
        fields.append(InfoField(key, dtype, numbers[0].shape))
    return tuple(fields)


class InfoCoder:
    """Turns entries of `info` into numbers and back.

    A step is stored as float64 [n]: for each entry a 1, followed by its numbers; zeros
    for an entry that is missing or None.

    Args:
        fields: the entries.
        env_id: id of the environment.
        place: file and line of the environment's `step`, for messages.
    """

    def __init__(
        self, fields: Sequence[InfoField], env_id: str, place: str = ""
    ) -> None:
        self._fields, self._env_id, self._place = tuple(fields), env_id, place
        ends = np.cumsum([0, *(each.size for each in fields)]).tolist()
        self._slices = [slice(*pair) for pair in pairwise(ends)]
        self._size = ends[-1]

    def encode(self, infos: Sequence[Mapping[Any, Any]]) -> Array:
        """Return the stored numbers of N infos: float64 [N, n].

        Raises:
            EnvironmentFault: an entry has another type or shape than its field.
        """
        rows = np.zeros((len(infos), self._size))
        for row, info in zip(rows, infos, strict=True):
            for field, part in zip(self._fields, self._slices, strict=True):
                if (value := info.get(field.key)) is not None:
                    row[part] = 1, *self._check(field, value).ravel()
        return rows

    def encode_step(self, infos: Mapping[Any, Any], rows: BoolArray) -> Array:
        """Return the stored numbers of a vector environment's step: float64 [B, n].

        Args:
            infos: infos in the form of Gymnasium's vector environments.
            rows: bool [B], environments whose infos count; others become zeros.
        """
        keys = [each.key for each in self._fields if each.key in infos]
        told = {key: infos.get(f"_{key}", rows) for key in keys}
        return self.encode(
            [
                {key: infos[key][env] for key in keys if row and told[key][env]}
                for env, row in enumerate(rows.tolist())
            ]
        )

    def decode(self, rows: Array) -> list[ReadInfo]:
        """Return the infos of stored numbers, float64 [N, n].

        Looking up an entry that isn't stored raises UserError.
        """
        infos: list[dict[Any, Any]] = [{} for _ in rows]
        for field, part in zip(self._fields, self._slices, strict=True):
            is_told, numbers = rows[:, part.start] > 0, rows[:, part][:, 1:]
            values = _with_dtype(numbers, field.dtype).reshape(-1, *field.shape)
            listed = list(values) if field.shape else values.tolist()
            for i in is_told.nonzero()[0].tolist():
                infos[i][field.key] = listed[i]
        return [ReadInfo(info, self._refuse_unknown) for info in infos]

    def _check(self, field: InfoField, value: Any) -> Array:
        numbers = _numbers(field.key, value, self._env_id, self._place)
        if numbers.shape != field.shape:
            what = f"has the shape {numbers.shape} after {field.shape}"
            raise _not_stored(field.key, what, self._env_id, self._place)
        return numbers

    def _refuse_unknown(self, key: Any) -> None:
        if all(key != each.key for each in self._fields):
            raise UserError(
                f"--her: compute_reward of {self._env_id} reads info[{key!r}], which "
                "it didn't read at first, so it isn't stored: read it in every call."
            )


def read_success(
    infos: Mapping[Any, Any],
    ended: BoolArray,
    fault: Callable[[str, Any, str], UserError],
) -> Array | None:
    """Return which environments' episodes succeeded, object [B]; None if none says so.

    It is True or False where an episode ended, bool [B], and reports that, else None.

    Args:
        infos: infos in the form of Gymnasium's vector environments.
        ended: bool [B], environments whose episodes ended.
        fault: function of the key and value of a wrong entry and a remedy that returns
            the error to raise: a success is a boolean, 0, 1 or None.
    """
    names = [name for name in _SUCCESS if name in infos]
    if not names or not np.count_nonzero(ended):
        return None
    success = np.full(len(ended), None, object)
    for i in ended.nonzero()[0].tolist():
        for name in names:
            is_said, values = infos.get(f"_{name}"), infos[name]
            if np.ndim(values) == 0:
                raise fault(name, values, "give one per environment")
            if success[i] is None and (is_said is None or is_said[i]):
                success[i] = _truth(name, values[i], fault)
    return success


def _truth(
    name: str, value: Any, fault: Callable[[str, Any, str], UserError]
) -> bool | None:
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.item()
    if value is None or isinstance(value, bool | np.bool_):
        return None if value is None else bool(value)
    if isinstance(value, int | float | np.number) and value in (0, 1):
        return bool(value)
    raise fault(name, value, "give True, False or None, or leave it out")


def of_one_env(info: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return the `info` of one environment in the form of vector environments."""
    return {key: [value] for key, value in info.items()}


def _numbers(key: Any, value: Any, env_id: str, place: str) -> Array:
    """Return an entry as an array; raise EnvironmentFault if it isn't numeric."""
    try:
        array = np.asarray(value)
    except ValueError:  # lists of different lengths
        array = np.asarray(None)
    if array.dtype.kind not in "biuf":
        raise _not_stored(key, f"is {value!r:.60}", env_id, place)
    return array


def _not_stored(key: Any, what: str, env_id: str, place: str) -> UserError:
    what = f"--her stores info[{key!r}], which compute_reward reads, and it {what}"
    remedy = "give a number there, or an array of numbers of one shape"
    return interface.env_fault(env_id, what, place, remedy)


def _with_dtype(numbers: Array, dtype: str) -> Array:
    """Return float64 numbers with another dtype, if that changes no value."""
    with np.errstate(invalid="ignore"):
        found = numbers.astype(dtype)
    return found if np.array_equal(found, numbers) else numbers
