"""The partitions that a condition means, told by their values alone."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import StringType, StructField, StructType

from anabranch.commands.table_access import TableHandle
from anabranch.errors.optimize import NonPartitionColumnError, PartitionConditionError
from anabranch.predicates.expressions import columns_of, walk
from anabranch.predicates.normalisation import to_physical
from anabranch.predicates.sql import parse_predicate
from anabranch.protocol.partition_values import parse_column
from anabranch.schema.column_mapping import physical_name, physical_paths
from anabranch.snapshot.scan_plan import can_be_true, files_wholly_true
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.engine import FileMask
from anabranch.spark.file_listing import FileListing, listing_of
from anabranch.spark.unresolved.condition_text import text_condition
from anabranch.storage.elsewhere import allowed_places

_GROUP = "__anabranch_group"


def partitions_of(handle: TableHandle, snapshot: Snapshot) -> npt.NDArray[np.int64]:
    """A number for each file, the same for files of one partition, however the log spells its values."""
    listing, zone = _listing(handle, snapshot), _time_zone(handle)
    number_of = np.zeros(listing.group_count, dtype=np.int64)
    for texts, name in zip(listing.groups, snapshot.partition_columns, strict=True):
        values = parse_column(texts, snapshot.schema[name].dataType, zone=zone)
        codes = values.dictionary_encode(null_encoding="encode")
        width = max(len(codes.dictionary), 1)
        _, number_of = np.unique(number_of * width + codes.indices.to_numpy(), return_inverse=True)
    return np.asarray(number_of[listing.group_of], dtype=np.int64)


def files_of_partitions(handle: TableHandle, snapshot: Snapshot, condition: str | None) -> FileMask:
    """The files of the partitions for which `condition` is true; all files without one.

    Raises `NonPartitionColumnError`, `PartitionConditionError`, `PredicateSyntaxError`.
    """
    everything = np.ones(snapshot.files.count, dtype=np.bool_)
    if condition is None:
        return everything
    zone = _time_zone(handle)
    logical = parse_predicate(condition, schema=snapshot.schema, session_time_zone=zone)
    for node in walk(logical):
        for column in columns_of(node):
            _check_column(handle, snapshot, ".".join(column.path))
    predicate = to_physical(logical, physical_paths(snapshot.schema, snapshot.column_mapping_mode))
    possible = can_be_true(predicate, snapshot.skipping_columns)
    certain = files_wholly_true(
        snapshot.files.table,
        predicate,
        physical_schema=snapshot.physical_schema,
        partition_columns=snapshot.physical_partition_columns,
        columns=snapshot.skipping_columns,
    )
    return possible if (possible == certain).all() else _asked_of_spark(handle, snapshot, condition)


def _check_column(handle: TableHandle, snapshot: Snapshot, name: str) -> None:
    if name.lower() not in {known.lower() for known in snapshot.partition_columns}:
        raise NonPartitionColumnError(table=handle.label, column=name, partition_columns=snapshot.partition_columns)


def _asked_of_spark(handle: TableHandle, snapshot: Snapshot, condition: str) -> FileMask:
    """The condition, asked of one row a partition: for what only Spark understands."""
    session, zone = handle.session, _time_zone(handle)
    words = text_condition(
        session.spark, condition, schema=snapshot.schema, alias=None, time_zone=zone, now_ms=session.clock.now_ms()
    )
    if words.has_subquery:
        problem = "it asks other rows, or is no condition; write the values of partition columns"
        raise PartitionConditionError(table=handle.label, predicate=condition, problem=problem)
    listing = _listing(handle, snapshot)
    fields = [snapshot.schema[name] for name in snapshot.partition_columns]
    texts = [column.to_pylist() for column in listing.groups]
    rows = [(str(group), *(column[group] for column in texts)) for group in range(listing.group_count)]
    # By position, since a column may have any name.
    stored = StructType([StructField(f"c{i}", StringType()) for i in range(len(fields) + 1)])
    typed = [F.col(f"c{i + 1}").cast(field.dataType).alias(field.name) for i, field in enumerate(fields)]
    values = session.spark.createDataFrame(rows, stored).select(F.col("c0").alias(_GROUP), *typed)
    try:
        found = values.where(F.expr(words.frozen)).select(_GROUP).collect()
    except AnalysisException as error:
        if (error.getCondition() or "").startswith("UNRESOLVED_COLUMN"):
            name = (error.getMessageParameters() or {}).get("objectName", condition).strip("`")
            columns = snapshot.partition_columns
            raise NonPartitionColumnError(table=handle.label, column=name, partition_columns=columns) from error
        problem = str(error).split("\n", 1)[0].rstrip(".")
        raise PartitionConditionError(table=handle.label, predicate=condition, problem=problem) from error
    chosen = np.zeros(listing.group_count, dtype=np.bool_)
    chosen[[int(row[0]) for row in found]] = True
    return np.asarray(chosen[listing.group_of], dtype=np.bool_)


def _listing(handle: TableHandle, snapshot: Snapshot) -> FileListing:
    fields = [snapshot.schema[name] for name in snapshot.partition_columns]
    names = [physical_name(field, snapshot.column_mapping_mode) for field in fields]
    files: pa.Table = snapshot.files.table
    places = allowed_places(handle.table.store)
    return listing_of(files, table_root=handle.path, physical_partition_columns=names, allowed_prefixes=places)


def _time_zone(handle: TableHandle) -> str:
    return handle.session.setting("spark.sql.session.timeZone", "UTC") or "UTC"
