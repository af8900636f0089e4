"""Look-up of tables for Spark's analyzer: by name, by path, at a version or time, with options."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql.types import StructField, StructType

from anabranch.callbacks.change_feeds import (
    ChangeFeed,
    KeptFeeds,
    changelog_stream,
    check_feed_of_folder,
    feed_of_changelog,
    feed_or_stream,
    selected_feed,
)
from anabranch.callbacks.driver import Driver, joined, time_of_micros
from anabranch.commands.definition.clustering import clustering_shown
from anabranch.commands.read.read_changes import reads_changes
from anabranch.commands.read.read_table import (
    FolderTable,
    check_declared,
    parse_version,
    snapshot_of,
    table_in_folder,
    time_travel_of,
)
from anabranch.commands.table_access import (
    NEWEST,
    TableRef,
    TimeTravel,
    no_table,
    split_time_travel,
    table_at,
    table_of_entry,
)
from anabranch.errors.arguments import (
    HistoricalTargetError,
    InvalidOptionError,
    PartialTargetError,
)
from anabranch.errors.schema import SchemaChangedSinceAnalysisError
from anabranch.errors.tables import NotADeltaTableError, PathNotFoundError
from anabranch.schema.paths import same_type
from anabranch.schema.schema_evolution import visible_schema_json
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.conditions.column_names import BoundAttributes
from anabranch.spark.gateway.jvm_classes import joined_map
from anabranch.spark.session.catalog import SESSION_CATALOG, CatalogEntry
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.spark.session.folder_catalog import catalog_entry
from anabranch.sql.own.quoted_versions import with_versions_quoted

PARTITION_OPTION = "anabranch.partition"
"""For a path that ends in folders of partitions: their columns and values, as JSON."""
FEED_OPTION = "anabranch.changes"
"""For a table of changes: the key of its rows in `KeptFeeds`."""
TRANSACTION_OPTION = "anabranch.transaction"
"""For a table that was looked up in a transaction of several statements: its key."""
_STORAGE = ("fs.", "dfs.")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """The fields of an `anabranch.DeltaTable` of the JVM."""

    table: TableRef
    name: str
    """The name that Spark shows."""
    version: int | None
    """The version to read; None for the newest."""
    schema_json: str
    """The visible schema at look-up."""
    options: Mapping[str, str]
    """The options that restrict which rows are read; see `anabranch.DeltaTable`."""

    @property
    def is_partial(self) -> bool:
        """Whether it shows only one partition of the table, or its changes."""
        return PARTITION_OPTION in self.options or FEED_OPTION in self.options


def facts_of(driver: Driver, session: DeltaSession, table: Any) -> TableFacts:
    """The fields of an `anabranch.DeltaTable`, read from the JVM in one call."""
    path, name, version, schema_json, catalog, database, entry_name, kind, *rest = driver.anabranch.TableFields.fields(
        table
    ).split("\0")
    options = dict(zip(rest[:-1:2], rest[1::2], strict=True))
    storage = {key: value for key, value in options.items() if key.startswith(_STORAGE)}
    transaction = options.get(TRANSACTION_OPTION)
    if entry_name:
        entry = catalog_entry(catalog, database, entry_name, location=path, is_managed=kind == "MANAGED")
        table_ref = table_of_entry(session, entry, transaction=transaction)
    else:
        table_ref = table_at(session, path, storage, transaction=transaction)
    return TableFacts(
        table=table_ref,
        name=name,
        version=int(version) if version else None,
        schema_json=schema_json,
        options=options,
    )


def whole_table_of(driver: Driver, session: DeltaSession, table: Any, *, statement: str) -> TableRef:
    """The table of an `anabranch.DeltaTable` that a statement is about. Raises as `check_whole_table`."""
    facts = facts_of(driver, session, table)
    check_whole_table(facts, statement=statement)
    return facts.table


def check_whole_table(facts: TableFacts, *, statement: str) -> None:
    """Raises `HistoricalTargetError` for an old version, `PartialTargetError` for a partition and for changes."""
    table = facts.table.label
    if facts.version is not None:
        raise HistoricalTargetError(statement=statement, problem=f"it shows version {facts.version} of {table}")
    if PARTITION_OPTION in facts.options:
        raise PartialTargetError(statement=statement, problem=f"it shows one partition of {table}")
    if FEED_OPTION in facts.options:
        raise PartialTargetError(statement=statement, problem=f"it shows the changes of {table}")


def entry_of(driver: Driver, entry: Any, location: str) -> CatalogEntry:
    """The entry for a `CatalogTable` of the JVM."""
    catalog, database, name, kind, _ = driver.anabranch.TableFields.entryFields(entry).split("\0")
    is_managed = kind == "MANAGED"
    return catalog_entry(catalog or SESSION_CATALOG, database, name, location=location, is_managed=is_managed)


class TableHandler:
    """Returns tables to the JVM as objects of `anabranch.DeltaTable`."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._feeds = KeptFeeds()

    quote_versions = staticmethod(with_versions_quoted)

    def table_by_path(self, session: Any, path: str, version: str | None, micros: int | None) -> Any:
        """An `anabranch.DeltaTable`; None if the folder has no table."""
        found = table_in_folder(self._driver.session(session), path, {}, _time_travel(version, micros))
        return None if found.newest is None else self._found(found)

    def check_table_by_path(self, session: Any, path: str) -> None:
        """Raises `NotADeltaTableError` if the folder has no table."""
        found = table_in_folder(self._driver.session(session), path, {}, NEWEST)
        if found.newest is None:
            raise _no_table(found.table)

    def table_by_entry(self, session: Any, entry: Any, location: str, version: str | None, micros: int | None) -> Any:
        """An `anabranch.DeltaTable` for an entry of the session's catalog."""
        delta_session = self._driver.session(session)
        table = table_of_entry(delta_session, entry_of(self._driver, entry, location))
        return self._described(table, _time_travel(version, micros), entry=entry)

    def time_travel_of_name(self, session: Any, name: str) -> str | None:
        """The plain name, `version` or `micros`, and number of a name such as `t@v3`, separated by NUL, or None."""
        plain, travel = split_time_travel(name)
        if travel.is_newest:
            return None
        if travel.version is not None:
            return joined((plain, "version", str(travel.version)))
        delta_session = self._driver.session(session)
        text = f"CAST(unix_micros(TIMESTAMP'{travel.timestamp}') AS STRING)"
        return joined((plain, "micros", str(delta_session.spark.sql(f"SELECT {text}").collect()[0][0])))

    def table_by_options(self, session: Any, options: Any, schema: Any) -> Any:
        """An `anabranch.DeltaTable` for the options of a reader or writer.

        None if there is no table yet but a schema, as for a write that creates the table.
        """
        delta_session = self._driver.session(session)
        values = self._driver.java_map(options)
        lower = {key.lower(): value for key, value in values.items()}
        if "path" not in lower:
            value = ", ".join(json.loads(lower["paths"])) if "paths" in lower else "None"
            raise InvalidOptionError(option="path", value=value, problem="a Delta table is read from exactly one path")
        travel = time_travel_of(values)
        found = table_in_folder(delta_session, lower["path"], values, travel)
        if found.newest is None:
            if schema is not None:
                return None
            raise _no_table(found.table)
        if reads_changes(values):
            check_feed_of_folder(lower["path"], found.partitions, schema)
            return self._table_of_feed(found.table, feed_or_stream(found.table, values), entry=None)
        return self._found(found, {key: value for key, value in values.items() if key.startswith(_STORAGE)})

    def check_declared_schema(self, session: Any, table: Any, declared: str) -> None:
        """Raises `InvalidOptionError` if a reader declares another schema than the table's."""
        facts = facts_of(self._driver, self._driver.session(session), table)
        snapshot = snapshot_of(facts.table, TimeTravel(version=facts.version))
        check_declared(facts.table, snapshot, StructType.fromJson(json.loads(declared)))

    def change_feed(self, session: Any, table: Any, options: Any) -> Any:
        """The table of changes that the options of an `anabranch.DeltaTable` select; None if they select none."""
        delta_session = self._driver.session(session)
        table_ref = whole_table_of(self._driver, delta_session, table, statement="readChangeFeed")
        feed = selected_feed(table_ref, self._driver.java_map(options))
        return None if feed is None else self._table_of_feed(table_ref, feed, entry=table.catalogTable())

    def changes_from(self, session: Any, table: Any, context: Any) -> Any:
        """The table of changes that `CHANGES FROM` selects, by Spark's `ChangelogContext`."""
        table_ref = whole_table_of(self._driver, self._driver.session(session), table, statement="CHANGES FROM")
        return self._table_of_feed(table_ref, feed_of_changelog(table_ref, context), entry=table.catalogTable())

    def stream_of_changes(self, session: Any, table: Any, context: Any, options: Any) -> Any:
        """The plan of a stream of the changes that Spark's `ChangelogContext` selects."""
        delta_session = self._driver.session(session)
        whole_table_of(self._driver, delta_session, table, statement="CHANGES FROM")
        more = self._driver.java_map(options)
        return changelog_stream(delta_session.spark, str(table.name()), context, more)._jdf.logicalPlan()

    def rows_of_changes(self, session: Any, table: Any) -> Any:
        """The plan of the rows of a table of changes."""
        facts = facts_of(self._driver, self._driver.session(session), table)
        return self._feeds.rows(facts.options[FEED_OPTION])._jdf.logicalPlan()

    def _found(self, found: FolderTable, storage: Mapping[str, str] | None = None) -> Any:
        options = {**(storage or {}), **_partition_options(found.partitions)}
        return self._described(found.table, found.travel, newest=found.newest, options=options)

    def _described(
        self,
        table: TableRef,
        travel: TimeTravel,
        *,
        newest: Snapshot | None = None,
        entry: Any = None,
        options: Mapping[str, str] | None = None,
    ) -> Any:
        """The `anabranch.DeltaTable` of a table at a version. Raises `NotADeltaTableError`."""
        snapshot = snapshot_of(table, travel, newest=newest)
        return self._table(
            table,
            visible_json(snapshot),
            snapshot,
            version=None if travel.is_newest else snapshot.version,
            options={**dict(table.storage), **(options or {}), **_transaction_options(table)},
            entry=entry,
        )

    def _table_of_feed(self, table: TableRef, feed: ChangeFeed, *, entry: Any) -> Any:
        options = {FEED_OPTION: self._feeds.keep(feed)}
        return self._table(table, feed.schema.json(), table.latest(), version=None, options=options, entry=entry)

    def _table(
        self,
        table: TableRef,
        schema_json: str,
        snapshot: Snapshot,
        *,
        version: int | None,
        options: Mapping[str, str],
        entry: Any,
    ) -> Any:
        return self._driver.anabranch.DeltaTable(
            str(table.entry.full_name) if table.entry else table.label,
            table.path,
            schema_json,
            joined(snapshot.partition_columns),
            joined(clustering_shown(snapshot)) if snapshot.domain_metadata else "",
            joined_map(_properties(snapshot, table)),
            version,
            snapshot.version,
            joined_map(options),
            entry,
        )


def _transaction_options(table: TableRef) -> dict[str, str]:
    """The option of a table that the transaction of its session reads. Spark has no cached rows of others for it."""
    transaction = table.open_transaction
    return {} if transaction is None else {TRANSACTION_OPTION: transaction.key}


def visible_json(snapshot: Snapshot) -> str:
    """The schema as users see it, as JSON. Raises what `Snapshot.schema` raises."""
    snapshot.schema  # noqa: B018 - raises
    return visible_schema_json(snapshot.metadata.schema_string, snapshot.table_root)


def _partition_options(partitions: Mapping[str, str | None]) -> dict[str, str]:
    """The options of an `anabranch.DeltaTable` that shows one partition; none for a whole table."""
    return {PARTITION_OPTION: json.dumps(partitions)} if partitions else {}


def _no_table(table: TableRef) -> NotADeltaTableError:
    """The error for a path without a table, with Spark's condition for a missing path if nothing is below it."""
    if next(iter(table.delta_log.store.list_tree()), None) is None:
        return PathNotFoundError(table=table.label, found="nothing is there")
    return no_table(table)


def _time_travel(version: str | None, micros: int | None) -> TimeTravel:
    if version is not None:
        return TimeTravel(version=parse_version(version))
    return NEWEST if micros is None else TimeTravel(timestamp=time_of_micros(micros))


def _properties(snapshot: Snapshot, table: TableRef) -> dict[str, str]:
    properties = snapshot.shown_properties()
    properties["provider"] = "delta"
    if table.entry is None or not table.entry.is_managed:
        properties["external"] = "true"
    properties["location"] = table.path
    if snapshot.metadata.description is not None:
        properties["comment"] = snapshot.metadata.description
    return properties


# Columns of a table that have changed since Spark resolved them.


def current_columns(facts: TableFacts, snapshot: Snapshot) -> list[str] | None:
    """The present names of the columns that Spark resolved; None if nothing has changed.

    Raises `SchemaChangedSinceAnalysisError` if a column was removed, has another type, or has become nullable.
    """
    current_json = visible_json(snapshot)
    if current_json == facts.schema_json:
        return None
    analyzed, current = (StructType.fromJson(json.loads(text)) for text in (facts.schema_json, current_json))
    by_name = {field.name.lower(): field for field in current.fields}
    for field in analyzed.fields:
        now = by_name.get(field.name.lower())
        if now is None or not same_type(now.dataType, field.dataType) or (now.nullable and not field.nullable):
            raise _changed(facts, snapshot, field.name, before=field, now=now)
    return [by_name[field.name.lower()].name for field in analyzed.fields]


def check_columns(facts: TableFacts, snapshot: Snapshot) -> None:
    """Raises `SchemaChangedSinceAnalysisError` as `current_columns`, and if columns were added or have another order.

    A statement that changes rows identifies the columns by their positions.
    """
    names = current_columns(facts, snapshot)
    if names is None or names == snapshot.schema.names:
        return
    fields = snapshot.schema.fields
    moved = next(i for i, field in enumerate(fields) if i >= len(names) or field.name != names[i])
    raise _changed(facts, snapshot, fields[moved].name, before=None, now=fields[moved])


def lacks_columns(facts: TableFacts, snapshot: Snapshot) -> bool:
    """Whether columns were added behind those that Spark resolved, and nothing else has changed about these.

    Raises as `current_columns`.
    """
    names = current_columns(facts, snapshot)
    if names is None or len(names) == len(snapshot.schema.names):
        return False
    return names == snapshot.schema.names[: len(names)]


def bound(facts: TableFacts, attributes: Any, metadata: Any = None, *, version: int | None) -> BoundAttributes:
    """The names of the table's columns in a plan, valid while the columns are those that Spark resolved.

    `version` is the one that was looked up for just this plan.
    """
    return BoundAttributes(
        attributes,
        metadata=metadata,
        version=version,
        check=functools.partial(check_columns, facts),
        lacks_columns=functools.partial(lacks_columns, facts),
    )


def _changed(
    facts: TableFacts, snapshot: Snapshot, column: str, *, before: StructField | None, now: StructField | None
) -> SchemaChangedSinceAnalysisError:
    return SchemaChangedSinceAnalysisError(
        table=facts.table.label,
        version=snapshot.version,
        column=column,
        before=None if before is None else before.dataType.simpleString(),
        now=None if now is None else now.dataType.simpleString(),
    )
