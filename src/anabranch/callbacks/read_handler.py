"""Rows of tables for Spark's optimizer, with the version chosen; and errors for files that Spark could not read."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NoReturn
from urllib.parse import unquote

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from anabranch.callbacks.driver import Driver, joined
from anabranch.callbacks.table_handler import PARTITION_OPTION, TableFacts, current_columns, facts_of
from anabranch.commands.multi_statement.query_reads_in_transaction import record_reads, record_whole_table
from anabranch.commands.read.read_table import equals_partition, scan_request
from anabranch.commands.table_access import TableRef
from anabranch.data_skipping.whole_table import InexactStatisticsError, count_rows, find_extremes
from anabranch.errors.base import DeltaError
from anabranch.errors.environment import DataFileDamagedError, DataFileMissingError, StorageError
from anabranch.errors.tables import NonConstantArgumentError, ReadWithoutColumnsError
from anabranch.protocol.data_paths import encode_path
from anabranch.schema.column_mapping import physical_name
from anabranch.schema.paths import quote
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.engine import ScanRequest
from anabranch.spark.gateway.job_failures import is_used_up
from anabranch.spark.native.native_engine import NativeEngine
from anabranch.spark.rows.row_tracking import with_ids_in_metadata, with_tracking
from anabranch.spark.session.delta_session import open_table_of_file
from anabranch.spark.session.session_settings import check_names
from anabranch.sql.change_feed_functions import ARGUMENTS, changes_of_values
from anabranch.transactions.delta_log import DeltaLog

EXECUTIONS_KEPT_MAX = 256


class ReadHandler:
    """Chooses versions. Within one execution, identified by its number, every read of a table has the same version."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._versions: OrderedDict[tuple[int, str], int] = OrderedDict()
        self._lock = threading.Lock()

    def check_reader_options(self, options: Any) -> None:
        """Raises `InvalidOptionError` for an option of a reader whose name looks like a misspelt one."""
        check_names(self._driver.java_map(options))

    def refuse_table_without_columns(self, table: Any) -> NoReturn:
        """Raises `ReadWithoutColumnsError` for an `anabranch.DeltaTable` without columns."""
        raise ReadWithoutColumnsError(table=str(table.name()))

    def rows_of_table(self, session: Any, table: Any, execution: int, with_metadata: bool) -> Any:
        """The plan of the rows of an `anabranch.DeltaTable`: the columns of its schema and, if requested, `_metadata`.

        Raises `SchemaChangedSinceAnalysisError`, and `NotADeltaTableError` if the table was dropped.
        """
        delta_session = self._driver.session(session)
        facts = facts_of(self._driver, delta_session, table)
        table_ref = facts.table
        snapshot = self._chosen(facts, execution)
        request = scan_request(table_ref, snapshot, time_travel=facts.version is not None)
        frame = (
            _scanned(delta_session.engine, request, snapshot, table_ref)
            if with_metadata
            else delta_session.engine.scan(request)
        )
        for column, value in json.loads(facts.options.get(PARTITION_OPTION, "{}")).items():
            frame = frame.where(equals_partition(frame, table_ref, column, value))
        plan = _as_analyzed(frame, facts, snapshot, with_metadata=with_metadata)._jdf.logicalPlan()
        transaction = table_ref.open_transaction
        if transaction is not None and facts.version is None:
            return self._driver.anabranch.Transactions.marked(plan, transaction.key)
        return plan

    def record_reads(self, session: Any, transaction: str, plan: Any) -> None:
        """Record what a query in an open transaction reads, by its optimized plan."""
        record_reads(self._driver.session(session), transaction, plan)

    def aggregate_table(self, session: Any, table: Any, execution: int, aggregates: str) -> str | None:
        """Aggregates of all rows: whole numbers separated by NUL, empty for NULL; None if the log could be inexact.

        `aggregates` are words: `count`, or `min` or `max` with the position of a column, as in `max:2`. Dates are days
        since 1970-01-01. Raises as `rows_of_table`.
        """
        facts = facts_of(self._driver, self._driver.session(session), table)
        if facts.is_partial:
            return None
        snapshot = self._chosen(facts, execution)
        if facts.version is None:
            record_whole_table(facts.table, snapshot)
        names = current_columns(facts, snapshot) or snapshot.schema.names
        try:
            values = [_aggregate(snapshot, names, word) for word in aggregates.split()]
        except InexactStatisticsError:
            return None
        return joined("" if value is None else str(value) for value in values)

    def _chosen(self, facts: TableFacts, execution: int) -> Snapshot:
        if facts.version is None:
            return self._newest(facts.table, execution)
        return facts.table.delta_log.snapshots.at_version(facts.version)

    def _newest(self, table: TableRef, execution: int) -> Snapshot:
        # Only the version is kept: snapshots of large tables need much memory, and the table keeps those in use.
        key = (execution, table.path)
        with self._lock:
            version = self._versions.get(key)
        if version is not None:
            return table.delta_log.snapshots.at_version(version)
        latest = table.latest()
        with self._lock:
            chosen = self._versions.setdefault(key, latest.version)
            while len(self._versions) > EXECUTIONS_KEPT_MAX:
                self._versions.popitem(last=False)
        return latest if chosen == latest.version else table.delta_log.snapshots.at_version(chosen)


def _aggregate(snapshot: Snapshot, names: Sequence[str], word: str) -> int | None:
    function, _, position = word.partition(":")
    if function == "count":
        return count_rows(snapshot.skipping_columns)
    field = snapshot.schema[names[int(position)]]
    extremes = find_extremes(snapshot.skipping_columns, physical_name(field, snapshot.column_mapping_mode))
    return extremes.least if function == "min" else extremes.greatest


def _scanned(engine: NativeEngine, request: ScanRequest, snapshot: Snapshot, table: TableRef) -> DataFrame:
    """The rows with `_metadata`, which has the row ids of tables with row tracking."""
    request = dataclasses.replace(request, with_metadata=True)
    tracking = snapshot.row_tracking
    frame = engine.scan(with_tracking(request, tracking))
    return frame if tracking is None else with_ids_in_metadata(frame, request.files, tracking)


def _as_analyzed(frame: DataFrame, facts: TableFacts, snapshot: Snapshot, *, with_metadata: bool) -> DataFrame:
    """The rows under the columns that the table had when the query was analyzed."""
    names = current_columns(facts, snapshot)
    if names is None:
        return frame
    return frame.select(*(frame[quote(name)] for name in names), *(["_metadata"] if with_metadata else []))


# The SQL functions `table_changes` and `table_changes_by_path`.


class TableFunctionHandler:
    """Returns the rows of table functions."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def rows_of_function(self, session: Any, function: str, arguments: Any) -> Any:
        """The plan of the function's rows. `arguments` are expressions without columns.

        Raises `NonConstantArgumentError`.
        """
        texts = [str(argument.sql()) for argument in self._driver.list(arguments)]
        outer = self._driver.jvm.org.apache.spark.sql.catalyst.expressions.SubExprUtils
        for text, argument in zip(texts, self._driver.list(arguments), strict=True):
            if outer.containsOuter(argument):
                raise NonConstantArgumentError(function=function, expression=text)
        values = self._values(session, arguments) if len(texts) in ARGUMENTS else None
        delta_session = self._driver.session(session)
        _, frame = changes_of_values(delta_session, function, texts, values, namespace=self._namespace())
        return frame._jdf.logicalPlan()

    def _values(self, session: Any, arguments: Any) -> list[tuple[str, str | None]]:
        """The type of each argument, and its value as text in the session's time zone."""
        columns = [self._driver.column(argument) for argument in self._driver.list(arguments)]
        one_row = self._driver.spark(session).sql("SELECT 1")
        facts = [fact for column in columns for fact in (F.typeof(column), column.cast("string"))]
        row = one_row.select(*facts).collect()[0]
        return [(row[index], row[index + 1]) for index in range(0, len(row), 2)]

    def _namespace(self) -> tuple[str, ...]:
        """The schema of the view whose text is being resolved, without its catalog; empty outside of views."""
        context = self._driver.jvm.org.apache.spark.sql.catalyst.analysis.AnalysisContext.get()
        return tuple(map(str, self._driver.list(context.catalogAndNamespace())))[1:]


# Data files that Spark could not read or write.


_MISSING = "FAILED_READ_FILE.FILE_NOT_EXIST"
_WRITING = "TASK_WRITE_FAILED"


def failure_of_file(condition: str, path: str, reason: str) -> DeltaError | None:
    """The error that replaces Spark's for a data file of a Delta table; None for any other file."""
    plain = unquote(path.removeprefix("file://") if path.startswith("file:///") else path.removeprefix("file:"))
    opened = open_table_of_file(plain)
    if opened is None:
        return None
    root, table = opened
    label, file = f"delta.`{root}`", plain.removeprefix(root).lstrip("/")
    reason = reason.partition("\n")[0]
    if condition == _WRITING:
        return StorageError(root=root, path=file, doing="write data files to", cause=reason)
    if is_used_up(reason):
        # Java reports a file that it has no descriptor for as one that does not exist.
        return StorageError(root=root, path=file, doing="read", cause=reason)
    version = _newest_with(table, file)
    if condition == _MISSING:
        return DataFileMissingError(table=label, file=file, version=version)
    return DataFileDamagedError(table=label, file=file, version=version, problem=reason)


def _newest_with(table: DeltaLog, file: str) -> int | None:
    """The newest version, if the file belongs to it."""
    try:
        snapshot = table.snapshots.latest_or_none()
    except DeltaError:
        # The log is damaged as well; the next read of the table reports that.
        return None
    if snapshot is None or not snapshot.files.at_path(encode_path(file)):
        return None
    return snapshot.version
