"""Sizes of a parquet file's pages, of which the file's footer may say anything.

Arrow allocates what the header of a page states before it unpacks the page. A header is
a struct in Thrift's compact protocol.
Source: github.com/apache/parquet-format, `PageHeader` in parquet.thrift.
"""

_UNPACKED, _PACKED = 2, 3  # fields of a page's header
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY = range(1, 9)
_LIST, _SET, _, _STRUCT = range(9, 13)  # headers have no maps
_DEEPEST = 8  # levels of nesting; there are 3


def unpacked_size(data: bytes, start: int, end: int) -> int:
    """Return the size that a column's pages have when they are unpacked, in bytes.

    Args:
        data: the file.
        start: position of the first page's header.
        end: position after the last page.
    Raises:
        ValueError, IndexError: the headers are damaged.
    """
    total = 0
    while start < end:
        header = _Header(data, start)
        unpacked, packed = header.sizes()
        if min(unpacked, packed) < 0:
            raise ValueError("a page of a negative size")
        total += unpacked
        start = header.at + packed
    return total


class _Header:
    """Reads a page's header from position `at`, which moves behind it."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self.at = data, at

    def sizes(self) -> tuple[int, int]:
        """Return the unpacked and the packed size of the page, in bytes."""
        found = self._struct(0)
        return found[_UNPACKED], found[_PACKED]

    def _byte(self) -> int:
        self.at += 1
        return self._data[self.at - 1]

    def _varint(self) -> int:
        number = 0
        for i in range(10):
            byte = self._byte()
            number |= (byte & 127) << (7 * i)
            if byte < 128:
                return number
        raise ValueError("a number without an end")

    def _struct(self, depth: int) -> dict[int, int]:
        """Skip a struct; return its integers by field."""
        found: dict[int, int] = {}
        field = 0
        while head := self._byte():
            field = field + (head >> 4) if head >> 4 else self._signed()
            kind = head & 15
            if kind in (_I16, _I32, _I64):
                found[field] = self._signed()
            elif kind not in (_TRUE, _FALSE):  # which have no more bytes
                self._skip(kind, depth)
        return found

    def _signed(self) -> int:
        number = self._varint()
        return (number >> 1) ^ -(number & 1)

    def _skip(self, kind: int, depth: int) -> None:
        """Skip a value inside a struct or a collection."""
        if depth == _DEEPEST or self.at > len(self._data):
            raise ValueError("a header without an end")
        if kind in (_TRUE, _FALSE, _BYTE):
            self.at += 1
        elif kind in (_I16, _I32, _I64):
            self._varint()
        elif kind == _DOUBLE:
            self.at += 8
        elif kind == _BINARY:
            length = self._varint()
            self.at += length
        elif kind in (_LIST, _SET):
            head = self._byte()
            count = self._varint() if head >> 4 == 15 else head >> 4
            for _ in range(count):
                self._skip(head & 15, depth + 1)
        elif kind == _STRUCT:
            self._struct(depth + 1)
        else:
            raise ValueError("a value of another type")
