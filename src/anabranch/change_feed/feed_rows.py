"""The rows of a change data feed: at most three scans, one for each kind of file, for any number of versions."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence

import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import DataFrame

from anabranch.change_feed.feed_columns import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION, feed_schema
from anabranch.change_feed.feed_files import FeedFiles, differing_rows
from anabranch.data_skipping.file_skipping import SkippingColumns, can_be_true
from anabranch.deletion_vectors.vector_reading import LoadVectors
from anabranch.log.file_columns import FileMask, table_of_adds
from anabranch.predicates.expressions import Predicate
from anabranch.protocol.actions import AddFile, DeletionVectorDescriptor
from anabranch.schema.column_mapping import physical_name, to_physical
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.engine import ScanRequest
from anabranch.spark.native.native_engine import NativeEngine


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FeedSource:
    """The table whose changes are read, and how."""

    snapshot: Snapshot
    """The version whose columns the result has."""
    table_root: str
    """The path of the table in Spark's file system."""
    table: str
    """The name of the table in messages."""
    load_vectors: LoadVectors
    allowed_prefixes: tuple[str, ...] = ()
    """Folders outside of the table in which its data files may lie."""
    options: Sequence[tuple[str, str]] = ()


def feed_rows(engine: NativeEngine, source: FeedSource, files: FeedFiles) -> DataFrame:
    """The rows of these files, with `_change_type`, `_commit_version` and `_commit_timestamp` after their columns.

    Raises `ReservedColumnsError`.
    """
    requests = [
        _request(source, files.change_data, constants=(COMMIT_VERSION, COMMIT_TIMESTAMP)),
        _request(source, files.whole),
        _request(source, files.partial, differences=files),
    ]
    wanted = [request for request in requests if len(request.files)] or requests[:1]
    return functools.reduce(DataFrame.union, map(engine.scan, wanted))


def _request(
    source: FeedSource,
    adds: Sequence[AddFile],
    *,
    constants: tuple[str, ...] = (CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP),
    differences: FeedFiles | None = None,
) -> ScanRequest:
    """A scan of files. `constants` are the feed's columns with one value for each file, read like partition values."""
    snapshot = source.snapshot
    mode = snapshot.column_mapping_mode
    schema = feed_schema(snapshot.schema, mode, table=source.table)
    partition_columns = (*snapshot.partition_columns, *constants)
    table = table_of_adds(adds)
    return ScanRequest(
        table_root=source.table_root,
        version=None,
        schema=schema,
        partition_columns=partition_columns,
        column_mapping=mode,
        files=table,
        load_vectors=source.load_vectors if differences is None else _differing(source.load_vectors, differences),
        prune=_pruning(
            table,
            SkippingColumns(
                table,
                physical_schema=to_physical(schema, mode),
                partition_columns=[physical_name(schema[name], mode) for name in partition_columns],
            ),
        ),
        vectors_show=differences is not None,
        allowed_prefixes=source.allowed_prefixes,
        options=source.options,
    )


def _pruning(table: pa.Table, columns: SkippingColumns) -> Callable[[Predicate], FileMask]:
    assert columns.count == len(table)
    return lambda predicate: can_be_true(predicate, columns)


def _differing(load_vectors: LoadVectors, files: FeedFiles) -> LoadVectors:
    """Loads the rows that one vector hides and another does not. Each difference has the bound of its file."""

    def load(descriptors: Sequence[DeletionVectorDescriptor], **_: object) -> list[BitMap64]:
        differences = [files.differences[descriptor.path_or_inline_dv] for descriptor in descriptors]
        return differing_rows(differences, load_vectors)

    return load
