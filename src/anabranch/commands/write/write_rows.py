"""Writing a DataFrame: `save`, `saveAsTable`, `insertInto`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from anabranch.commands.catalog_registration import register, register_if_changed
from anabranch.commands.data_files import rows_kept_tags, write_data_files
from anabranch.commands.dml.change_data import with_inserts_recorded
from anabranch.commands.dml.identity_high_water import with_moved_marks
from anabranch.commands.dml.query_reads import record_query_reads
from anabranch.commands.dml.row_deletion import RowChanges
from anabranch.commands.dml.statement import executed_again
from anabranch.commands.dml.target_table import TargetRows
from anabranch.commands.optimize.auto_compaction import compact_after
from anabranch.commands.table_access import TableRef, table_to_write, warn_of_parquet
from anabranch.commands.write.overwrite_scope import NOTHING_REPLACED, replaced_rows
from anabranch.commands.write.replace_on import chosen_rows
from anabranch.commands.write.write_options import SaveMode, WriteOptions
from anabranch.commands.write.write_target import WriteTarget, existing_target, new_target
from anabranch.errors.commits import (
    AppendOnlyTableError,
    ConcurrentTransactionException,
    ConflictReason,
    ProtocolChangedException,
)
from anabranch.errors.constraints import (
    CastOverflowError,
    InsertOverflowError,
    MetadataColumnError,
    ReplaceWhereMismatchError,
)
from anabranch.errors.tables import PathExistsError, TableAlreadyExistsError
from anabranch.protocol.actions import Action, AddFile, RemoveFile, SetTransaction
from anabranch.protocol.features import check_writable
from anabranch.schema.enforcement import WriteApi
from anabranch.schema.logical_types import DECLARED_TYPE, without_char_varchar
from anabranch.schema.paths import fold
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.conditions.column_names import check_resolved, named
from anabranch.spark.conditions.user_condition import empty_frame, text_of
from anabranch.spark.engine import NEWEST_VERSION, WrittenFiles
from anabranch.spark.extension.first_appends import CREATION_RACES_MAX
from anabranch.spark.native.plan_reading import versions_read
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.spark.session.table_identifiers import quote
from anabranch.spark.write.conform import conform
from anabranch.spark.write.file_schema import with_partition_values
from anabranch.spark.write.row_checks import refuse_when
from anabranch.transaction.commit.commit_context import CommittedVersion
from anabranch.transaction.proposed_commit import Operation
from anabranch.transaction.statement_retry import Attempt

_CHAR_IS_A_TYPE = "spark.sql.preserveCharVarcharTypeInfo"
_METADATA = re.compile(r"(?<![\w`'.\"])`?_metadata`?\s*\.", re.IGNORECASE)
_CHAR = re.compile(r"(?<!var)char\(", re.IGNORECASE)

# The files that a write adds, and what its commit says of them.


def write_rows(table: TableRef, frame: DataFrame, target: WriteTarget, options: WriteOptions) -> WrittenFiles:
    """Run the frame and write its rows as the target's files. Nothing is committed."""
    rows = conform(_with_strings(frame), target.plan, table=table.label)
    if options.replace_where is not None and options.check_replace_where:
        rows = with_partition_values(rows, target.file_schema(table.label), target.partition_columns)
        rows, advice = _compared_as_read(table, rows)
        rows = _checked(named(rows, options.target_alias), options.replace_where, table=table.label, advice=advice)
    return write_data_files(
        table,
        rows,
        schema=target.file_schema(table.label),
        partition_columns=target.partition_columns,
        properties=target.properties,
        max_records_per_file=options.max_records_per_file,
        parquet=options.parquet,
        optimize=options.optimize_write,
    )


def _with_strings(frame: DataFrame) -> DataFrame:
    """CHAR and VARCHAR as strings: Spark 4.0 fails to optimize what is computed of these types."""
    stored = without_char_varchar(frame.schema)
    kinds = {
        field.name: field.dataType
        for field, before in zip(stored.fields, frame.schema.fields, strict=True)
        if field.dataType != before.dataType
    }
    return frame.withColumns({name: frame[quote(name)].cast(kind) for name, kind in kinds.items()}) if kinds else frame


def write_metrics(written: WrittenFiles, replaced: RowChanges) -> dict[str, int]:
    """What a write says of the rows that came and of those that it took away, by Delta's names."""
    files = [*written.adds, *(replaced.copied.adds if replaced.copied is not None else ())]
    told = replaced.metrics()
    found = {
        "numFiles": len(files),
        "numOutputRows": written.num_rows + told["numCopiedRows"],
        "numOutputBytes": sum(add.size for add in files),
    }
    names = ["numRemovedFiles", "numRemovedBytes"] if replaced.removes else []
    if replaced.num_rows is not None:
        told["numDeletedRows"] = replaced.num_rows
        names = ["numRemovedFiles", "numRemovedBytes", "numDeletedRows", "numCopiedRows", "numAddedChangeFiles"]
    names += [name for name in told if name.startswith("numDeletionVectors") and told[name]]
    return found | {name: told[name] for name in names}


def _compared_as_read(table: TableRef, rows: DataFrame) -> tuple[DataFrame, str]:
    """The rows, their CHAR columns compared as queries of the session compare those of the table; advice for who fails.

    Else rows would pass for a condition that finds none of the rows that they are to replace.
    """
    chars = {field.name for field in rows.schema.fields if _CHAR.search(str(field.metadata.get(DECLARED_TYPE, "")))}
    if not chars or not table.session.flag(_CHAR_IS_A_TYPE, default=False):
        return rows, ""
    columns = [F.col(quote(name)) for name in rows.columns]
    plain = [
        # What is computed is no CHAR any more.
        column.cast("string").alias(name) if name in chars else column
        for name, column in zip(rows.columns, columns, strict=True)
    ]
    advice = f" While {_CHAR_IS_A_TYPE} is true, conditions on CHAR columns need the blanks that fill up the values."
    return rows.select(*plain), advice


def _checked(rows: DataFrame, condition: str | Column, *, table: str, advice: str) -> DataFrame:
    """The rows, of which each must satisfy the condition."""
    first, *others = rows.columns
    asked = F.expr(condition) if isinstance(condition, str) else condition
    violated = ~F.coalesce(asked, F.lit(False))
    facts = {"table": table, "predicate": text_of(condition), "advice": advice}
    sample = F.to_json(F.struct(*(F.col(quote(name)) for name in rows.columns)), {"ignoreNullFields": "false"})
    column = F.col(quote(first))
    checked = refuse_when(violated, column, ReplaceWhereMismatchError, facts, shown={"row": sample}).alias(first)
    return rows.select(checked, *(F.col(quote(name)) for name in others))


FIRST = Attempt()
Rows = DataFrame | Callable[[], DataFrame]
"""The rows to write, or what makes them: asked anew for each execution, it may read newer versions of its sources."""
_OUTPUT_MODES = {SaveMode.APPEND: "Append", SaveMode.OVERWRITE: "Complete"}


def save(session: DeltaSession, frame: Rows, path: str, options: WriteOptions) -> CommittedVersion | None:
    """Write to the table in the folder `path`; None where the options say to do nothing."""
    return write_frame(table_to_write(session, path, options.file_system), frame, options, WriteApi.SAVE)


def write_named(table: TableRef, rows: Rows, options: WriteOptions) -> CommittedVersion | None:
    """Write to the table, columns matched as `saveAsTable` does, and make the catalog know its name and columns."""
    entry = table.entry
    known = entry is None or table.session.catalog.find(entry.full_name) is not None
    committed = write_frame(table, rows, options, WriteApi.SAVE_AS_TABLE)
    if entry is not None and not known:
        register(table, entry, committed)
    else:
        register_if_changed(table, committed)
    return committed


def write_frame(table: TableRef, frame: Rows, options: WriteOptions, api: WriteApi) -> CommittedVersion | None:
    """Write rows and commit them as one version; None where the options say to do nothing.

    A first append that loses the race to create the table becomes an append to the winner's table.
    """
    for _ in range(CREATION_RACES_MAX):
        snapshot = table.delta_log.snapshots.latest_or_none()
        if snapshot is not None and options.mode is SaveMode.ERROR_IF_EXISTS:
            exists = PathExistsError if api is WriteApi.SAVE else TableAlreadyExistsError
            raise exists(table=table.label)
        if snapshot is not None and options.mode is SaveMode.IGNORE:
            return None
        try:
            return _write(table, frame, options, api, snapshot)
        except ProtocolChangedException as lost:
            if lost.reason is not ConflictReason.TABLE_CREATED or options.mode is not SaveMode.APPEND:
                raise
        except ConcurrentTransactionException as lost:
            # Nobody else runs a stream's batches but another run of the same checkpoint, which must come to light.
            if lost.reason is not ConflictReason.ALREADY_WRITTEN or api is WriteApi.STREAM:
                raise
            return None
    return _write(table, frame, options, api, table.latest())


def _write(
    table: TableRef, frame: Rows, options: WriteOptions, api: WriteApi, snapshot: Snapshot | None
) -> CommittedVersion | None:
    """Write, and after a conflict as often again as the user allows. A table to be created is the caller's matter."""
    _check_names_rows(options, snapshot)

    def run(attempt: Attempt) -> CommittedVersion | None:
        newest = snapshot if attempt.number == 1 else table.latest()
        made = frame if isinstance(frame, DataFrame) else frame()
        try:
            with chosen_rows(table, made, options, api, newest) as (rows, chosen):
                return _write_once(table, rows, chosen, api, newest, attempt)
        except CastOverflowError as overflow:
            if type(overflow) is not CastOverflowError:
                raise
            # The check of rows does not know for what statement it is.
            raise InsertOverflowError(**overflow.facts()) from None

    committed = run(FIRST) if snapshot is None else executed_again(table, run, options.conflict_retries)
    compact_after(table, committed)
    return committed


def _check_names_rows(options: WriteOptions, snapshot: Snapshot | None) -> None:
    """Raises `MetadataColumnError` for a text of `replaceWhere` that asks for files of rows that are in none yet."""
    condition = options.replace_where
    if not isinstance(condition, str) or not _METADATA.search(condition):
        return
    if snapshot is None or not any(fold(name) == "_metadata" for name in snapshot.schema.names):
        raise MetadataColumnError(is_view=False)


def _write_once(
    table: TableRef,
    frame: DataFrame,
    options: WriteOptions,
    api: WriteApi,
    snapshot: Snapshot | None,
    attempt: Attempt,
) -> CommittedVersion | None:
    reads_itself = frozenset[int]()
    if snapshot is not None:
        reads_itself = _versions_read(table, frame, snapshot, options)
        oldest = min(reads_itself, default=NEWEST_VERSION)
        if oldest not in {NEWEST_VERSION, snapshot.version}:
            # The rows depend on what the frame saw; commits since then must count as winners, and no others.
            snapshot = table.delta_log.snapshots.at_version(oldest)
        check_resolved(options.target_alias, snapshot)
    transaction = table.begin_at(_operation(options, api, snapshot), snapshot=snapshot)
    if options.application is not None:
        app_id, version = options.application
        if transaction.has_written(app_id=app_id, version=version):
            return None
    target = _target(table, frame, options, api, snapshot)
    if options.reads_target or options.replaced is not None:
        transaction.record_whole_table()
    if reads_itself and snapshot is not None:
        transaction.describe_rows = TargetRows(table, snapshot, transaction.vectors).described
        at_snapshot = reads_itself == {snapshot.version}
        record_query_reads(table, frame, snapshot, transaction, at_snapshot=at_snapshot)
    written = write_rows(table, frame, target, options)
    replaced = NOTHING_REPLACED
    if snapshot is not None and options.mode is SaveMode.OVERWRITE:
        replaced = replaced_rows(table, snapshot, transaction, options, written.adds)
        replaced = with_inserts_recorded(table, target, written, replaced)
    metadata = with_moved_marks(target.metadata, written.adds, target.plan.generates_identity, table=table.label)
    actions: list[Action] = [*target.actions_with(metadata), *replaced.actions(written)]
    if not options.data_change:
        actions = [_rearranging(action) for action in actions]
    if options.application is not None:
        actions.append(SetTransaction(app_id=app_id, version=version, last_updated=table.session.clock.now_ms()))
    metrics = write_metrics(written, replaced)
    if api is WriteApi.STREAM:
        metrics = _stream_metrics(metrics)
    return transaction.commit(
        actions,
        deleted_rows=replaced.deleted_rows,
        metrics={**metrics, **attempt.metrics()},
        tags={**_rows_kept(table, options, snapshot), **attempt.tags()},
    )


def _rows_kept(table: TableRef, options: WriteOptions, snapshot: Snapshot | None) -> dict[str, str]:
    """What the commit says of rows that keep their ids: those beside the ones that a condition replaces."""
    chooses = options.replace_where is not None or options.replaced is not None
    return rows_kept_tags(table, snapshot) if snapshot is not None and chooses and options.data_change else {}


def _versions_read(table: TableRef, frame: DataFrame, snapshot: Snapshot, options: WriteOptions) -> frozenset[int]:
    """The versions of the table that the rows, or what they replace, depend on."""
    found = versions_read(frame, table.path)
    if options.replaced is None:
        return found
    asked = empty_frame(table.session.spark, snapshot.schema, options.replaced.alias).where(options.replaced.condition)
    return found | options.replaced.versions_read | versions_read(asked, table.path)


def _target(
    table: TableRef, frame: DataFrame, options: WriteOptions, api: WriteApi, snapshot: Snapshot | None
) -> WriteTarget:
    # With this setting CHAR and VARCHAR are types of their own, which no table stores.
    data = without_char_varchar(frame.schema)
    if snapshot is None:
        warn_of_parquet(table)
        return new_target(table, data, options)
    check_writable(snapshot.protocol, table=table.label)
    if options.mode is SaveMode.OVERWRITE and options.data_change and snapshot.properties.append_only:
        raise AppendOnlyTableError(table=table.label, operation="Overwriting")
    return existing_target(table, data, options, api, snapshot)


def _stream_metrics(metrics: Mapping[str, int]) -> dict[str, int]:
    """What Delta tells of a batch of a stream, by the names that it uses there."""
    removed = {"numRemovedFiles": metrics.get("numRemovedFiles", 0)}
    return {"numAddedFiles": metrics["numFiles"], **removed} | {
        name: metrics[name] for name in ("numOutputRows", "numOutputBytes")
    }


def _operation(options: WriteOptions, api: WriteApi, snapshot: Snapshot | None) -> Operation:
    parameters: dict[str, object] = {}
    if api is WriteApi.STREAM:
        assert options.application is not None
        query_id, batch_id = options.application
        parameters = {"outputMode": _OUTPUT_MODES[options.mode], "queryId": query_id, "epochId": str(batch_id)}
        return Operation(name="STREAMING UPDATE", parameters=parameters, user_metadata=options.user_metadata)
    name = "WRITE"
    chooses = options.replace_where is not None or options.replaced is not None
    if api is WriteApi.SAVE_AS_TABLE and (snapshot is None or options.mode is SaveMode.OVERWRITE) and not chooses:
        replaces = options.mode is SaveMode.OVERWRITE
        name = "CREATE OR REPLACE TABLE AS SELECT" if replaces else "CREATE TABLE AS SELECT"
        parameters["isManaged"] = options.path is None
        parameters["properties"] = dict(options.table_properties)
    else:
        parameters["mode"] = options.mode.delta_name
    parameters["partitionBy"] = list(options.partition_by)
    if options.replace_where is not None:
        parameters["predicate"] = text_of(options.replace_where)
    if options.replaced is not None:
        parameters.update(options.replaced.told)
    for key, value in (
        ("isDynamicPartitionOverwrite", options.dynamic_partition_overwrite and options.mode is SaveMode.OVERWRITE),
        ("canOverwriteSchema", options.overwrite_schema),
        ("canMergeSchema", options.merge_schema),
    ):
        if value:
            parameters[key] = True
    return Operation(name=name, parameters=parameters, user_metadata=options.user_metadata)


def _rearranging(action: Action) -> Action:
    """The action as one that changes no row: the user's word with `dataChange=false`."""
    return msgspec.structs.replace(action, data_change=False) if isinstance(action, AddFile | RemoveFile) else action
