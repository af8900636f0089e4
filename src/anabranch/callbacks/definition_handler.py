"""Tables made, changed and dropped through the catalog."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, NoReturn

from anabranch.callbacks.alter_table_changes import apply_changes
from anabranch.callbacks.definition_facts import DefinedByStatement, definition_facts, with_sql_to_keep
from anabranch.callbacks.driver import Driver, joined
from anabranch.callbacks.resolved_commands import Command
from anabranch.callbacks.table_handler import whole_table_of
from anabranch.commands.alter.alter_constraints import alter_add_constraint
from anabranch.commands.create.create_table import (
    CreationMode,
    create_table,
    created_meanwhile,
    definition_like,
    definition_of,
)
from anabranch.commands.create.table_location import delete_folder
from anabranch.commands.dml.delete import truncate
from anabranch.commands.other_formats.formats_in_place import refuse, warn_of_files, warn_of_replacement
from anabranch.commands.table_access import check_may_be_part, is_delta_identifier, table_of_entry
from anabranch.errors.arguments import UnsupportedOperationError
from anabranch.errors.commits import ConflictReason, ProtocolChangedException
from anabranch.errors.tables import TableAlreadyExistsError
from anabranch.spark.gateway.python_errors import throwable
from anabranch.spark.session.catalog import PROVIDER
from anabranch.spark.session.classic_catalog import CatalogObjects
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.spark.session.folder_catalog import FolderName, entry_of_folder
from anabranch.spark.session.table_identifiers import NameIdentifier, PathIdentifier, TableIdentifier, identifier_of
from anabranch.sql.literals import as_quoted_names

WARNED_MAX = 256
"""Folders whose warnings are remembered."""


class DefinitionHandler:
    """Tables made, changed and dropped through the catalog."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._warned: set[tuple[str, str, bool]] = set()

    def create_table(
        self, session: Any, ident: Any, columns: Any, partitions: Any, properties: Any, checks: str
    ) -> Any:
        """CREATE TABLE without a query. Returns an exception if another writer created the table meanwhile."""
        delta_session = self._driver.session(session)
        checked = check_conditions(delta_session, checks)
        defined = definition_facts(self._driver, delta_session, ident, columns, partitions, properties, checks=checked)
        return self._created(session, defined)

    def create_table_like(
        self, session: Any, ident: Any, columns: Any, partitions: Any, properties: Any, source: Any
    ) -> Any:
        """CREATE TABLE LIKE; `source` is None for a table of another format, which columns and partitions describe."""
        delta_session = self._driver.session(session)
        defined = definition_facts(self._driver, delta_session, ident, columns, partitions, properties)
        if source is not None:
            like = definition_of(
                whole_table_of(self._driver, delta_session, source, statement="CREATE TABLE LIKE").latest()
            )
            like = dataclasses.replace(like, properties={**like.properties, **defined.definition.properties})
            defined = dataclasses.replace(defined, definition=like)
        return self._created(session, defined)

    def _create_like(self, session: Any, plan: Any) -> Any:
        """CREATE TABLE LIKE of Spark up to 4.1, a command for the session's catalog only."""
        delta_session = self._driver.session(session)
        uri = plan.fileFormat().locationUri()
        folder = self._driver.path(uri.get()) if uri.isDefined() else None
        properties = self._driver.string_map(plan.properties())
        defined = DefinedByStatement(
            identifier=_identifier(plan.targetTable()),
            definition=definition_like(delta_session, _identifier(plan.sourceTable()), properties),
            location=folder,
            options={},
        )
        mode = CreationMode.CREATE_IF_NOT_EXISTS if plan.ifNotExists() else CreationMode.CREATE
        create_table(defined.table(delta_session), defined.definition, mode)
        return self._driver.seq([])

    def _like_of_delta(self, session: Any, plan: Any) -> Any:
        """The plan, if it creates a Delta table."""
        provider = plan.provider()
        if provider.isDefined():
            return plan if provider.get().lower() == PROVIDER else None
        return plan if is_delta_identifier(self._driver.session(session), _identifier(plan.sourceTable())) else None

    def _created(self, session: Any, defined: DefinedByStatement) -> Any:
        table = defined.table(self._driver.session(session))
        try:
            create_table(table, defined.definition, CreationMode.CREATE)
        except TableAlreadyExistsError:
            # Spark found no table, so another writer created it afterwards.
            lost = created_meanwhile(table)
            if lost is None:
                raise
        except ProtocolChangedException as error:
            if error.reason is not ConflictReason.TABLE_CREATED:
                raise
            lost = error
        else:
            return None
        # Spark ignores this exception for IF NOT EXISTS.
        errors = self._driver.jvm.delta
        return errors.CreatedMeanwhile(table.label, throwable(errors, lost))

    def alter_table(self, session: Any, table: Any, changes: str) -> None:
        """ALTER TABLE and COMMENT ON."""
        delta_session = self._driver.session(session)
        apply_changes(whole_table_of(self._driver, delta_session, table, statement="ALTER TABLE"), changes)

    def _alter_columns(self, session: Any, plan: Any) -> Any:
        """An `AlterColumns` that Spark itself would refuse before it reaches the catalog."""
        table = self._driver.anabranch.TableStatements.tableOf(plan)
        self.alter_table(session, table, self._driver.anabranch.TableChanges.jsonOf(plan.changes()))
        return self._driver.seq([])

    def _add_check(self, session: Any, plan: Any) -> Any:
        """An `AddCheckConstraint`."""
        leaf = self._driver.anabranch.PlanFunctions.target(plan)
        table, delta_session = self._driver.anabranch.DeltaRelations.tableOf(leaf), self._driver.session(session)
        table_ref = whole_table_of(self._driver, delta_session, table, statement="ALTER TABLE")
        check = plan.checkConstraint()
        alter_add_constraint(table_ref, str(check.name()), as_quoted_names(table_ref.session, str(check.condition())))
        return self._driver.seq([])

    def _checks_table(self, session: Any, plan: Any) -> Any:
        if not self._driver.anabranch.DeltaRelations.isTable(self._driver.anabranch.PlanFunctions.target(plan)):
            raise UnsupportedOperationError(operation="ADD CONSTRAINT for a view", instead="Name the table.")
        return plan

    def rename_table(self, session: Any, full_name: str, new_database: str, new_name: str) -> None:
        """ALTER TABLE RENAME TO. The folder of a managed table moves with it."""
        parts = tuple(full_name.split("\0"))
        _refuse_path(parts, operation="RENAME TO", instead="Give it a name by CREATE TABLE … LOCATION.")
        delta_session = self._driver.session(session)
        objects = CatalogObjects(delta_session.spark)
        old = NameIdentifier(parts[-2:])
        entry = delta_session.catalog.find(NameIdentifier(parts))
        new = NameIdentifier((new_database, new_name))
        if entry is not None and entry.location is not None:
            check_may_be_part(table_of_entry(delta_session, entry), "RENAME TO")
        objects.catalog.renameTable(objects.identifier(old), objects.identifier(new))
        if entry is not None and entry.location is not None:
            delta_session.forget(entry.location)

    def drop_table(self, session: Any, full_name: str, purge: bool) -> None:
        """DROP TABLE: removes the entry, and the files of a managed table."""
        parts = tuple(full_name.split("\0"))
        _refuse_path(parts, operation="DROP TABLE", instead="Delete its folder.")
        delta_session = self._driver.session(session)
        objects = CatalogObjects(delta_session.spark)
        entry = delta_session.catalog.find(NameIdentifier(parts))
        if entry is None or entry.location is None:
            return
        table = table_of_entry(delta_session, entry)
        check_may_be_part(table, "DROP TABLE")
        if not entry.of_folders:
            objects.catalog.dropTable(objects.identifier(entry.name), True, purge)
        if entry.leaves_folder:
            delete_folder(table)
        if entry.of_folders:
            delta_session.catalog.remove_folder(delta_session.catalog.folder_name(entry.name.parts))
        delta_session.forget(table.path)

    def truncate_table(self, session: Any, table: Any) -> None:
        """TRUNCATE TABLE."""
        truncate(whole_table_of(self._driver, self._driver.session(session), table, statement="TRUNCATE TABLE"))

    # Tables of other formats where a Delta table is.

    def refuse_other_format(
        self, session: Any, operation: str, database: str, name: str, table_format: str
    ) -> NoReturn:
        """Raises an error that says what to do, for a statement or a write that Spark would refuse without that."""
        delta_session = self._driver.session(session)
        refuse(
            delta_session, operation, (database or delta_session.spark.catalog.currentDatabase(), name), table_format
        )

    def warn_of_other_format(self, session: Any, database: str, name: str) -> None:
        """Warn of a Delta table that `saveAsTable` is about to drop."""
        warn_of_replacement(self._driver.session(session), (database, name))

    def warn_of_other_files(self, folder: str, table_format: str, deletes: bool) -> None:
        """Warn, once, of files of other formats that are about to be written into a table's folder."""
        warning = (folder, table_format, deletes)
        if warning in self._warned:
            return
        if len(self._warned) >= WARNED_MAX:
            self._warned.clear()
        self._warned.add(warning)
        warn_of_files(folder, table_format, deletes=deletes)

    alter_columns = Command(run=_alter_columns)
    add_check = Command(run=_add_check, check=_checks_table)
    create_like = Command(run=_create_like, check=_like_of_delta)


def _identifier(name: Any) -> TableIdentifier:
    """The identifier for Spark's `TableIdentifier`, a name in the session's catalog."""
    database = name.database()
    return identifier_of((*([str(database.get())] if database.isDefined() else []), str(name.table())))


def _refuse_path(parts: tuple[str, ...], *, operation: str, instead: str) -> None:
    identifier = identifier_of(parts)
    if isinstance(identifier, PathIdentifier):
        operation = f"{operation} of a table without a name, {identifier},"
        raise UnsupportedOperationError(operation=operation, instead=instead)


def check_conditions(session: DeltaSession, constraints: str) -> Mapping[str, str]:
    """The conditions of CHECK constraints by name, from the JSON of `anabranch.TableChanges.constraints`.

    Raises `UnsupportedOperationError` for a constraint of another kind.
    """
    checks: dict[str, str] = {}
    for constraint in with_sql_to_keep(session, json.loads(constraints)):
        if constraint["check"] is None:
            operation = f"The constraint {constraint['ddl']} of a Delta table"
            raise UnsupportedOperationError(operation=operation, instead="Delta tables have CHECK constraints.")
        checks[constraint["name"]] = constraint["check"]
    return checks


# Catalogs of folders. Names are complete, with the catalog's, and their parts are separated by NUL.


class FolderCatalogHandler:
    """Looks up, creates and drops the tables and schemas of catalogs that are folders."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def folder_of_table(self, session: Any, full_name: str) -> str | None:
        """The folder of a table; None if there is no table of that name."""
        delta_session, name = self._named(session, full_name)
        return delta_session.qualified_path(name.location) if delta_session.catalog.holds_log(name) else None

    def tables_in_folder(self, session: Any, full_name: str) -> str:
        """The names of the tables in a schema, separated by NUL."""
        delta_session, schema = self._named(session, full_name)
        return joined(delta_session.catalog.tables_in(schema))

    def schemas_in_folder(self, session: Any, full_name: str) -> str:
        """The names of the schemas in a catalog or schema, separated by NUL."""
        delta_session, catalog = self._named(session, full_name)
        return joined(delta_session.catalog.schemas_in(catalog))

    def folder_of_schema(self, session: Any, full_name: str) -> str | None:
        """The folder of a schema; None if there is no schema of that name."""
        delta_session, schema = self._named(session, full_name)
        return schema.location if delta_session.catalog.is_schema(schema) else None

    def create_folder_schema(self, session: Any, full_name: str) -> None:
        """CREATE SCHEMA."""
        delta_session, schema = self._named(session, full_name)
        delta_session.catalog.make_schema(schema)

    def drop_folder_schema(self, session: Any, full_name: str, cascade: bool) -> bool:
        """DROP SCHEMA. Returns False, without a change, if the schema has tables and `cascade` is not set."""
        delta_session, schema = self._named(session, full_name)
        if not schema.folders:
            operation = f"DROP SCHEMA of the whole catalog {schema.catalog}"
            raise UnsupportedOperationError(operation=operation, instead="Drop its schemas and tables.")
        tables = delta_session.catalog.tables_in(schema)
        if tables and not cascade:
            return False
        for table in tables:
            name = dataclasses.replace(schema, folders=(*schema.folders, table))
            table_ref = table_of_entry(delta_session, entry_of_folder(name))
            delete_folder(table_ref)
            delta_session.catalog.remove_folder(name)
            delta_session.forget(table_ref.path)
        delta_session.catalog.remove_schema(schema)
        return True

    def refuse_in_folders(self, operation: str, names: str) -> None:
        """Raises `UnsupportedOperationError`. `names` ends with what a folder cannot have, for some operations."""
        parts = names.split("\0")
        if operation == "rename":
            operation = f"RENAME TO of {NameIdentifier(tuple(parts))}, which has the name of its folder,"
            raise UnsupportedOperationError(
                operation=operation, instead="Move the folder while no program writes to it, or make a SHALLOW CLONE."
            )
        if operation == "alter schema":
            operation = f"ALTER SCHEMA {NameIdentifier(tuple(parts))}, which is only a folder,"
            raise UnsupportedOperationError(operation=operation)
        *parts, unsupported = parts
        name = NameIdentifier(tuple(parts))
        if operation == "schema":
            operation = f"CREATE SCHEMA {name} with a {unsupported}, which a folder cannot have,"
            raise UnsupportedOperationError(operation=operation, instead="Leave it out.")
        operation = f"{name} USING {unsupported}, in a catalog of folders, which has only Delta tables,"
        raise UnsupportedOperationError(
            operation=operation, instead="Write USING delta, or use a name in spark_catalog."
        )

    def _named(self, session: Any, full_name: str) -> tuple[DeltaSession, FolderName]:
        delta_session = self._driver.session(session)
        return delta_session, delta_session.catalog.folder_name(full_name.split("\0"))
