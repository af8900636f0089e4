"""The files of a scan as columns, passed to the JVM at once: nothing here is done file by file."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DoubleType, FloatType, StructField, StructType

from anabranch.data_skipping.partition_columns import partition_texts
from anabranch.errors.protocol import PartitionValueError
from anabranch.protocol.data_paths import decode_path_column
from anabranch.protocol.partition_values import parse_column
from anabranch.schema.paths import contains_type


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FileListing:
    """The columns of files have an entry for each file, `groups` has one for each distinct row of partition values."""

    names: tuple[pa.Array, ...]
    """Absolute plain paths, as Spark writes them, one array after the other."""
    sizes: npt.NDArray[np.int64]
    times_ms: npt.NDArray[np.int64]
    group_of: npt.NDArray[np.int32]
    groups: tuple[pa.Array, ...]
    """For each partition column the values as text, in the form of the log; null for null."""
    group_count: int
    has_vector: npt.NDArray[np.bool_]

    @property
    def count(self) -> int:
        return len(self.sizes)


def listing_of(
    files: pa.Table,
    *,
    table_root: str,
    physical_partition_columns: Sequence[str],
    allowed_prefixes: Sequence[str] = (),
) -> FileListing:
    """The listing of live files. Raises `UnsafePathError` for a path that leaves the table."""
    texts = [partition_texts(files["partition_values"], name) for name in physical_partition_columns]
    groups, group_of = _grouped(texts, len(files))
    return FileListing(
        names=tuple(
            absolute_names(paths, table_root=table_root, allowed_prefixes=allowed_prefixes)
            for paths in files["path"].chunks
        ),
        sizes=_integers(files["size"]),
        times_ms=_integers(files["modification_time"]),
        group_of=group_of,
        groups=groups,
        group_count=int(group_of.max()) + 1 if len(group_of) else 0,
        has_vector=files["deletion_vector"].is_valid().to_numpy().astype(np.bool_),
    )


@contextlib.contextmanager
def naming_bad_values(listing: FileListing, fields: Sequence[StructField], *, table: str) -> Iterator[None]:
    """A block whose failure is a `PartitionValueError`, if a partition value of the listing does not parse."""
    try:
        yield
    except Exception:
        for field, texts in zip(fields, listing.groups, strict=True):
            try:
                parse_column(texts, field.dataType)
            except PartitionValueError as error:
                raise dataclasses.replace(error, column=field.name, table=table) from None
        raise


def absolute_names(paths: pa.Array, *, table_root: str, allowed_prefixes: Sequence[str] = ()) -> pa.Array:
    """Paths of the log as absolute plain paths below `table_root`, or below an allowed prefix, as Hadoop takes them."""
    plain = decode_path_column(paths.cast(pa.string()), table_root=table_root, allowed_prefixes=allowed_prefixes)
    below = pc.binary_join_element_wise(file_root(table_root).rstrip("/"), plain, "/")
    for prefix in allowed_prefixes:
        elsewhere = pc.binary_join_element_wise("file:" if prefix.startswith("/") else "", plain, "")
        below = pc.if_else(pc.starts_with(plain, prefix.rstrip("/") + "/"), elsewhere, below)
    return below


def file_root(table_root: str) -> str:
    """`table_root` as Hadoop reads it: a local path gets its scheme, since the default file system may be another."""
    return f"file:{table_root}" if table_root.startswith("/") else table_root


def _grouped(columns: list[pa.Array], count: int) -> tuple[tuple[pa.Array, ...], npt.NDArray[np.int32]]:
    """The distinct rows of `columns`, and the number of its distinct row for each row."""
    group_of = np.zeros(count, dtype=np.int64)
    for column in columns:
        coded = column.dictionary_encode(null_encoding="encode")
        width = max(len(coded.dictionary), 1)
        _, group_of = np.unique(group_of * width + coded.indices.to_numpy().astype(np.int64), return_inverse=True)
    _, firsts = np.unique(group_of, return_index=True)
    return tuple(column.take(pa.array(firsts)) for column in columns), group_of.astype(np.int32)


def _integers(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    return np.asarray(pc.fill_null(column, 0).to_numpy(), dtype=np.int64)


_NO_DICTIONARY_FILTER = {"parquet.filter.dictionary.enabled": "false"}


def filter_options(schema: StructType) -> dict[str, str]:
    """Options for reading files of these columns, so that `x = 0.0` finds -0.0.

    In SQL the two are equal; the dictionary filter of the Parquet library compares their bits, and skips row groups
    whose only zero is the other one. Statistics do no harm: writers must widen them for zeros.
    """
    return dict(_NO_DICTIONARY_FILTER) if contains_type(schema, (FloatType, DoubleType)) else {}
