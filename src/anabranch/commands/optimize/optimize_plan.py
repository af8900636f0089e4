"""Which files OPTIMIZE and REORG rewrite, and which of them together."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import StringType, StructField, StructType

from anabranch.commands.optimize.optimize_settings import OptimizeSettings
from anabranch.commands.table_access import TableRef
from anabranch.data_skipping.scan_plan import can_be_true, files_wholly_true
from anabranch.errors.maintenance import NonPartitionColumnError, PartitionConditionError
from anabranch.log.file_columns import FileMask
from anabranch.protocol.partition_values import parse_column
from anabranch.schema.column_mapping import physical_name
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.conditions.user_condition import ReadCondition, resolve_condition
from anabranch.spark.rows.file_listing import FileListing, listing_of
from anabranch.storage.external_files import allowed_prefixes_of

# Which files are rewritten together: by partition, smallest first, as long as the result is not too large.


Rows = npt.NDArray[np.intp]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PlannedBin:
    """Files of one partition that become one, or a few where their rows are ordered anew."""

    partition: int
    """Number of the partition among those of the plan's files."""
    files: tuple[int, ...]
    """Rows of the snapshot's file table."""
    size_bytes: int


def pack(
    files: Rows,
    *,
    sizes: npt.NDArray[np.int64],
    partitions: npt.NDArray[np.integer],
    bin_bytes_max: int | None,
    keep_single: bool,
) -> list[PlannedBin]:
    """Bins of `files`; `sizes` and `partitions` have an entry for each file of the table.

    Without `bin_bytes_max`, a partition is one bin. A file by itself gains nothing from being written again: its bin
    is left out, unless `keep_single`.
    """
    order = files[np.lexsort((files, sizes[files], partitions[files]))]
    found = pack_in_order(order, sizes=sizes, partitions=partitions, bin_bytes_max=bin_bytes_max)
    return [each for each in found if keep_single or len(each.files) > 1]


def pack_in_order(
    order: Rows,
    *,
    sizes: npt.NDArray[np.int64],
    partitions: npt.NDArray[np.integer],
    bin_bytes_max: int | None,
) -> list[PlannedBin]:
    """Bins of files that come in a given order, those of one partition one after the other."""
    found: list[PlannedBin] = []
    here: list[int] = []
    total = 0
    for file in order.tolist():
        size = int(sizes[file])
        full = bin_bytes_max is not None and total + size > bin_bytes_max
        if here and (full or partitions[file] != partitions[here[0]]):
            found.append(_bin(here, partitions, total))
            here, total = [], 0
        here.append(file)
        total += size
    if here:
        found.append(_bin(here, partitions, total))
    return found


def batches(bins: Sequence[PlannedBin], *, bytes_max: int | None, files_max: int) -> list[list[PlannedBin]]:
    """Bins by the commit that they go into: as many as fit, smallest first where `bytes_max` asks for it."""
    ordered = sorted(bins, key=lambda each: each.size_bytes) if bytes_max is not None else bins
    found: list[list[PlannedBin]] = []
    size = files = 0
    for each in ordered:
        too_large = bytes_max is not None and size + each.size_bytes > bytes_max
        if not found or too_large or files + len(each.files) > files_max:
            found.append([])
            size = files = 0
        found[-1].append(each)
        size += each.size_bytes
        files += len(each.files)
    return found


def _bin(files: list[int], partitions: npt.NDArray[np.integer], size_bytes: int) -> PlannedBin:
    return PlannedBin(partition=int(partitions[files[0]]), files=tuple(files), size_bytes=size_bytes)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FilesToPlan:
    """What a plan is made from: an entry for each file of a snapshot."""

    considered: FileMask
    """Those that the user's condition chooses."""
    partitions: npt.NDArray[np.int64]
    """Which partition each lies in, by number."""
    sizes: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    """As the log says, hidden ones included; -1 where it does not."""
    hidden: npt.NDArray[np.int64]
    """How many of them a vector hides."""

    @classmethod
    def of(cls, snapshot: Snapshot, *, considered: FileMask, partitions: npt.NDArray[np.int64]) -> FilesToPlan:
        """As the snapshot has them."""
        columns = snapshot.skipping_columns
        return cls(
            considered=considered,
            partitions=partitions,
            sizes=np.asarray(pc.fill_null(snapshot.files.table["size"], 0).to_numpy(), dtype=np.int64),
            rows=np.asarray(pc.fill_null(columns.num_records(), -1).to_numpy(), dtype=np.int64),
            hidden=columns.hidden_rows(),
        )

    @property
    def hide_rows_uncounted(self) -> FileMask:
        """Those whose vector hides rows out of an unknown number."""
        return (self.rows < 0) & (self.hidden > 0)

    def row_counts(self, files: tuple[int, ...]) -> list[int] | None:
        """Rows of each of these files; None if one is not known."""
        counts = self.rows[list(files)]
        return None if (counts < 0).any() else [int(count) for count in counts]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FilesInCubes:
    """What clustering found: files that it has put together before, and others."""

    num_cubes: int
    num_files_in_cubes: int
    bytes_in_cubes: int
    num_other_files: int
    bytes_of_others: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Plan:
    """What one round does."""

    files: FilesToPlan
    bins: tuple[PlannedBin, ...]
    cubes: FilesInCubes | None = None
    """Of a plan that clusters."""


def compaction_plan(files: FilesToPlan, settings: OptimizeSettings) -> Plan:
    """Small files, and those that hide many of their rows, put together up to the size wanted."""
    small = files.sizes < settings.min_file_bytes
    thinned = files.hidden > settings.hidden_ratio_max * np.maximum(files.rows, 0)
    chosen = files.considered & (small | (thinned & (files.hidden > 0)) | files.hide_rows_uncounted)
    return _packed(files, chosen, bin_bytes_max=settings.max_file_bytes, keep_single=False)


def purge_plan(files: FilesToPlan, settings: OptimizeSettings, *, outdated: FileMask, apart: bool = False) -> Plan:
    """Files that hide rows, and the `outdated` ones, which hold what is no part of the table any more.

    `apart`: each by itself, so that rows that clustering put together stay so.
    """
    chosen = files.considered & ((files.hidden > 0) | outdated)
    return _packed(files, chosen, bin_bytes_max=0 if apart else settings.max_file_bytes, keep_single=True)


def zorder_plan(files: FilesToPlan) -> Plan:
    """All files, the rows of each partition ordered as one."""
    return _packed(files, files.considered, bin_bytes_max=None, keep_single=True)


def _packed(files: FilesToPlan, chosen: FileMask, *, bin_bytes_max: int | None, keep_single: bool) -> Plan:
    bins = pack(
        np.flatnonzero(chosen),
        sizes=files.sizes,
        partitions=files.partitions,
        bin_bytes_max=bin_bytes_max,
        keep_single=keep_single,
    )
    return Plan(files=files, bins=tuple(bins))


# The partitions that a condition means, told by their values alone.


_GROUP = "__anabranch_group"


def partitions_of(table: TableRef, snapshot: Snapshot) -> npt.NDArray[np.int64]:
    """A number for each file, the same for files of one partition, however the log spells its values."""
    listing, zone = _listing(table, snapshot), table.session.time_zone
    number_of = np.zeros(listing.group_count, dtype=np.int64)
    for texts, name in zip(listing.groups, snapshot.partition_columns, strict=True):
        values = parse_column(texts, snapshot.schema[name].dataType, zone=zone)
        codes = values.dictionary_encode(null_encoding="encode")
        width = max(len(codes.dictionary), 1)
        _, number_of = np.unique(number_of * width + codes.indices.to_numpy(), return_inverse=True)
    return np.asarray(number_of[listing.group_of], dtype=np.int64)


def files_of_partitions(table: TableRef, snapshot: Snapshot, condition: str | None) -> FileMask:
    """The files of the partitions for which `condition` is true; all files without one.

    Raises `NonPartitionColumnError`, `PartitionConditionError`, and Spark's `ParseException`.
    """
    everything = np.ones(snapshot.files.count, dtype=np.bool_)
    if condition is None:
        return everything
    asked = _understood(table, snapshot, condition)
    possible = can_be_true(asked.predicate, snapshot.skipping_columns)
    certain = files_wholly_true(
        snapshot.files.table,
        asked.predicate,
        physical_schema=snapshot.physical_schema,
        partition_columns=snapshot.physical_partition_columns,
        columns=snapshot.skipping_columns,
    )
    return possible if (possible == certain).all() else _partitions_by_spark(table, snapshot, asked)


def _understood(table: TableRef, snapshot: Snapshot, condition: str) -> ReadCondition:
    """The condition as one on rows that have the partition columns alone."""
    partitions = StructType([snapshot.schema[name] for name in snapshot.partition_columns])
    try:
        asked = resolve_condition(
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
    if asked.has_subquery:
        problem = "it asks other rows, or is no condition; write the values of partition columns"
        raise PartitionConditionError(table=table.label, predicate=condition, problem=problem)
    return asked


def _partitions_by_spark(table: TableRef, snapshot: Snapshot, asked: ReadCondition) -> FileMask:
    """The condition, evaluated by Spark on one row a partition: for what only Spark understands."""
    listing = _listing(table, snapshot)
    fields = [snapshot.schema[name] for name in snapshot.partition_columns]
    texts = [column.to_pylist() for column in listing.groups]
    rows = [(str(group), *(column[group] for column in texts)) for group in range(listing.group_count)]
    # By position, since a column may have any name.
    stored = StructType([StructField(f"c{i}", StringType()) for i in range(len(fields) + 1)])
    typed = [F.col(f"c{i + 1}").cast(field.dataType).alias(field.name) for i, field in enumerate(fields)]
    values = table.session.spark.createDataFrame(rows, stored).select(F.col("c0").alias(_GROUP), *typed)
    found = values.where(asked.condition).select(_GROUP).collect()
    chosen = np.zeros(listing.group_count, dtype=np.bool_)
    chosen[[int(row[0]) for row in found]] = True
    return np.asarray(chosen[listing.group_of], dtype=np.bool_)


def _listing(table: TableRef, snapshot: Snapshot) -> FileListing:
    fields = [snapshot.schema[name] for name in snapshot.partition_columns]
    names = [physical_name(field, snapshot.column_mapping_mode) for field in fields]
    files: pa.Table = snapshot.files.table
    places = allowed_prefixes_of(table.delta_log.store)
    return listing_of(files, table_root=table.path, physical_partition_columns=names, allowed_prefixes=places)
