"""CREATE TABLE AS SELECT and REPLACE TABLE AS SELECT: definition and rows in one commit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from pyspark.sql import DataFrame

from anabranch.commands.catalog_registration import register
from anabranch.commands.create.create_table import (
    CreationMode,
    check_defined_rules,
    check_location_free,
    check_named,
    creation,
    removed_by_replacement,
)
from anabranch.commands.definition.table_definition import (
    ResolvedDefinition,
    TableDefinition,
    define_table,
    redefine_table,
)
from anabranch.commands.dml.statement import compact_after, run_with_conflict_retries
from anabranch.commands.table_access import TableRef, reports_progress
from anabranch.commands.write.write_options import SaveMode, WriteOptions
from anabranch.commands.write.write_target import WriteTarget, write_rows
from anabranch.errors.commits import ConflictReason, ProtocolChangedException
from anabranch.errors.tables import NotADeltaTableError, TableAlreadyExistsError
from anabranch.protocol.actions import Action, RemoveFile, SetTransaction
from anabranch.protocol.features import check_writable
from anabranch.protocol.properties import TableProperties
from anabranch.schema.enforcement import WritePlan, plan_new_schema
from anabranch.schema.serialization import parse_schema
from anabranch.schema.write_rules import row_rules
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.native.plan_reading import versions_read
from anabranch.transactions.commit.commit_context import CommittedVersion
from anabranch.transactions.proposed_commit import already_written
from anabranch.transactions.statement_retry import FIRST, Attempt

PLAIN = WriteOptions(mode=SaveMode.OVERWRITE)


@reports_progress("CREATE TABLE AS SELECT")
def create_table_as(
    table: TableRef,
    definition: TableDefinition,
    rows: Callable[[], DataFrame],
    mode: CreationMode,
    options: WriteOptions = PLAIN,
    *,
    began_ms: int | None = None,
) -> CommittedVersion | None:
    """Create or replace the table with these rows, whose columns become the table's; None where it existed already.

    The definition has everything but columns. `rows` is called only if the table is made, once for each execution.
    `began_ms` is when the statement began, by the session's clock. Raises what `create_table` raises, and the errors of
    a write.
    """
    snapshot = table.delta_log.snapshots.latest_or_none()
    registered = table.entry is not None and table.session.catalog.find(table.entry.full_name) is not None
    if not mode.replaces and (registered or snapshot is not None):
        check_named(table)
        if mode is CreationMode.CREATE_IF_NOT_EXISTS:
            return None
        raise TableAlreadyExistsError(table=table.label)
    if mode is CreationMode.REPLACE and (snapshot is None or (table.entry is not None and not registered)):
        raise NotADeltaTableError(table=table.label, found="the table to replace cannot be found")
    if _was_written(snapshot, options):
        return None

    def run(attempt: Attempt) -> CommittedVersion:
        newest = snapshot if attempt.number == 1 else table.latest()
        if newest is None:
            check_location_free(table, mode, began_ms=began_ms)
        return _write(table, definition, rows(), mode, newest, options, attempt)

    try:
        committed = run(FIRST) if snapshot is None else run_with_conflict_retries(table, run, options.conflict_retries)
    except ProtocolChangedException as lost:
        if mode is not CreationMode.CREATE_IF_NOT_EXISTS or lost.reason is not ConflictReason.TABLE_CREATED:
            raise
        check_named(table)
        return None
    if table.entry is not None:
        register(table, table.entry, committed)
    compact_after(table, committed)
    return committed


def _was_written(snapshot: Snapshot | None, options: WriteOptions) -> bool:
    if snapshot is None or options.application is None:
        return False
    app_id, version = options.application
    return already_written(snapshot, app_id=app_id, version=version)


def _write(
    table: TableRef,
    definition: TableDefinition,
    frame: DataFrame,
    mode: CreationMode,
    snapshot: Snapshot | None,
    options: WriteOptions,
    attempt: Attempt,
) -> CommittedVersion:
    plan = plan_new_schema(
        frame.schema, table=table.label, constraints={}, partition_columns=definition.partition_columns
    )
    complete = dataclasses.replace(definition, schema=plan.schema)
    if snapshot is not None:
        check_writable(snapshot.protocol, table=table.label)
        # The rows may come from an older version of this very table; commits since then must count as winners.
        oldest = min(versions_read(frame, table.path), default=snapshot.version)
        snapshot = snapshot if oldest >= snapshot.version else table.delta_log.snapshots.at_version(oldest)
    defined = _defined(table, complete, snapshot)
    check_defined_rules(table, defined)
    operation = creation(table, complete, f"{mode.operation} AS SELECT")
    operation = dataclasses.replace(operation, user_metadata=options.user_metadata)
    transaction = table.begin_at(operation, snapshot=snapshot)
    if snapshot is not None:
        transaction.record_whole_table()
    written = write_rows(table, frame, _target(table, plan, defined), options)
    actions: list[Action] = [defined.metadata, *defined.domains, *written.adds]
    metrics = {
        "numFiles": len(written.adds),
        "numOutputRows": written.num_rows,
        "numOutputBytes": written.size_bytes,
    }
    if snapshot is None or defined.protocol != snapshot.protocol:
        actions.insert(0, defined.protocol)
    if snapshot is not None:
        replaced = removed_by_replacement(snapshot, defined, now_ms=table.session.clock.now_ms())
        removed = [action for action in replaced if isinstance(action, RemoveFile)]
        metrics |= {"numRemovedFiles": len(removed), "numRemovedBytes": sum(remove.size or 0 for remove in removed)}
        actions += replaced
    if options.application is not None:
        app_id, version = options.application
        actions.append(SetTransaction(app_id=app_id, version=version, last_updated=table.session.clock.now_ms()))
    return transaction.commit(actions, metrics={**metrics, **attempt.metrics()}, tags=attempt.tags())


def _defined(table: TableRef, definition: TableDefinition, snapshot: Snapshot | None) -> ResolvedDefinition:
    session = table.session
    if snapshot is None:
        return define_table(
            definition,
            label=table.label,
            session_settings=session.all_settings(),
            now_ms=session.clock.now_ms(),
            source=session.random,
        )
    return redefine_table(
        definition,
        snapshot.metadata,
        snapshot.protocol,
        label=table.label,
        session_settings=session.all_settings(),
        now_ms=session.clock.now_ms(),
        source=session.random,
    )


def _target(table: TableRef, plan: WritePlan, defined: ResolvedDefinition) -> WriteTarget:
    constraints = TableProperties(defined.metadata.configuration).constraints
    checked = dataclasses.replace(plan, row_rules=row_rules(plan.schema, constraints, table=table.label))
    schema = parse_schema(defined.metadata.schema_string, table.label)
    return WriteTarget(plan=checked, metadata=defined.metadata, schema=schema)
