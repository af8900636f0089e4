"""Which files of a scan can be read by one call of `spark.read`, and what must be added to their rows.

A file is cheapest to read when nothing has to be joined to its rows, so files are told apart by what they need.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.types import (
    ByteType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
)

from anabranch.protocol.hive_paths import NULL_DIRECTORY, partition_path
from anabranch.spark.file_listing import FileListing
from anabranch.spark.portable.spark_paths import is_beyond_spark

_BY_DIRECTORY = (ByteType, ShortType, IntegerType, LongType, DateType)
"""Types that Spark reads from a directory's name just as the log writes them, and strings."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Partitioning:
    """What of a table decides about the names of its directories."""

    table_root: str
    types: Mapping[str, DataType]
    """By physical name of the partition column, in the table's order."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileGroup:
    """Files that one DataFrame reads."""

    file_ids: npt.NDArray[np.int64]
    """Rows of the file table, ascending."""
    by_spark: bool
    """Whether Spark's Parquet reader can open them; else Python does."""
    by_directory: bool
    """Whether their directories say the partition values, so that Spark can skip by them."""
    hides_rows: bool
    layout: int
    """Which of the layouts of the scan their columns have."""


def groups_of(
    listing: FileListing, partitioning: Partitioning, *, layout_of: npt.NDArray[np.int32]
) -> Iterator[FileGroup]:
    """Every file in exactly one group."""
    beyond = np.fromiter((is_beyond_spark(name) for name in listing.names.to_pylist()), np.bool_, listing.count)
    by_directory = _says_its_values(listing, partitioning) & ~beyond
    kinds = np.stack([~beyond, by_directory, listing.has_vector, layout_of], axis=1).astype(np.int64)
    for kind in np.unique(kinds, axis=0):
        by_spark, directory, hides, layout = map(int, kind)
        yield FileGroup(
            file_ids=np.flatnonzero((kinds == kind).all(axis=1)),
            by_spark=bool(by_spark),
            by_directory=bool(directory),
            hides_rows=bool(hides),
            layout=layout,
        )


def _says_its_values(listing: FileListing, partitioning: Partitioning) -> npt.NDArray[np.bool_]:
    """For each file whether it lies in the very directory that Spark would make for its partition values."""
    if not partitioning.types or not all(map(_reads_from_directory, partitioning.types.values())):
        return np.zeros(listing.count, dtype=np.bool_)
    expected = [_directory(partitioning, values) for values in _rows(listing.groups)]
    found = (name.rpartition("/")[0] for name in listing.names.to_pylist())
    groups = listing.group_of.tolist()
    return np.fromiter((directory == expected[group] for directory, group in zip(found, groups, strict=True)), np.bool_)


def _rows(columns: Sequence[pa.Array]) -> Iterator[tuple[str | None, ...]]:
    return zip(*(column.to_pylist() for column in columns), strict=True)


def _directory(partitioning: Partitioning, values: Sequence[str | None]) -> str | None:
    """None where a value looks like the name that stands for null."""
    if NULL_DIRECTORY in values:
        return None
    below = partition_path(dict(zip(partitioning.types, values, strict=True)))
    return f"{partitioning.table_root.rstrip('/')}/{below}"


def _reads_from_directory(data_type: DataType) -> bool:
    if isinstance(data_type, StringType):
        return getattr(data_type, "collation", "UTF8_BINARY") == "UTF8_BINARY"
    return isinstance(data_type, _BY_DIRECTORY)
