"""The rows that a MERGE puts into the table: changed ones and new ones, written as data files."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import StructField, StructType

from anabranch.change_feed.change_files import CHANGE_TYPE, INSERT, write_change_files
from anabranch.commands.data_files import write_data_files
from anabranch.commands.dml.row_deletion import Replacement
from anabranch.commands.merge.merge_join import output_name
from anabranch.commands.merge.merge_source import MergeTarget
from anabranch.commands.merge.merge_values import ClauseValues, ValuePlanner, mark_of
from anabranch.commands.table_access import TableRef
from anabranch.errors.constraints import GeneratedColumnMismatchError
from anabranch.protocol.actions import AddCDCFile
from anabranch.protocol.properties import TableProperties
from anabranch.schema.computed_columns import RowTrackingColumns, with_tracking_columns
from anabranch.schema.enforcement import Fill, WritePlan, fill_of
from anabranch.schema.logical_types import without_void
from anabranch.schema.paths import quoted
from anabranch.spark.conditions.repeatable_rows import cache_or_checkpoint
from anabranch.spark.engine import WrittenFiles
from anabranch.spark.rows.row_tracking import stored_tracking_columns
from anabranch.spark.session.table_identifiers import quote
from anabranch.spark.write.conform import conform
from anabranch.spark.write.row_checks import refuse_when
from anabranch.spark.write.stored_values import stored_value

ROWS_OF_FILE = 250_000
"""About how many of the rows go into one file: few files for few rows, and still work for all cores."""

_NEW_ROW = "__anabranch_new_row"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OutputColumns:
    """The columns that rows have on their way from a clause to a file."""

    names: tuple[str, ...]
    """What `ClauseValues.outputs` calls them."""
    plain: tuple[StructField, ...]
    """Of the table; the generated ones are computed again from these."""
    given: tuple[StructField, ...]
    """Generated columns that a clause sets all the same."""

    @classmethod
    def of(cls, planner: ValuePlanner, clauses: Iterable[ClauseValues]) -> OutputColumns:
        """The columns that these clauses make."""
        sets = {name for clause in clauses for name in clause.sets}
        computed = {field.name for field in planner.stored() if fill_of(field)[0] is Fill.GENERATED}
        plain = tuple(field for field in planner.stored() if field.name not in computed)
        given = tuple(field for field in planner.stored() if field.name in computed & sets)
        names = [field.name for field in (*plain, *given)] + [mark_of(field.name) for field in given]
        return cls(names=tuple(names), plain=plain, given=given)

    @property
    def columns(self) -> tuple[str, ...]:
        """What a frame calls the outputs."""
        return tuple(output_name(place) for place in range(len(self.names)))

    def at(self, name: str) -> str:
        """What a frame calls an output."""
        return output_name(self.names.index(name))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MergedFiles:
    """The rows that a MERGE has put into files."""

    written: WrittenFiles
    plan: WritePlan
    change_files: tuple[AddCDCFile, ...] = ()
    """The same rows for the change data feed, where they had to be told."""


def write_merged(
    table: TableRef,
    target: MergeTarget,
    planner: ValuePlanner,
    frames: Mapping[str, DataFrame],
    outputs: OutputColumns,
    *,
    rows_max: int,
    has_new_rows: bool,
    tells: bool,
    replacement: Replacement,
    tracking: RowTrackingColumns | None,
) -> MergedFiles:
    """Write the rows of all frames, which have the outputs, as data files of the target. Nothing is committed.

    The frames come by what the change data feed calls such rows; with `tells`, they are written for it, too. Changed
    rows have their ids in a column of `tracking`, and keep them.
    """
    told = [CHANGE_TYPE] if tells else []
    if frames.keys() == {INSERT} and replacement.staying is None:
        tracking = None
    ids = [] if tracking is None else [tracking.row_id]
    first = _all_rows(frames, [*outputs.columns, *told, _NEW_ROW, *ids], ids)
    properties = TableProperties(target.metadata.configuration)
    partition_columns = tuple(target.metadata.partition_columns)
    plan = planner.plan_rows(StructType(list(outputs.plain)), target.metadata, has_new_rows=has_new_rows)
    keep = [outputs.at(name) for field in outputs.given for name in (field.name, mark_of(field.name))] + told + ids
    named = first.select(
        *(F.col(outputs.at(field.name)).alias(field.name) for field in outputs.plain), *map(quote, keep), _NEW_ROW
    )
    ready = conform(named, plan, table=table.label, keep=keep, new_rows=_NEW_ROW)
    # Partitions may be by generated columns, which no clause need give.
    rows = _verified(_together(ready, partition_columns, rows_max), outputs, plan, table=table.label)
    schema = without_void(target.schema)
    # Computed once, so that the feed tells the very rows that are in the table.
    kept_rows = None
    if tells:
        kept_rows = cache_or_checkpoint(
            rows.select(*(rows[quote(name)] for name in (*schema.fieldNames(), *told, *ids)))
        )
        rows = kept_rows.frame
    try:
        stored = rows.select(*(rows[quote(name)] for name in schema.fieldNames()), *stored_tracking_columns(tracking))
        together = replacement.together(stored, tasks_min=_tasks(rows_max))
        written = replacement.without_staying(
            write_data_files(
                table,
                together,
                schema=with_tracking_columns(schema, tracking),
                partition_columns=partition_columns,
                properties=properties,
            )
        )
        change_files = _change_files(table, rows, schema, partition_columns, properties) if tells else ()
    finally:
        if kept_rows is not None:
            kept_rows.release()
    return MergedFiles(written=written, plan=plan, change_files=change_files)


def _all_rows(frames: Mapping[str, DataFrame], columns: Sequence[str], ids: Sequence[str]) -> DataFrame:
    """The rows of all frames, with these columns; new ones have no id yet."""
    first, *others = (
        frame.withColumns(
            {
                CHANGE_TYPE: F.lit(change),
                _NEW_ROW: F.lit(change == INSERT),
                **{name: F.lit(None).cast("bigint") for name in ids if change == INSERT},
            }
        ).select(*map(quote, columns))
        for change, frame in frames.items()
    )
    for other in others:
        first = first.unionByName(other)
    return first


def _change_files(
    table: TableRef,
    rows: DataFrame,
    schema: StructType,
    partition_columns: tuple[str, ...],
    properties: TableProperties,
) -> tuple[AddCDCFile, ...]:
    return write_change_files(
        table.session.engine,
        rows,
        table_root=table.path,
        schema=schema,
        partition_columns=partition_columns,
        properties=properties,
        options=table.storage,
    )


def merge_metrics(changes: Mapping[str, int], counts: Mapping[str, int], *, num_source_rows: int) -> dict[str, int]:
    """`operationMetrics` by Delta's names, from those of `RowChanges` and from rows by what was done to them."""
    updated = counts["matched updated"] + counts["unmatched updated"]
    deleted = counts["matched deleted"] + counts["unmatched deleted"]
    copied = changes["numCopiedRows"]
    return {
        "numSourceRows": num_source_rows,
        "numTargetRowsInserted": counts["inserted"],
        "numTargetRowsUpdated": updated,
        "numTargetRowsMatchedUpdated": counts["matched updated"],
        "numTargetRowsNotMatchedBySourceUpdated": counts["unmatched updated"],
        "numTargetRowsDeleted": deleted,
        "numTargetRowsMatchedDeleted": counts["matched deleted"],
        "numTargetRowsNotMatchedBySourceDeleted": counts["unmatched deleted"],
        "numTargetRowsCopied": copied,
        "numOutputRows": counts["inserted"] + updated + copied,
        "numTargetFilesAdded": changes["numAddedFiles"],
        "numTargetFilesRemoved": changes["numRemovedFiles"],
        "numTargetBytesAdded": changes["numAddedBytes"],
        "numTargetBytesRemoved": changes["numRemovedBytes"],
        "numTargetChangeFilesAdded": changes["numAddedChangeFiles"],
        "numTargetDeletionVectorsAdded": changes["numDeletionVectorsAdded"],
        "numTargetDeletionVectorsRemoved": changes["numDeletionVectorsRemoved"],
        "numTargetDeletionVectorsUpdated": changes["numDeletionVectorsUpdated"],
    }


def _together(rows: DataFrame, partition_columns: Sequence[str], rows_max: int) -> DataFrame:
    """The rows in as many tasks as there should be files; without it, each file read would make one of its own."""
    if partition_columns:
        return rows.repartition(*(F.col(quote(name)) for name in partition_columns))
    return rows.coalesce(_tasks(rows_max))


def _tasks(rows_max: int) -> int:
    return max(1, math.ceil(rows_max / ROWS_OF_FILE))


def _verified(rows: DataFrame, outputs: OutputColumns, plan: WritePlan, *, table: str) -> DataFrame:
    """The rows, of which none has another value in a generated column than a clause gave it."""
    checked = {}
    for field in outputs.given:
        value, given = F.col(quote(field.name)), F.col(outputs.at(field.name))
        told = F.to_json(F.struct(given.alias(field.name), value.alias("computed")), {"ignoreNullFields": "false"})
        stored = stored_value(given, field, plan, row=told, table=table)
        wrong = F.col(outputs.at(mark_of(field.name))) & ~stored.eqNullSafe(value)
        facts = {"table": table, "column": quoted([field.name]), "expression": str(fill_of(field)[1])}
        checked[field.name] = refuse_when(wrong, value, GeneratedColumnMismatchError, facts, shown={"row": told})
    return rows.withColumns(checked) if checked else rows
