"""Tables created or replaced together with their rows: CTAS, RTAS, `saveAsTable`, `writeTo(…).create()`.

Spark requests a staged table, passes it the rows, and calls its commit directly afterwards. The rows are written when
they are passed, and the definition is committed with them in one version of the log; the entry in the catalog comes
last. So the catalog never has an entry for a table that does not exist. If the process dies between the two, the table
has no name; `CREATE TABLE name USING delta LOCATION …` gives it one.
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

from anabranch.callbacks.definition_facts import DefinedByStatement, definition_facts
from anabranch.callbacks.definition_handler import check_conditions
from anabranch.callbacks.driver import Driver, StatementExecution, joined
from anabranch.commands.create.create_table import CreationMode, create_table, created_meanwhile
from anabranch.commands.create.create_table_as import create_table_as
from anabranch.commands.definition.table_definition import TableDefinition
from anabranch.commands.table_access import TableRef, check_may_be_part, table_to_create
from anabranch.commands.write.write_command import write_named
from anabranch.commands.write.write_options import ON, USING, WriteOptions
from anabranch.errors.dml import TableReplacementError
from anabranch.errors.tables import NotADeltaTableError, TableAlreadyExistsError
from anabranch.spark.gateway.jvm_classes import joined_map
from anabranch.spark.session.classic_catalog import CatalogObjects
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.spark.session.table_identifiers import NameIdentifier

STAGED_OPTION = "anabranch.staged"
"""For an `anabranch.DeltaTable` that is staged: its key in `StagingHandler`."""
UNLESS_THERE_OPTION = "anabranch.unlessThere"
"""The statement has IF NOT EXISTS, and Spark found no table when it began."""
SAVES_OPTION = "__v1_save_as_table_overwrite"
"""Spark from 4.1 on passes this with the rows if `saveAsTable` replaces the table. A client has no such call stack."""
STAGED_MAX = 256
"""A staged table that is neither committed nor aborted is dropped after so many others."""
_MODES = {
    "create": CreationMode.CREATE,
    "replace": CreationMode.REPLACE,
    "create or replace": CreationMode.CREATE_OR_REPLACE,
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Staged:
    """A table that a statement will create or replace."""

    defined: DefinedByStatement
    table: TableRef
    mode: CreationMode
    overwrites: bool
    """`saveAsTable` in mode overwrite: an existing table keeps its definition, except for what options change."""
    began_ms: int
    """The time at which the statement began, by the session's clock."""
    is_written: bool = False
    options: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """The options of the writer of the rows."""


class StagingHandler:
    """Keeps staged tables until they are committed or aborted."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._staged: OrderedDict[str, Staged] = OrderedDict()
        self._lock = threading.Lock()

    def stage_table(
        self,
        session: Any,
        mode: str,
        ident: Any,
        columns: Any,
        partitions: Any,
        properties: Any,
        checks: str,
        saves: bool,
    ) -> Any:
        """An `anabranch.DeltaTable` that takes rows. Nothing is written."""
        delta_session = self._driver.session(session)
        began_ms = delta_session.clock.now_ms()
        checked = check_conditions(delta_session, checks)
        defined = definition_facts(self._driver, delta_session, ident, columns, partitions, properties, checks=checked)
        table = defined.table(delta_session)
        check_may_be_part(table, "CREATE TABLE AS SELECT")
        creation_mode = _MODES[mode]
        if creation_mode is CreationMode.REPLACE and not _exists(delta_session, table):
            raise NotADeltaTableError(table=table.label, found="the table to replace cannot be found")
        overwrites = saves and creation_mode is CreationMode.CREATE_OR_REPLACE
        key = uuid.uuid4().hex
        with self._lock:
            self._staged[key] = Staged(
                defined=defined, table=table, mode=creation_mode, overwrites=overwrites, began_ms=began_ms
            )
            while len(self._staged) > STAGED_MAX:
                self._staged.popitem(last=False)
        return self._driver.anabranch.DeltaTable(
            table.label,
            table.path,
            # The rows alone decide which columns there will be.
            StructType([StructField(f.name, f.dataType) for f in defined.definition.schema.fields]).json(),
            joined(defined.definition.partition_columns),
            "",
            joined_map({"provider": "delta"}),
            None,
            None,
            joined_map({STAGED_OPTION: key}),
            None,
        )

    def _write_staged_rows(self, key: str, session: Any, plan: Any, options: Mapping[str, str]) -> None:
        """Write the rows of the staged table and commit them with its definition.

        Spark completes observations of the rows (`df.observe`) when this returns; the rows have been counted by then.
        """

        def rows() -> DataFrame:
            return StatementExecution(self._driver, session).frame(plan)

        writer_options = {name: value for name, value in options.items() if name.lower() != SAVES_OPTION}
        with self._lock:
            staged = self._staged[key]
            saves = len(writer_options) < len(options) and staged.mode is CreationMode.CREATE_OR_REPLACE
            overwrites = staged.overwrites or saves
        staged = dataclasses.replace(staged, options=writer_options, overwrites=overwrites)
        self._write(staged, rows, _options(staged, self._driver.session(session)))
        with self._lock:
            self._staged[key] = dataclasses.replace(staged, is_written=True)

    def commit_staged_table(self, session: Any, key: str) -> None:
        """Commit a table without rows; rows are committed as soon as they are written."""
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
            # Spark found no table, so another writer created it afterwards.
            lost = created_meanwhile(staged.table)
            if lost is None:
                raise
            raise lost from exists

    def _create_with_rows(self, session: Any, plan: Any) -> Any:
        """A `CreateTable` of Spark's sources of version 1, with rows: `saveAsTable` over a table of another format."""
        facts = json.loads(self._driver.anabranch.TableDefinitions.jsonOf(plan.tableDesc()))
        delta_session = self._driver.session(session)
        name = NameIdentifier((facts["database"] or delta_session.spark.catalog.currentDatabase(), facts["name"]))
        values: dict[str, str] = facts["options"]
        options = WriteOptions.parse(
            values,
            mode="overwrite",
            partition_by=tuple(facts["partitionColumns"]),
            cluster_by=tuple(facts["clusteringColumns"]),
            settings=delta_session,
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
            return StatementExecution(self._driver, session).frame(query)

        entry = delta_session.catalog.find(name)
        if entry is not None and str(plan.mode()) == "Overwrite":
            objects = CatalogObjects(delta_session.spark)
            objects.catalog.dropTable(objects.identifier(name), True, False)
        table = table_to_create(delta_session, name, location=facts["location"])
        create_table_as(table, definition, rows, CreationMode.CREATE_OR_REPLACE, options)
        return self._driver.seq([])

    def abort_staged_table(self, key: str) -> None:
        """Forget the table; none of its rows were written."""
        with self._lock:
            self._staged.pop(key, None)


def _options(staged: Staged, session: DeltaSession) -> WriteOptions:
    values = {**staged.defined.options, **staged.options}
    if not staged.overwrites:
        chosen = {option.lower() for option in values}
        for option in (ON, USING):
            if option.lower() in chosen:
                raise TableReplacementError(option=option, other=staged.mode.value)
    definition = staged.defined.definition
    options = WriteOptions.parse(
        values,
        mode="overwrite",
        partition_by=definition.partition_columns,
        cluster_by=definition.clustering_columns,
        settings=session,
    )
    return dataclasses.replace(options, path=staged.defined.location)


def _exists(session: DeltaSession, table: TableRef) -> bool:
    is_registered = table.entry is None or session.catalog.find(table.entry.full_name) is not None
    return is_registered and table.delta_log.snapshots.latest_or_none() is not None
