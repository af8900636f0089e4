"""The partitions of files, and those that a condition on partition values chooses."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import StringType, StructField, StructType

from anabranch.commands.table_access import TableRef
from anabranch.data_skipping.file_skipping import can_be_true, files_wholly_true
from anabranch.errors.maintenance import NonPartitionColumnError, PartitionConditionError
from anabranch.log.file_columns import FileMask
from anabranch.protocol.partition_values import parse_column
from anabranch.schema.column_mapping import physical_name
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.conditions.user_condition import ReadCondition, resolve_condition
from anabranch.spark.rows.file_listing import FileListing, listing_of
from anabranch.storage.external_files import allowed_prefixes_of

_GROUP = "__anabranch_group"


def partitions_of(table: TableRef, snapshot: Snapshot) -> npt.NDArray[np.int64]:
    """The number of the partition of each file, which does not depend on how the log spells partition values."""
    listing, zone = _listing(table, snapshot), table.session.time_zone
    number_of = np.zeros(listing.group_count, dtype=np.int64)
    for texts, name in zip(listing.groups, snapshot.partition_columns, strict=True):
        values = parse_column(texts, snapshot.schema[name].dataType, zone=zone)
        codes = values.dictionary_encode(null_encoding="encode")
        width = max(len(codes.dictionary), 1)
        _, number_of = np.unique(number_of * width + codes.indices.to_numpy(), return_inverse=True)
    return np.asarray(number_of[listing.group_of], dtype=np.int64)


def files_of_partitions(table: TableRef, snapshot: Snapshot, condition: str | None) -> FileMask:
    """The files of the partitions for which `condition` is true; all files without a condition.

    Raises `NonPartitionColumnError`, `PartitionConditionError`, and Spark's `ParseException`.
    """
    everything = np.ones(snapshot.files.count, dtype=np.bool_)
    if condition is None:
        return everything
    resolved = _resolved(table, snapshot, condition)
    possible = can_be_true(resolved.predicate, snapshot.skipping_columns)
    certain = files_wholly_true(
        snapshot.files.table,
        resolved.predicate,
        physical_schema=snapshot.physical_schema,
        partition_columns=snapshot.physical_partition_columns,
        columns=snapshot.skipping_columns,
    )
    return possible if (possible == certain).all() else _partitions_by_spark(table, snapshot, resolved)


def _resolved(table: TableRef, snapshot: Snapshot, condition: str) -> ReadCondition:
    """The condition resolved against the partition columns. Raises as `files_of_partitions`."""
    partitions = StructType([snapshot.schema[name] for name in snapshot.partition_columns])
    try:
        resolved = resolve_condition(
            table.session.spark,
            condition,
            schema=partitions,
            column_mapping=snapshot.column_mapping_mode,
            now_ms=table.session.clock.now_ms(),
            reads_table=lambda _: False,
        )
    except ParseException:
        raise
    except AnalysisException as error:
        if (error.getCondition() or "").startswith("UNRESOLVED_COLUMN"):
            name = (error.getMessageParameters() or {}).get("objectName", condition).replace("`", "")
            columns = snapshot.partition_columns
            raise NonPartitionColumnError(table=table.label, column=name, partition_columns=columns) from error
        problem = str(error).split("\n", 1)[0].rstrip(".")
        raise PartitionConditionError(table=table.label, predicate=condition, problem=problem) from error
    if resolved.has_subquery:
        problem = "it has a subquery, or is not a condition; compare partition columns with values"
        raise PartitionConditionError(table=table.label, predicate=condition, problem=problem)
    return resolved


def _partitions_by_spark(table: TableRef, snapshot: Snapshot, condition: ReadCondition) -> FileMask:
    """The files for which Spark evaluates the condition as true, on one row for each partition."""
    listing = _listing(table, snapshot)
    fields = [snapshot.schema[name] for name in snapshot.partition_columns]
    texts = [column.to_pylist() for column in listing.groups]
    rows = [(str(group), *(column[group] for column in texts)) for group in range(listing.group_count)]
    # The columns are named by position, since a partition column may have any name.
    stored = StructType([StructField(f"c{i}", StringType()) for i in range(len(fields) + 1)])
    typed = [F.col(f"c{i + 1}").cast(field.dataType).alias(field.name) for i, field in enumerate(fields)]
    values = table.session.spark.createDataFrame(rows, stored).select(F.col("c0").alias(_GROUP), *typed)
    groups = values.where(condition.condition).select(_GROUP).collect()
    chosen = np.zeros(listing.group_count, dtype=np.bool_)
    chosen[[int(row[0]) for row in groups]] = True
    return np.asarray(chosen[listing.group_of], dtype=np.bool_)


def _listing(table: TableRef, snapshot: Snapshot) -> FileListing:
    """The files of the snapshot, grouped by their partition values as the log spells them."""
    fields = [snapshot.schema[name] for name in snapshot.partition_columns]
    names = [physical_name(field, snapshot.column_mapping_mode) for field in fields]
    files: pa.Table = snapshot.files.table
    prefixes = allowed_prefixes_of(table.delta_log.store)
    return listing_of(files, table_root=table.path, physical_partition_columns=names, allowed_prefixes=prefixes)
