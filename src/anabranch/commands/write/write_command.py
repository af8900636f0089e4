"""Writing a DataFrame (`save`, `saveAsTable`, `insertInto`, a batch of a stream), and what its commit records."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping

import msgspec
from pyspark.sql import DataFrame

from anabranch.commands.catalog_registration import register, register_if_changed
from anabranch.commands.dml.identity_high_water import generated_numbers, marks_alone, with_moved_marks
from anabranch.commands.dml.query_reads import record_query_reads
from anabranch.commands.dml.row_changes import RowChanges
from anabranch.commands.dml.statement import (
    check_resolved,
    compact_after,
    run_with_conflict_retries,
    version_as_resolved,
    version_looked_up,
    version_to_read,
)
from anabranch.commands.dml.target_table import TargetRows
from anabranch.commands.table_access import (
    TableRef,
    check_may_be_part,
    one_statement,
    table_to_write,
    warn_of_parquet,
)
from anabranch.commands.write.overwrite_changes import with_inserts_recorded
from anabranch.commands.write.overwrite_scope import replaced_rows
from anabranch.commands.write.replace_on import replacement_resolved
from anabranch.commands.write.write_options import SaveMode, WriteOptions
from anabranch.commands.write.write_target import WriteTarget, existing_target, new_target, write_rows
from anabranch.errors.commits import (
    AppendOnlyTableError,
    ConcurrentTransactionException,
    ConflictReason,
    ProtocolChangedException,
)
from anabranch.errors.constraints import CastOverflowError, InsertOverflowError, MetadataColumnError
from anabranch.errors.tables import PathExistsError, TableAlreadyExistsError
from anabranch.progress.progress_events import begin_phase
from anabranch.protocol.actions import Action, AddFile, RemoveFile, SetTransaction
from anabranch.protocol.features import check_writable
from anabranch.schema.logical_types import without_char_varchar
from anabranch.schema.paths import fold
from anabranch.schema.write_rules import WriteApi
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.conditions.user_condition import empty_frame, text_of
from anabranch.spark.engine import NEWEST_VERSION, WrittenFiles
from anabranch.spark.extension.first_appends import CREATION_RACES_MAX
from anabranch.spark.native.plan_reading import versions_read
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.transactions.commit.commit_attempt import rows_kept_tags
from anabranch.transactions.commit.commit_context import CommittedVersion
from anabranch.transactions.proposed_commit import Operation
from anabranch.transactions.reserved_numbers import NumberRange
from anabranch.transactions.statement_retry import FIRST, Attempt
from anabranch.transactions.transaction import Transaction

_OUTPUT_MODES = {SaveMode.APPEND: "Append", SaveMode.OVERWRITE: "Complete"}


def write_operation(options: WriteOptions, api: WriteApi, snapshot: Snapshot | None, *, is_managed: bool) -> Operation:
    """The name and the parameters of the operation in the history of the table.

    `is_managed` says whether the catalog decides where the table is.
    """
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
        parameters["isManaged"] = is_managed
        parameters["properties"] = dict(options.table_properties)
    else:
        parameters["mode"] = options.mode.delta_name
    parameters["partitionBy"] = list(options.partition_by)
    if options.replace_where is not None:
        parameters["predicate"] = text_of(options.replace_where)
    if options.replaced is not None:
        parameters.update(options.replaced.log_parameters)
    for key, value in (
        ("isDynamicPartitionOverwrite", options.dynamic_partition_overwrite and options.mode is SaveMode.OVERWRITE),
        ("canOverwriteSchema", options.overwrite_schema),
        ("canMergeSchema", options.merge_schema),
    ):
        if value:
            parameters[key] = True
    return Operation(name=name, parameters=parameters, user_metadata=options.user_metadata)


def write_metrics(written: WrittenFiles, replaced: RowChanges | None) -> dict[str, int]:
    """The metrics of the rows that a write adds and of those that it replaces, by Delta's names."""
    copied = None if replaced is None else replaced.copied
    files = [*written.adds, *(() if copied is None else copied.adds)]
    metrics = {
        "numFiles": len(files),
        "numOutputRows": written.num_rows + (0 if copied is None else copied.num_rows),
        "numOutputBytes": sum(add.size for add in files),
    }
    return metrics if replaced is None else metrics | _metrics_of_replaced(replaced)


def _metrics_of_replaced(replaced: RowChanges) -> dict[str, int]:
    removed = replaced.metrics()
    names = ["numRemovedFiles", "numRemovedBytes"] if replaced.removes else []
    if replaced.num_rows is not None:
        removed["numDeletedRows"] = replaced.num_rows
        names = ["numRemovedFiles", "numRemovedBytes", "numDeletedRows", "numCopiedRows", "numAddedChangeFiles"]
    names += [name for name in removed if name.startswith("numDeletionVectors") and removed[name]]
    return {name: removed[name] for name in names}


def stream_metrics(metrics: Mapping[str, int]) -> dict[str, int]:
    """The metrics of a batch of a stream, by the names that Delta uses for these."""
    removed = {"numRemovedFiles": metrics.get("numRemovedFiles", 0)}
    return {"numAddedFiles": metrics["numFiles"], **removed} | {
        name: metrics[name] for name in ("numOutputRows", "numOutputBytes")
    }


def write_tags(options: WriteOptions, snapshot: Snapshot | None) -> dict[str, str]:
    """The tags that say that rows keep their ids, for a write that replaces only the rows of a condition."""
    chooses = options.replace_where is not None or options.replaced is not None
    return rows_kept_tags(snapshot) if snapshot is not None and chooses and options.data_change else {}


_METADATA = re.compile(r"(?<![\w`'.\"])`?_metadata`?\s*\.", re.IGNORECASE)
GROUP_SETTING = "spark.anabranch.groupCommit"
"""Whether appends of one process that wait for one another may land as one commit; not by default."""
Rows = DataFrame | Callable[[], DataFrame]
"""The rows to write, or a function that makes them for each execution, so that each may read newer versions."""


def save(session: DeltaSession, frame: Rows, path: str, options: WriteOptions) -> CommittedVersion | None:
    """Write to the table in the folder `path`; None where the options say to do nothing."""
    return write_frame(table_to_write(session, path, options.file_system), frame, options, WriteApi.SAVE)


def write_named(table: TableRef, rows: Rows, options: WriteOptions) -> CommittedVersion | None:
    """Write to the table as `saveAsTable` does, and register its name and its columns in the catalog."""
    entry = table.entry
    if entry is None or table.session.catalog.find(entry.full_name) is not None:
        return write_frame(table, rows, options, WriteApi.SAVE_AS_TABLE)
    committed = _write_with_progress(table, rows, options, WriteApi.SAVE_AS_TABLE)
    register(table, entry, committed)
    return committed


def write_frame(table: TableRef, frame: Rows, options: WriteOptions, api: WriteApi) -> CommittedVersion | None:
    """Write rows and commit them as one version; None where the options say to do nothing.

    An append that loses the race to create the table becomes an append to the winner's table. Afterwards the catalog
    has the columns that the commit changes, of a table that it knows by name.
    """
    committed = _write_with_progress(table, frame, options, api)
    if table.entry is not None:
        register_if_changed(table, table.entry, committed)
    return committed


def _write_with_progress(table: TableRef, frame: Rows, options: WriteOptions, api: WriteApi) -> CommittedVersion | None:
    # Batches of a stream come again and again, and the query reports its own progress.
    with one_statement(table, "WRITE", shown=api is not WriteApi.STREAM):
        begin_phase("write files")
        return _write_frame(table, frame, options, api)


def _write_frame(table: TableRef, frame: Rows, options: WriteOptions, api: WriteApi) -> CommittedVersion | None:
    if not options.data_change:
        check_may_be_part(table, "WRITE with dataChange=false")
    for _ in range(CREATION_RACES_MAX):
        snapshot = version_looked_up(table, options.resolved_version) or table.delta_log.snapshots.latest_or_none()
        if snapshot is not None and options.mode is SaveMode.ERROR_IF_EXISTS:
            exists = PathExistsError if api is WriteApi.SAVE else TableAlreadyExistsError
            raise exists(table=table.label)
        if snapshot is not None and options.mode is SaveMode.IGNORE:
            return None
        try:
            return _write_with_retries(table, frame, options, api, snapshot)
        except ProtocolChangedException as lost:
            if lost.reason is not ConflictReason.TABLE_CREATED or options.mode is not SaveMode.APPEND:
                raise
        except ConcurrentTransactionException as lost:
            # A batch of a stream is written already only by another run with the same checkpoint: that is an error.
            if lost.reason is not ConflictReason.ALREADY_WRITTEN or api is WriteApi.STREAM:
                raise
            return None
    return _write_with_retries(table, frame, options, api, table.latest())


def _write_with_retries(
    table: TableRef, frame: Rows, options: WriteOptions, api: WriteApi, snapshot: Snapshot | None
) -> CommittedVersion | None:
    """Write and, unless the table is created, write again after a conflict as often as the user allows."""
    _check_metadata_unused(options, snapshot)
    first = None if snapshot is None else version_as_resolved(table, snapshot, options.target_alias)

    def run(attempt: Attempt) -> CommittedVersion | None:
        newest = first if attempt.number == 1 else version_to_read(table, attempt)
        source = frame if isinstance(frame, DataFrame) else frame()
        try:
            if not options.replaces_matches or options.mode is not SaveMode.OVERWRITE:
                return _write_once(table, source, options, api, newest, attempt)
            with replacement_resolved(table, source, options, api, newest) as (rows, resolved):
                return _write_once(table, rows, resolved, api, newest, attempt)
        except CastOverflowError as overflow:
            if type(overflow) is not CastOverflowError:
                raise
            # The check of rows does not know that the statement is an INSERT.
            raise InsertOverflowError(**overflow.facts()) from None

    committed = run(FIRST) if snapshot is None else run_with_conflict_retries(table, run, options.conflict_retries)
    compact_after(table, committed)
    return committed


def _check_metadata_unused(options: WriteOptions, snapshot: Snapshot | None) -> None:
    """Raises `MetadataColumnError` where `replaceWhere` uses `_metadata`: the rows to write are in no file yet."""
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
    """Write the rows and commit them; None where the application has committed this write before."""
    versions = frozenset[int]() if snapshot is None else _versions_read(table, frame, snapshot, options)
    if snapshot is not None:
        snapshot = _version_read(table, snapshot, versions, attempt)
        check_resolved(options.target_alias, snapshot)
    # A path among the options may be that of a managed table, and an external table needs none.
    is_managed = table.entry is not None and table.entry.is_managed
    transaction = table.begin_at(write_operation(options, api, snapshot, is_managed=is_managed), snapshot=snapshot)
    if options.application is not None:
        app_id, version = options.application
        if transaction.has_written(app_id=app_id, version=version):
            transaction.end_without_commit()
            return None
    target = _target(table, frame, options, api, snapshot)
    _record_reads(table, frame, options, snapshot, transaction, versions)
    transaction.has_recorded_all = options.mode is SaveMode.APPEND
    reserved = attempt.reserved
    written = write_rows(table, frame, target, options, None if reserved is None else reserved.first_numbers)
    replaced = None
    if snapshot is not None and options.mode is SaveMode.OVERWRITE:
        replaced = replaced_rows(table, snapshot, transaction, options, written.adds)
        replaced = with_inserts_recorded(table, target, written, replaced)
    metrics = write_metrics(written, replaced)
    if api is WriteApi.STREAM:
        metrics = stream_metrics(metrics)
    metadata, numbers = target.metadata, dict[str, NumberRange]()
    if identity := target.plan.generates_identity:
        numbers = generated_numbers(metadata, written.adds, identity, table=table.label, reserved=reserved)
        metadata = with_moved_marks(metadata, numbers, table=table.label, reserved=reserved)
    actions = _actions(table, target.actions_with(metadata), options, written, replaced)
    return transaction.commit(
        actions,
        deleted_rows=None if replaced is None else replaced.deleted_rows,
        metrics={**metrics, **attempt.metrics()},
        tags={**write_tags(options, snapshot), **attempt.tags()},
        edited_properties=marks_alone(snapshot, target.metadata, actions) if numbers else None,
        # A query of the table itself, and a condition on it, may have other results with more columns.
        on_new_columns=None if transaction.reads().scans else target.on_new_columns,
        may_be_grouped=options.mode is SaveMode.APPEND and table.session.flag(GROUP_SETTING, default=False),
        generated=numbers,
        reserved=reserved,
    )


def _version_read(table: TableRef, snapshot: Snapshot, versions: Collection[int], attempt: Attempt) -> Snapshot:
    """The oldest version of the table that the rows depend on; `snapshot` where they depend on none.

    Commits since that version must count as winners, and no others. But those since numbers were reserved for this
    execution always do.
    """
    oldest = min(versions, default=NEWEST_VERSION)
    if oldest in {NEWEST_VERSION, snapshot.version} or (attempt.reserved is not None and oldest > snapshot.version):
        return snapshot
    return table.delta_log.snapshots.at_version(oldest)


def _record_reads(
    table: TableRef,
    frame: DataFrame,
    options: WriteOptions,
    snapshot: Snapshot | None,
    transaction: Transaction,
    versions: frozenset[int],
) -> None:
    """Record what the rows to write depend on; `versions` are those of the table that were read."""
    if options.reads_target or options.replaced is not None:
        transaction.record_whole_table()
    if versions and snapshot is not None:
        transaction.describe_rows = TargetRows(table, snapshot, transaction.vectors).described
        record_query_reads(table, frame, snapshot, transaction, at_snapshot=versions == {snapshot.version})


def _actions(
    table: TableRef,
    description: Iterable[Action],
    options: WriteOptions,
    written: WrittenFiles,
    replaced: RowChanges | None,
) -> list[Action]:
    """All actions of the commit."""
    actions: list[Action] = [*description, *(written.adds if replaced is None else replaced.actions(written))]
    if not options.data_change:
        actions = [_rearranging(action) for action in actions]
    if options.application is not None:
        app_id, version = options.application
        actions.append(SetTransaction(app_id=app_id, version=version, last_updated=table.session.clock.now_ms()))
    return actions


def _versions_read(table: TableRef, frame: DataFrame, snapshot: Snapshot, options: WriteOptions) -> frozenset[int]:
    """The versions of the table that the rows, or what they replace, depend on."""
    versions = versions_read(frame, table.path)
    if options.replaced is None:
        return versions
    rows = empty_frame(table.session.spark, snapshot.schema, options.replaced.alias).where(options.replaced.condition)
    return versions | options.replaced.versions_read | versions_read(rows, table.path)


def _target(
    table: TableRef, frame: DataFrame, options: WriteOptions, api: WriteApi, snapshot: Snapshot | None
) -> WriteTarget:
    """The table as the commit will leave it. Raises a typed error where it may not be written like that."""
    # With this setting CHAR and VARCHAR are types of their own, which no table stores.
    data = without_char_varchar(frame.schema)
    if snapshot is None:
        warn_of_parquet(table)
        return new_target(table, data, options)
    check_writable(snapshot.protocol, table=table.label)
    if options.mode is SaveMode.OVERWRITE and options.data_change and snapshot.properties.append_only:
        raise AppendOnlyTableError(table=table.label, operation="Overwriting")
    return existing_target(table, data, options, api, snapshot)


def _rearranging(action: Action) -> Action:
    """The action as one that changes no row, which is what the user says with `dataChange=false`."""
    return msgspec.structs.replace(action, data_change=False) if isinstance(action, AddFile | RemoveFile) else action
