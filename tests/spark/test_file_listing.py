"""Files of a scan as columns."""

from __future__ import annotations

import pyarrow as pa
import pytest

from anabranch.errors.protocol import UnsafePathError
from anabranch.log.file_columns import table_of_adds
from anabranch.protocol.actions import AddFile
from anabranch.protocol.data_paths import file_root
from anabranch.spark.rows.file_listing import listing_of


def add(path: str, **partition_values: str | None) -> AddFile:
    return AddFile(path=path, partition_values=partition_values, size=len(path), modification_time=7, data_change=True)


def test_groups_are_the_distinct_partition_values() -> None:
    """Null, an empty string and a value that is not there are one and the same."""
    adds = [add("a", x="1", y="b"), add("b", x="1", y=None), add("c", x="1"), add("d", x="1", y=""), add("e", y="b")]
    listing = listing_of(table_of_adds(adds), table_root="/t", physical_partition_columns=["x", "y"])
    rows = [tuple(column[group].as_py() for column in listing.groups) for group in listing.group_of]
    assert rows == [("1", "b"), ("1", None), ("1", None), ("1", None), (None, "b")]
    assert listing.group_count == 3


def test_many_columns_of_many_values_do_not_mix() -> None:
    adds = [add(str(n), **{f"c{i}": str(n // (i + 1)) for i in range(12)}) for n in range(500)]
    listing = listing_of(table_of_adds(adds), table_root="/t", physical_partition_columns=[f"c{i}" for i in range(12)])
    assert listing.group_count == 500
    for n, group in enumerate(listing.group_of):
        assert [column[group].as_py() for column in listing.groups] == [str(n // (i + 1)) for i in range(12)]


def test_names_are_absolute_and_decoded_once() -> None:
    listing = listing_of(
        table_of_adds([add("a%20b/c%2525.parquet")]), table_root="/t x%20/", physical_partition_columns=[]
    )
    assert pa.chunked_array(listing.names).to_pylist() == ["file:/t x%20/a b/c%25.parquet"]
    assert file_root("s3a://b/t") == "s3a://b/t"


def test_files_elsewhere_need_a_prefix() -> None:
    files = table_of_adds([add("file:///else/x%20y.parquet"), add("z.parquet")])
    listing = listing_of(files, table_root="/t", physical_partition_columns=[], allowed_prefixes=["/else"])
    assert pa.chunked_array(listing.names).to_pylist() == ["file:/else/x y.parquet", "file:/t/z.parquet"]
    with pytest.raises(UnsafePathError):
        listing_of(files, table_root="/t", physical_partition_columns=[])


def test_no_files() -> None:
    listing = listing_of(table_of_adds([]), table_root="/t", physical_partition_columns=["x"])
    assert (listing.count, listing.group_count) == (0, 0)
