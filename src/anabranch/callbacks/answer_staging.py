"""Tables made or replaced together with their rows: CTAS, RTAS, `saveAsTable`, `writeTo(…).create()`.

Spark asks for a staged table, hands it the rows, and right behind them says when to commit. Rows are run when they are
handed over, and the definition committed with them in one version of the log; the catalog learns the name last. So an
entry of the catalog never stands for a table that is not there; of a process that dies between the two, the table is
left without a name, which `CREATE TABLE name USING delta LOCATION …` gives it.
"""

from __future__ import annotations

import dataclasses
import json
import threading
import uuid
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from anabranch.callbacks.answer_definitions import conditions
from anabranch.callbacks.answer_row_changes import Versions
from anabranch.callbacks.definition_facts import DefinedByStatement, definition_facts
from anabranch.callbacks.driver import Driver, joined
from anabranch.commands.definition.create_table import CreationMode, create_table, created_meanwhile
from anabranch.commands.definition.create_table_as import create_table_as
from anabranch.commands.definition.table_definition import TableDefinition
from anabranch.commands.table_access import TableRef, table_to_create
from anabranch.commands.write.write_options import ON, USING, WriteOptions
from anabranch.commands.write.write_rows import write_named
from anabranch.errors.dml import TableReplacementError
from anabranch.errors.tables import NotADeltaTableError, TableAlreadyExistsError
from anabranch.spark.gateway.callback_endpoint import Answer
from anabranch.spark.gateway.jvm_classes import joined_map
from anabranch.spark.session.classic_catalog import CatalogObjects
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.spark.session.table_identifiers import NameIdentifier

STAGED_OPTION = "anabranch.staged"
"""Of a `delta.DeltaTable` that is staged: which one."""
UNLESS_THERE_OPTION = "anabranch.unlessThere"
"""The statement says IF NOT EXISTS, and Spark found no table when it began."""
SAVES_OPTION = "__v1_save_as_table_overwrite"
"""From 4.1 on Spark tells with the rows that it is `saveAsTable` that replaces the table. Of a client no stack does."""
STAGED_MAX = 256
"""Staged tables that nobody commits nor aborts are let go when so many others follow."""
_MODES = {
    "create": CreationMode.CREATE,
    "replace": CreationMode.REPLACE,
    "create or replace": CreationMode.CREATE_OR_REPLACE,
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Staged:
    """A table to be."""

    defined: DefinedByStatement
    table: TableRef
    mode: CreationMode
    overwrites: bool
    """It is `saveAsTable` in mode overwrite: a table that is there keeps its definition, but for what options say."""
    began_ms: int
    """When the statement began, by the session's clock."""
    is_written: bool = False
    options: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Of the writer of the rows."""


class Staging:
    """Keeps staged tables until they are committed or aborted."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._staged: OrderedDict[str, Staged] = OrderedDict()
        self._lock = threading.Lock()

    def answers(self) -> dict[str, Answer]:
        return {"stage": self.stage, "commit staged": self.commit, "abort staged": self.abort}

    def stage(
        self,
        session: Any,
        how: str,
        ident: Any,
        columns: Any,
        partitions: Any,
        properties: Any,
        checks: str,
        saves: bool,
    ) -> Any:
        """A `delta.DeltaTable` that takes rows. Nothing is written."""
        own = self._driver.session(session)
        began_ms = own.clock.now_ms()
        checked = conditions(own, checks)
        defined = definition_facts(self._driver, own, ident, columns, partitions, properties, checks=checked)
        table = defined.table(own)
        mode = _MODES[how]
        if mode is CreationMode.REPLACE and not _is_there(own, table):
            raise NotADeltaTableError(table=table.label, found="what is to be replaced cannot be found")
        overwrites = saves and mode is CreationMode.CREATE_OR_REPLACE
        key = uuid.uuid4().hex
        with self._lock:
            self._staged[key] = Staged(
                defined=defined, table=table, mode=mode, overwrites=overwrites, began_ms=began_ms
            )
            while len(self._staged) > STAGED_MAX:
                self._staged.popitem(last=False)
        return self._driver.delta.DeltaTable(
            table.label,
            table.path,
            # The rows alone say what columns there will be.
            StructType([StructField(f.name, f.dataType) for f in defined.definition.schema.fields]).json(),
            joined(defined.definition.partition_columns),
            "",
            joined_map({"provider": "delta"}),
            None,
            joined_map({STAGED_OPTION: key}),
            None,
        )

    def take(self, key: str, session: Any, plan: Any, options: Mapping[str, str]) -> None:
        """Write the rows of the staged table and commit them with its definition.

        Spark completes what observes the rows (`df.observe`) when it is done with handing them over: by then they have
        been counted.
        """

        def rows() -> DataFrame:
            return Versions(self._driver, session).frame(plan)

        told = {name: value for name, value in options.items() if name.lower() != SAVES_OPTION}
        with self._lock:
            staged = self._staged[key]
            saves = len(told) < len(options) and staged.mode is CreationMode.CREATE_OR_REPLACE
            overwrites = staged.overwrites or saves
        staged = dataclasses.replace(staged, options=told, overwrites=overwrites)
        self._write(staged, rows, _options(staged, self._driver.session(session)))
        with self._lock:
            self._staged[key] = dataclasses.replace(staged, is_written=True)

    def commit(self, session: Any, key: str) -> None:
        """Commit a table that has no rows; rows are committed as soon as they are written."""
        with self._lock:
            staged = self._staged.pop(key)
        if not staged.is_written:
            create_table(staged.table, staged.defined.definition, staged.mode)

    def _write(self, staged: Staged, rows: Callable[[], DataFrame], options: WriteOptions) -> None:
        if staged.overwrites and staged.table.delta_log.snapshots.latest_or_none() is not None:
            write_named(staged.table, rows, options)
            return
        definition = staged.defined.definition
        properties = {**definition.properties, **options.table_properties}
        definition = dataclasses.replace(definition, properties=properties)
        mode = CreationMode.CREATE_IF_NOT_EXISTS if UNLESS_THERE_OPTION in staged.options else staged.mode
        try:
            create_table_as(staged.table, definition, rows, mode, options, began_ms=staged.began_ms)
        except TableAlreadyExistsError as exists:
            # Spark has looked before: it has come since.
            lost = created_meanwhile(staged.table)
            if lost is None:
                raise
            raise lost from exists

    def create_with_rows(self, session: Any, plan: Any) -> Any:
        """A `CreateTable` of Spark's older kind, with rows: `saveAsTable` over a table of another format."""
        facts = json.loads(self._driver.delta.Definitions.factsOf(plan.tableDesc()))
        own = self._driver.session(session)
        name = NameIdentifier((facts["database"] or own.spark.catalog.currentDatabase(), facts["name"]))
        given: dict[str, str] = facts["options"]
        options = WriteOptions.parse(
            given,
            mode="overwrite",
            partition_by=tuple(facts["partitionColumns"]),
            cluster_by=tuple(facts["clusteringColumns"]),
            settings=own,
        )
        definition = TableDefinition(
            schema=StructType([]),
            partition_columns=options.partition_by,
            clustering_columns=options.cluster_by,
            properties={**facts["properties"], **options.table_properties},
            description=facts["comment"],
        )
        query = plan.query().get()

        def rows() -> DataFrame:
            return Versions(self._driver, session).frame(query)

        entry = own.catalog.find(name)
        if entry is not None and str(plan.mode()) == "Overwrite":
            objects = CatalogObjects(own.spark)
            objects.catalog.dropTable(objects.identifier(name), True, False)
        table = table_to_create(own, name, location=facts["location"])
        create_table_as(table, definition, rows, CreationMode.CREATE_OR_REPLACE, options)
        return self._driver.seq([])

    def abort(self, key: str) -> None:
        """Forget the table; nothing of it was written."""
        with self._lock:
            self._staged.pop(key, None)


def _options(staged: Staged, session: DeltaSession) -> WriteOptions:
    given = {**staged.defined.options, **staged.options}
    if not staged.overwrites:
        chosen = {option.lower() for option in given}
        for option in (ON, USING):
            if option.lower() in chosen:
                raise TableReplacementError(option=option, other=staged.mode.value)
    definition = staged.defined.definition
    options = WriteOptions.parse(
        given,
        mode="overwrite",
        partition_by=definition.partition_columns,
        cluster_by=definition.clustering_columns,
        settings=session,
    )
    return dataclasses.replace(options, path=staged.defined.location)


def _is_there(session: DeltaSession, table: TableRef) -> bool:
    known = table.entry is None or session.catalog.find(table.entry.full_name) is not None
    return known and table.delta_log.snapshots.latest_or_none() is not None
