"""Rows of tables, as Spark's optimizer asks for them: which version, which files; and files that it could not read."""

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

from anabranch.callbacks.answer_tables import PARTITION_OPTION, TableFacts, columns_now, facts_of
from anabranch.callbacks.driver import Driver, joined
from anabranch.callbacks.resolved_commands import Command
from anabranch.commands.option_names import check_names
from anabranch.commands.read.read_table import equals_partition, scan_request
from anabranch.commands.table_access import TableRef
from anabranch.data_skipping.whole_table import NotToldError, count_rows, find_extremes
from anabranch.errors.base import DeltaError
from anabranch.errors.environment import DataFileDamagedError, DataFileMissingError, StorageError
from anabranch.errors.tables import NonConstantArgumentError, ReadWithoutColumnsError
from anabranch.protocol.data_paths import encode_path
from anabranch.schema.column_mapping import physical_name
from anabranch.schema.computed_columns import row_tracking_columns
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.engine import ScanRequest
from anabranch.spark.gateway.callback_endpoint import Answer
from anabranch.spark.native.native_engine import NativeEngine
from anabranch.spark.rows.row_tracking import with_ids_in_metadata, with_tracking
from anabranch.spark.session.delta_session import open_table_of_file
from anabranch.spark.session.table_identifiers import quote
from anabranch.sql.change_feed_functions import ARGUMENTS, changes_of_values
from anabranch.transaction.delta_log import DeltaLog

EXECUTIONS_KEPT_MAX = 256


class Reads:
    """Chooses versions. One execution, known by its number, sees one version of a table, however often it reads it."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._versions: OrderedDict[tuple[int, str], int] = OrderedDict()
        self._lock = threading.Lock()

    def answers(self) -> dict[str, Answer]:
        return {
            "rows": self.rows,
            "whole table": self.whole_table,
            "refuse to read": self.refuse,
            "check options": self.check,
        }

    def commands(self) -> dict[str, Command]:
        return {}

    def check(self, options: Any) -> None:
        """Raises `InvalidOptionError` for an option of a reader by name that is nearly one that there is."""
        check_names(self._driver.java_map(options))

    def refuse(self, table: Any) -> NoReturn:
        """Raises `ReadWithoutColumnsError` for a `delta.DeltaTable` that has none."""
        raise ReadWithoutColumnsError(table=str(table.name()))

    def rows(self, session: Any, table: Any, number: int, with_metadata: bool) -> Any:
        """The plan of the rows of a `delta.DeltaTable`, as columns of its schema, `_metadata` behind them if asked.

        Raises `SchemaChangedSinceAnalysisError`, and `NotADeltaTableError` where the table is gone.
        """
        own = self._driver.session(session)
        facts = facts_of(self._driver, own, table)
        table_ref = facts.table
        snapshot = self._chosen(facts, number)
        request = scan_request(table_ref, snapshot, time_travel=facts.version is not None)
        frame = _scanned(own.engine, request, snapshot, table_ref) if with_metadata else own.engine.scan(request)
        for column, value in json.loads(facts.options.get(PARTITION_OPTION, "{}")).items():
            frame = frame.where(equals_partition(frame, table_ref, column, value))
        return _as_analyzed(frame, facts, snapshot, with_metadata=with_metadata)._jdf.logicalPlan()

    def whole_table(self, session: Any, table: Any, number: int, asked: str) -> str | None:
        """What `asked` is over all rows: whole numbers parted by NUL, empty for NULL; None where the log cannot tell.

        `asked` are words: `count`, or `min` or `max` with the place of a column, as in `max:2`. Dates are days since
        1970-01-01. Raises as `rows`.
        """
        facts = facts_of(self._driver, self._driver.session(session), table)
        if facts.shows_less:
            return None
        snapshot = self._chosen(facts, number)
        names = columns_now(facts, snapshot) or snapshot.schema.names
        try:
            found = [_of_all_rows(snapshot, names, word) for word in asked.split()]
        except NotToldError:
            return None
        return joined("" if value is None else str(value) for value in found)

    def _chosen(self, facts: TableFacts, number: int) -> Snapshot:
        if facts.version is None:
            return self._newest(facts.table, number)
        return facts.table.delta_log.snapshots.at_version(facts.version)

    def _newest(self, table: TableRef, number: int) -> Snapshot:
        # Only the version is kept: snapshots of large tables weigh much, and the table keeps those that are used.
        key = (number, table.path)
        with self._lock:
            known = self._versions.get(key)
        if known is not None:
            return table.delta_log.snapshots.at_version(known)
        found = table.latest()
        with self._lock:
            chosen = self._versions.setdefault(key, found.version)
            while len(self._versions) > EXECUTIONS_KEPT_MAX:
                self._versions.popitem(last=False)
        return found if chosen == found.version else table.delta_log.snapshots.at_version(chosen)


def _of_all_rows(snapshot: Snapshot, names: Sequence[str], asked: str) -> int | None:
    function, _, place = asked.partition(":")
    if function == "count":
        return count_rows(snapshot.skipping_columns)
    field = snapshot.schema[names[int(place)]]
    found = find_extremes(snapshot.skipping_columns, physical_name(field, snapshot.column_mapping_mode))
    return found.least if function == "min" else found.greatest


def _scanned(engine: NativeEngine, request: ScanRequest, snapshot: Snapshot, table: TableRef) -> DataFrame:
    """The rows with `_metadata`, in which tables that track rows have their ids."""
    request = dataclasses.replace(request, with_metadata=True)
    properties = snapshot.properties
    tracking = row_tracking_columns(snapshot.protocol, properties, snapshot.schema, table=table.label)
    frame = engine.scan(with_tracking(request, tracking))
    return frame if tracking is None else with_ids_in_metadata(frame, request.files, tracking)


def _as_analyzed(frame: DataFrame, facts: TableFacts, snapshot: Snapshot, *, with_metadata: bool) -> DataFrame:
    """The rows under the columns that the table had when the query was analyzed."""
    now = columns_now(facts, snapshot)
    if now is None:
        return frame
    return frame.select(*(frame[quote(name)] for name in now), *(["_metadata"] if with_metadata else []))


# `table_changes` and `table_changes_by_path`, as functions that Spark knows.


class TableFunctions:
    """Functions whose results are tables."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def answers(self) -> dict[str, Answer]:
        return {"table function": self.rows}

    def commands(self) -> dict[str, Command]:
        return {}

    def rows(self, session: Any, function: str, arguments: Any) -> Any:
        """The plan of the function's rows. `arguments` are expressions without columns."""
        texts = [str(argument.sql()) for argument in self._driver.list(arguments)]
        outer = self._driver.jvm.org.apache.spark.sql.catalyst.expressions.SubExprUtils
        for text, argument in zip(texts, self._driver.list(arguments), strict=True):
            if outer.containsOuter(argument):
                raise NonConstantArgumentError(function=function, expression=text)
        values = self._values(session, arguments) if len(texts) in ARGUMENTS else None
        own = self._driver.session(session)
        _, frame = changes_of_values(own, function, texts, values, namespace=self._namespace())
        return frame._jdf.logicalPlan()

    def _values(self, session: Any, arguments: Any) -> list[tuple[str, str | None]]:
        """The type of each argument, and its value as text in the session's time zone."""
        columns = [self._driver.column(argument) for argument in self._driver.list(arguments)]
        one_row = self._driver.spark(session).sql("SELECT 1")
        told = [each for column in columns for each in (F.typeof(column), column.cast("string"))]
        row = one_row.select(*told).collect()[0]
        return [(row[place], row[place + 1]) for place in range(0, len(row), 2)]

    def _namespace(self) -> tuple[str, ...]:
        """Of the view whose text is being resolved, without its catalog; empty outside of views."""
        context = self._driver.jvm.org.apache.spark.sql.catalyst.analysis.AnalysisContext.get()
        return tuple(map(str, self._driver.list(context.catalogAndNamespace())))[1:]


# Data files that Spark could not read or write: which table they are of, and what can be done.


_MISSING = "FAILED_READ_FILE.FILE_NOT_EXIST"
_WRITING = "TASK_WRITE_FAILED"


def failure_of_file(condition: str, path: str, reason: str) -> DeltaError | None:
    """The error to raise in the place of Spark's, for a file of a table of ours; None for any other."""
    plain = unquote(path.removeprefix("file://") if path.startswith("file:///") else path.removeprefix("file:"))
    found = open_table_of_file(plain)
    if found is None:
        return None
    root, table = found
    label, file = f"delta.`{root}`", plain.removeprefix(root).lstrip("/")
    reason = reason.partition("\n")[0]
    if condition == _WRITING:
        return StorageError(root=root, path=file, doing="write data files to", cause=reason)
    version = _newest_with(table, file)
    if condition == _MISSING:
        return DataFileMissingError(table=label, file=file, version=version)
    return DataFileDamagedError(table=label, file=file, version=version, problem=reason)


def _newest_with(table: DeltaLog, file: str) -> int | None:
    """The newest version, if it needs the file."""
    try:
        snapshot = table.snapshots.latest_or_none()
    except DeltaError:
        # The log is damaged as well; that is told when somebody asks for it.
        return None
    if snapshot is None or not snapshot.files.at_path(encode_path(file)):
        return None
    return snapshot.version
