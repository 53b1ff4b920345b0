"""Sizes of pages are those that a whole file's footer says too."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from xagents_ray.storage.parquet_pages import unpacked_size


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [False, True])
@pytest.mark.parametrize("checksum", [False, True])
def test_sizes_of_pages(version: str, dictionary: bool, checksum: bool) -> None:
    rng, out = np.random.default_rng(1), io.BytesIO()
    table = pa.table({"a": rng.normal(size=5_000), "b": rng.integers(9, size=5_000)})
    parquet.write_table(
        table,
        out,
        data_page_version=version,
        use_dictionary=dictionary,
        write_page_checksum=checksum,
        data_page_size=4_000,
        row_group_size=2_000,
        compression="zstd",
    )
    data, metadata = out.getvalue(), parquet.ParquetFile(out).metadata
    for i in range(3):
        for j in range(2):
            chunk = metadata.row_group(i).column(j)
            start = chunk.data_page_offset
            if chunk.has_dictionary_page:
                start = chunk.dictionary_page_offset
            end = start + chunk.total_compressed_size
            headers = chunk.total_uncompressed_size - unpacked_size(data, start, end)
            assert 0 < headers < 0.1 * chunk.total_uncompressed_size + 200
            with pytest.raises((ValueError, IndexError, KeyError)):
                unpacked_size(data[: end - 9], start, len(data))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x15\x00\x15\x01\x15\x00\x00",
        b"\x1c" * 99,
        b"\xff" * 99,
        b"\x19\xf1" + b"\xff" * 8 + b"\x01",
    ],
    ids=["nothing", "negative", "deep", "no number", "long list"],
)
def test_headers_that_are_none(data: bytes) -> None:
    with pytest.raises((ValueError, IndexError, KeyError)):
        unpacked_size(data, 0, 100)
