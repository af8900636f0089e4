"""Rows of tables, as Spark's optimizer asks for them: which version, which files."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections import OrderedDict
from typing import Any, NoReturn

from pyspark.sql import DataFrame

from anabranch.callbacks.asker import Asker
from anabranch.callbacks.commands import Command
from anabranch.callbacks.schema_changes import columns_now
from anabranch.callbacks.tables import PARTITION_OPTION, TableFacts, facts_of
from anabranch.commands.read import equals_partition, scan_request
from anabranch.commands.table_access import TableHandle
from anabranch.errors.tables import ReadWithoutColumnsError
from anabranch.schema.row_tracking import row_tracking_columns
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.engine import Engine, ScanRequest
from anabranch.spark.extension.door import Answer
from anabranch.spark.row_tracking import with_ids_in_metadata, with_tracking
from anabranch.spark.table_identifiers import quote

EXECUTIONS_KEPT_MAX = 256


class Reads:
    """Chooses versions. One execution, known by its number, sees one version of a table, however often it reads it."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self._versions: OrderedDict[tuple[int, str], int] = OrderedDict()
        self._lock = threading.Lock()

    def answers(self) -> dict[str, Answer]:
        return {"rows": self.rows, "refuse to read": self.refuse}

    def commands(self) -> dict[str, Command]:
        return {}

    def refuse(self, table: Any) -> NoReturn:
        """Raises `ReadWithoutColumnsError` for a `delta.DeltaTable` that has none."""
        raise ReadWithoutColumnsError(table=str(table.name()))

    def rows(self, session: Any, table: Any, number: int, with_metadata: bool) -> Any:
        """The plan of the rows of a `delta.DeltaTable`, as columns of its schema, `_metadata` behind them if asked.

        Raises `SchemaChangedSinceAnalysisError`, and `NotADeltaTableError` where the table is gone.
        """
        own = self._asker.session(session)
        facts = facts_of(self._asker, own, table)
        handle = facts.handle
        if facts.version is None:
            snapshot = self._newest(handle, number)
        else:
            snapshot = handle.table.snapshots.at_version(facts.version)
        request = scan_request(handle, snapshot, time_travel=facts.version is not None)
        frame = _scanned(own.engine, request, snapshot, handle) if with_metadata else own.engine.scan(request)
        for column, value in json.loads(facts.options.get(PARTITION_OPTION, "{}")).items():
            frame = frame.where(equals_partition(frame, handle, column, value))
        return _as_analyzed(frame, facts, snapshot, with_metadata=with_metadata)._jdf.logicalPlan()

    def _newest(self, handle: TableHandle, number: int) -> Snapshot:
        # Only the version is kept: snapshots of large tables weigh much, and the table keeps those that are used.
        key = (number, handle.path)
        with self._lock:
            known = self._versions.get(key)
        if known is not None:
            return handle.table.snapshots.at_version(known)
        found = handle.latest()
        with self._lock:
            chosen = self._versions.setdefault(key, found.version)
            while len(self._versions) > EXECUTIONS_KEPT_MAX:
                self._versions.popitem(last=False)
        return found if chosen == found.version else handle.table.snapshots.at_version(chosen)


def _scanned(engine: Engine, request: ScanRequest, snapshot: Snapshot, handle: TableHandle) -> DataFrame:
    """The rows with `_metadata`, in which tables that track rows have their ids."""
    request = dataclasses.replace(request, with_metadata=True)
    properties = snapshot.properties
    tracking = row_tracking_columns(snapshot.protocol, properties, snapshot.schema, table=handle.label)
    frame = engine.scan(with_tracking(request, tracking))
    return frame if tracking is None else with_ids_in_metadata(frame, request.files, tracking)


def _as_analyzed(frame: DataFrame, facts: TableFacts, snapshot: Snapshot, *, with_metadata: bool) -> DataFrame:
    """The rows under the columns that the table had when the query was analyzed."""
    now = columns_now(facts, snapshot)
    if now is None:
        return frame
    return frame.select(*(frame[quote(name)] for name in now), *(["_metadata"] if with_metadata else []))
