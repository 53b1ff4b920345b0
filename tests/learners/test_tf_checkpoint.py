"""The index of a TensorFlow checkpoint is read byte by byte: it may be anybody's."""

from collections.abc import Sequence
from typing import Any

import pytest
from tensorflow.core.framework import types_pb2
from tensorflow.core.protobuf import tensor_bundle_pb2

from xagents_ray.learners.formats.tf_checkpoint import (
    _block,
    _checkpoint_keys,
    _float_tensor_size,
    _varint,
)

FLOAT, DOUBLE, BOOL = types_pb2.DT_FLOAT, types_pb2.DT_DOUBLE, types_pb2.DT_BOOL
MAGIC = bytes.fromhex("57fb808b247547db")


def number(value: int, width: int = 1) -> bytes:
    """Return a number in LEB128 of at least `width` bytes."""
    parts = [value & 127]
    while (value := value >> 7) or len(parts) < width:
        parts.append(value & 127)
    return bytes([*(part | 128 for part in parts[:-1]), parts[-1]])


def entry(key: bytes, value: bytes = b"", shared: int = 0) -> bytes:
    return number(shared) + number(len(key)) + number(len(value)) + key + value


def block(*entries: bytes, restarts: Sequence[int] = (0,)) -> bytes:
    """Return a block of a table, without the five bytes behind it."""
    ends = b"".join(each.to_bytes(4, "little") for each in (*restarts, len(restarts)))
    return b"".join(entries) + ends


def read(content: bytes, before: bytes = b"", after: bytes = bytes(5)) -> Any:
    return _block(before + content + after, len(before), len(content))


@pytest.mark.parametrize(
    ("data", "at", "found"),
    [
        (b"\x05", 0, (5, 1)),
        (b"\x7f", 0, (127, 1)),
        (b"\x80\x01", 0, (128, 2)),
        (b"\xff\xac\x02", 1, (300, 3)),
        (b"\x80" * 9 + b"\x01", 0, (1 << 63, 10)),
    ],
)
def test_numbers(data: bytes, at: int, found: tuple[int, int]) -> None:
    assert _varint(data, at) == found


def test_a_number_has_ten_bytes_at_most() -> None:
    with pytest.raises(ValueError, match="a number without an end"):
        _varint(b"\x80" * 10 + b"\x01", 0)


def test_entries_of_a_block() -> None:
    """Keys share the beginning of the one before them, or all of it."""
    first, second = entry(b"abc", b"1"), entry(b"d", b"22", shared=2)
    whole, last = entry(b"", b"3", shared=3), entry(b"x")
    restarts = 0, len(first + second + whole)
    content = block(first, second, whole, last, restarts=restarts)
    found = [(b"abc", b"1"), (b"abd", b"22"), (b"abd", b"3"), (b"x", b"")]
    assert read(content) == read(content, before=b"before") == found


@pytest.mark.parametrize("content", [bytes(4), block()], ids=["no restart", "one"])
def test_a_block_may_be_empty(content: bytes) -> None:
    assert read(content, before=b"before") == []


@pytest.mark.parametrize(
    ("content", "after", "message"),
    [
        (bytes(3), bytes(5), "not an uncompressed block"),
        (block(entry(b"a")), bytes(4), "not an uncompressed block"),
        (block(entry(b"a")), b"\x01" + bytes(4), "not an uncompressed block"),
        (b"\x01" + bytes(3), bytes(5), "more restarts than the block has room for"),
        (block(entry(b"a", shared=1)), bytes(5), "an entry that leaves its block"),
        (block(entry(b"a", b"b")[:-1]), bytes(5), "an entry that leaves its block"),
        (block(entry(b"ab"), restarts=[0, 1]), bytes(5), "a restart within an entry"),
        (
            block(entry(b"a"), entry(b"", b"1", shared=1), restarts=[0, 4]),
            bytes(5),
            "a restart within an entry",
        ),
    ],
)
def test_damaged_blocks(content: bytes, after: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read(content, after=after)


def test_keys_are_at_most_64_times_as_large_as_their_block() -> None:
    def shared(count: int) -> bytes:
        return block(entry(b"k" * 1_000), *[entry(b"", shared=1_000)] * count)

    assert len(read(shared(80))) == 81
    with pytest.raises(ValueError, match="keys that are much larger than their block"):
        read(shared(100))


def tensor(
    sides: Sequence[int] = (2, 3),
    dtype: int = FLOAT,
    size: int = 24,
    offset: int = 0,
    **more: Any,
) -> bytes:
    """Return the index entry of a tensor."""
    made = tensor_bundle_pb2.BundleEntryProto(
        dtype=dtype, size=size, offset=offset, **more
    )
    for side in sides:
        made.shape.dim.add(size=side)
    return bytes(made.SerializeToString())


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (tensor(), 24),
        (tensor([3], DOUBLE), 24),
        (tensor([], size=4, offset=20), 4),
        (tensor([0, 5], size=0), 0),
        (tensor([1] * 8, size=4), 4),
        (tensor([24], BOOL), None),
    ],
)
def test_sizes_of_tensors(value: bytes, size: int | None) -> None:
    """The file with the data has 24 bytes."""
    assert _float_tensor_size(value, 24) == size


@pytest.mark.parametrize(
    "value",
    [
        tensor(offset=1),
        tensor(offset=-1),
        tensor(size=-1),
        tensor([-2, -3]),
        tensor([1] * 9, size=4),
        tensor([25], BOOL),
        tensor(shard_id=1),
        tensor(slices=[{}]),
    ],
)
def test_damaged_entries(value: bytes) -> None:
    with pytest.raises(ValueError, match="not a tensor's entry"):
        _float_tensor_size(value, 24)


@pytest.mark.parametrize("value", [tensor(size=20), tensor([3], DOUBLE, 12)])
def test_shapes_and_sizes_that_disagree(value: bytes) -> None:
    with pytest.raises(ValueError, match="a tensor's shape and size disagree"):
        _float_tensor_size(value, 24)


def index(*blocks: bytes, width: int = 1, shift: int = 0) -> bytes:
    """Return an index with blocks of entries.

    Args:
        blocks: the blocks.
        width: bytes of each number in the footer.
        shift: how much earlier each block is said to begin than it does.
    """
    data, handles = b"", list[bytes]()
    for each in blocks:
        handle = number(max(0, len(data) - shift)) + number(len(each))
        handles.append(entry(bytes([len(handles) + 1]), handle))
        data += each + bytes(5)
    places = list[int]()
    for each in block(), block(*handles):
        places += [len(data), len(each)]
        data += each + bytes(5)
    footer = b"".join(number(each, width) for each in places)
    return data + footer.ljust(40, b"\0") + MAGIC


HEADER = tensor_bundle_pb2.BundleHeaderProto(num_shards=1).SerializeToString()
FIRST, SECOND = entry(b"a", tensor()), entry(b"b", tensor(offset=24))


@pytest.mark.parametrize("width", [1, 10])
def test_an_index_has_a_header_and_tensors(width: int) -> None:
    """Numbers of the footer may take all of its bytes."""
    flags = entry(b"c", tensor([24], BOOL))
    made = index(block(entry(b"", HEADER), FIRST), block(SECOND, flags), width=width)
    assert _checkpoint_keys(made, 48) == ["a", "b"]


def test_an_index_needs_its_magic_number() -> None:
    made = index(block(entry(b"", HEADER), FIRST))
    for damaged in (made[-47:], made[:-1] + b"\0"):
        with pytest.raises(ValueError, match="not a checkpoint's index"):
            _checkpoint_keys(damaged, 48)
    with pytest.raises(ValueError, match="not an uncompressed block"):
        _checkpoint_keys(bytes(40) + MAGIC, 48)


def test_an_index_needs_a_header() -> None:
    for damaged in (
        entry(b"x", HEADER),
        entry(b"", tensor_bundle_pb2.BundleHeaderProto().SerializeToString()),
        entry(b"", HEADER + b"\x10\x01"),  # big-endian
    ):
        with pytest.raises(ValueError, match="not a checkpoint's header"):
            _checkpoint_keys(index(block(damaged, FIRST)), 48)


def test_nothing_is_read_twice() -> None:
    """Small files could take the memory."""
    both = block(entry(b"", HEADER), FIRST, entry(b"b", tensor()))
    assert _checkpoint_keys(index(both), 48) == ["a", "b"]
    with pytest.raises(ValueError, match="tensors that share bytes"):
        _checkpoint_keys(index(both), 47)
    first, second = block(entry(b"", HEADER), FIRST), block(SECOND)
    with pytest.raises(ValueError, match="blocks that overlap"):
        _checkpoint_keys(index(first, second, shift=len(second) + 5), 48)
