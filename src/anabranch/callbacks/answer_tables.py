"""Tables, as Spark's analyzer asks for them: by name, by path, at a version or time, with options."""

from __future__ import annotations

import dataclasses
import functools
import json
import threading
import uuid
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from anabranch.callbacks.changes_from import changes_from
from anabranch.callbacks.driver import Driver, joined, time_of_micros
from anabranch.callbacks.resolved_commands import Command
from anabranch.change_feed.change_files import feed_schema
from anabranch.commands.definition.clustering import clustering_shown
from anabranch.commands.describe.show_table import properties_of
from anabranch.commands.path_suffixes import NEWEST, TimeTravel, split_time_travel
from anabranch.commands.read.read_changes import ChangesAsked, asks_for_changes, changes_asked, read_changes
from anabranch.commands.read.read_table import (
    check_declared,
    parse_version,
    snapshot_of,
    table_in_folder,
    time_travel_of,
)
from anabranch.commands.table_access import TableRef, no_table, table_at, table_of_entry
from anabranch.errors.arguments import (
    HistoricalTargetError,
    InvalidOptionError,
    PartialTargetError,
)
from anabranch.errors.base import DeltaError
from anabranch.errors.schema import SchemaChangedSinceAnalysisError
from anabranch.errors.tables import NotADeltaTableError, PathNotFoundError
from anabranch.schema.merging import visible_schema, visible_schema_json
from anabranch.schema.paths import same_type
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.conditions.column_names import BoundAttributes
from anabranch.spark.gateway.callback_endpoint import Answer
from anabranch.spark.gateway.jvm_classes import joined_map
from anabranch.spark.session.catalog import SESSION_CATALOG, CatalogEntry
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.spark.session.folder_catalog import catalog_entry
from anabranch.sql.own.quoted_versions import with_versions_quoted

PARTITION_OPTION = "anabranch.partition"
"""Where a path ends in folders of partitions: their columns and values, as JSON."""
FEED_OPTION = "anabranch.changes"
"""Of a table of changes: which of those that were read lately."""
FEEDS_KEPT_MAX = 64
"""Spark asks for the rows right after it has asked for the columns."""
_STORAGE = ("fs.", "dfs.")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """What a `delta.DeltaTable` of the JVM says."""

    table: TableRef
    name: str
    """As Spark shows it."""
    version: int | None
    """The version asked for; None for the newest."""
    schema_json: str
    """The visible schema at look-up."""
    options: Mapping[str, str]
    """What decides which rows are read; see `delta.DeltaTable`."""

    @property
    def shows_less(self) -> bool:
        """Whether its rows are some of the table's only, or its changes."""
        return PARTITION_OPTION in self.options or FEED_OPTION in self.options


def facts_of(driver: Driver, session: DeltaSession, table: Any) -> TableFacts:
    """What the JVM's object says, in one call."""
    path, name, version, schema_json, catalog, database, entry_name, kind, *rest = driver.delta.Tables.facts(
        table
    ).split("\0")
    options = dict(zip(rest[:-1:2], rest[1::2], strict=True))
    storage = {key: value for key, value in options.items() if key.startswith(_STORAGE)}
    if entry_name:
        entry = catalog_entry(catalog, database, entry_name, location=path, is_managed=kind == "MANAGED")
        table_ref = table_of_entry(session, entry)
    else:
        table_ref = table_at(session, path, storage)
    return TableFacts(
        table=table_ref,
        name=name,
        version=int(version) if version else None,
        schema_json=schema_json,
        options=options,
    )


def whole_table_of(driver: Driver, session: DeltaSession, table: Any, *, statement: str) -> TableRef:
    """The table of a `delta.DeltaTable` that a statement is about. Raises as `check_whole_table`."""
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


def entry_of(entry: Any, location: str) -> CatalogEntry:
    """Of a `CatalogTable` of the JVM's."""
    identifier = entry.identifier()
    is_managed = entry.tableType().name() == "MANAGED"
    catalog = str(identifier.catalog().get()) if identifier.catalog().isDefined() else SESSION_CATALOG
    database, name = str(identifier.database().get()), str(identifier.table())
    return catalog_entry(catalog, database, name, location=location, is_managed=is_managed)


class Tables:
    """Finds tables and describes them to the JVM."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._feeds: OrderedDict[str, DataFrame | DeltaError] = OrderedDict()
        self._lock = threading.Lock()

    def answers(self) -> dict[str, Answer]:
        return {
            "table": self.by_entry,
            "table at": self.by_path,
            "is there": self.check_path,
            "table with suffix": self.with_suffix,
            "versions quoted": with_versions_quoted,
            "table of options": self.of_options,
            "change feed": self.change_feed,
            "changes asked": self.changes_asked,
            "changes": self.changes,
            "check declared": self.check_declared,
        }

    def commands(self) -> dict[str, Command]:
        return {}

    def by_path(self, session: Any, path: str, version: str | None, micros: int | None) -> Any:
        """A `delta.DeltaTable`; None where there is no table."""
        table, travel, partitions = table_in_folder(self._driver.session(session), path, {}, _travel(version, micros))
        if table.delta_log.snapshots.latest_or_none() is None:
            return None
        return self.described(table, travel, options=_shown(partitions))

    def check_path(self, session: Any, path: str) -> None:
        """Raises `NotADeltaTableError` where there is no table in the folder."""
        table, _, _ = table_in_folder(self._driver.session(session), path, {}, NEWEST)
        if table.delta_log.snapshots.latest_or_none() is None:
            raise _no_table(table)

    def by_entry(self, session: Any, entry: Any, location: str, version: str | None, micros: int | None) -> Any:
        """A `delta.DeltaTable` for an entry of the session's catalog."""
        own = self._driver.session(session)
        table = table_of_entry(own, entry_of(entry, location))
        return self.described(table, _travel(version, micros), entry=entry)

    def with_suffix(self, session: Any, name: str) -> str | None:
        """Of a name such as `t@v3` the parts, `t` and `3` or a time in microseconds, parted by NUL; None without."""
        plain, travel = split_time_travel(name)
        if travel.is_newest:
            return None
        if travel.version is not None:
            return joined((plain, "version", str(travel.version)))
        own = self._driver.session(session)
        text = f"CAST(unix_micros(TIMESTAMP'{travel.timestamp}') AS STRING)"
        return joined((plain, "micros", str(own.spark.sql(f"SELECT {text}").collect()[0][0])))

    def of_options(self, session: Any, options: Any, schema: Any) -> Any:
        """A `delta.DeltaTable` for what a reader or writer was told.

        None where no table is there and whoever asks brings a schema, as for a table to be.
        """
        own = self._driver.session(session)
        given = self._driver.java_map(options)
        lower = {key.lower(): value for key, value in given.items()}
        if "path" not in lower:
            value = ", ".join(json.loads(lower["paths"])) if "paths" in lower else "None"
            raise InvalidOptionError(option="path", value=value, problem="a Delta table is read from exactly one path")
        travel = time_travel_of(given)
        table, travel, partitions = table_in_folder(own, lower["path"], given, travel)
        if table.delta_log.snapshots.latest_or_none() is None:
            if schema is not None:
                return None
            raise _no_table(table)
        found = {key: value for key, value in given.items() if key.startswith(_STORAGE)}
        found.update(_shown(partitions))
        if asks_for_changes(given):
            if partitions:
                problem = "changes are those of the whole table; give its own path, and filter the rows"
                raise InvalidOptionError(option="path", value=lower["path"], problem=problem)
            if schema is not None:
                problem = "changes have columns of their own beside the table's; leave the schema out"
                raise InvalidOptionError(option="schema", value=str(schema.simpleString()), problem=problem)
            return self._feed_or_stream(table, given)
        return self.described(table, travel, options=found)

    def check_declared(self, session: Any, table: Any, declared: str) -> None:
        """Raises `InvalidOptionError` where a reader was given another schema than the table's."""
        facts = facts_of(self._driver, self._driver.session(session), table)
        snapshot = snapshot_of(facts.table, TimeTravel(version=facts.version))
        check_declared(facts.table, snapshot, StructType.fromJson(json.loads(declared)))

    def change_feed(self, session: Any, table: Any, options: Any) -> Any:
        """The table of changes that the options ask for, of a `delta.DeltaTable`; None where they ask for none."""
        own = self._driver.session(session)
        given = self._driver.java_map(options)
        table_ref = whole_table_of(self._driver, own, table, statement="readChangeFeed")
        asked = changes_asked(given, table=table_ref.label)
        return None if asked is None else self._feed(table_ref, asked, entry=table.catalogTable())

    def changes_asked(self, session: Any, table: Any, context: Any) -> Any:
        """The table of changes that `CHANGES FROM` asks for, by Spark's `ChangelogContext`."""
        table_ref = whole_table_of(self._driver, self._driver.session(session), table, statement="CHANGES FROM")
        try:
            frame = changes_from(table_ref, context)
        except DeltaError as refused:
            # Raised when the rows are asked for: what the catalog raises, Spark would take for a feature it lacks.
            return self._refused_feed(table_ref, refused)
        return self._table_of_feed(table_ref, frame, frame.schema, entry=table.catalogTable())

    def changes(self, session: Any, table: Any) -> Any:
        """The plan of the rows of a table of changes."""
        facts = facts_of(self._driver, self._driver.session(session), table)
        with self._lock:
            found = self._feeds[facts.options[FEED_OPTION]]
        if isinstance(found, DeltaError):
            raise found
        return found._jdf.logicalPlan()

    def described(
        self,
        table: TableRef,
        travel: TimeTravel = NEWEST,
        *,
        entry: Any = None,
        options: Mapping[str, str] | None = None,
    ) -> Any:
        """The table at the version meant, as the analyzer sees it. Raises `NotADeltaTableError`."""
        snapshot = snapshot_of(table, travel)
        return self._table(
            table,
            visible_json(snapshot),
            snapshot,
            version=None if travel.is_newest else snapshot.version,
            options={**dict(table.storage), **(options or {})},
            entry=entry,
        )

    def _feed_or_stream(self, table: TableRef, given: Mapping[str, str]) -> Any:
        """What is asked of the feed of a folder; streams are asked for alike, and need no word of where they start.

        So what a batch read cannot be told is raised when it asks for the rows, which a stream never does.
        """
        try:
            asked = changes_asked(given, table=table.label)
            assert asked is not None
            return self._feed(table, asked, entry=None)
        except DeltaError as refused:
            return self._refused_feed(table, refused)

    def _refused_feed(self, table: TableRef, refused: DeltaError) -> Any:
        snapshot = table.latest()
        schema = feed_schema(snapshot.schema, snapshot.column_mapping_mode, table=table.label)
        return self._table_of_feed(table, refused, visible_schema(schema), entry=None)

    def _feed(self, table: TableRef, asked: ChangesAsked, *, entry: Any) -> Any:
        frame = read_changes(table, asked)
        return self._table_of_feed(table, frame, frame.schema, entry=entry)

    def _table_of_feed(self, table: TableRef, rows: DataFrame | DeltaError, schema: StructType, *, entry: Any) -> Any:
        key = uuid.uuid4().hex
        with self._lock:
            self._feeds[key] = rows
            while len(self._feeds) > FEEDS_KEPT_MAX:
                self._feeds.popitem(last=False)
        options = {FEED_OPTION: key}
        return self._table(table, schema.json(), table.latest(), version=None, options=options, entry=entry)

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
        return self._driver.delta.DeltaTable(
            str(table.entry.full_name) if table.entry else table.label,
            table.path,
            schema_json,
            joined(snapshot.partition_columns),
            joined(clustering_shown(snapshot)),
            joined_map(_properties(snapshot, table)),
            version,
            joined_map(options),
            entry,
        )


def visible_json(snapshot: Snapshot) -> str:
    """The schema as users see it, as JSON. Raises what `Snapshot.schema` raises."""
    snapshot.schema  # noqa: B018 - raises
    return visible_schema_json(snapshot.metadata.schema_string, snapshot.table_root)


def _shown(partitions: Mapping[str, str | None]) -> dict[str, str]:
    """The options of a `delta.DeltaTable` that shows a partition alone; none of a whole table."""
    return {PARTITION_OPTION: json.dumps(partitions)} if partitions else {}


def _no_table(table: TableRef) -> NotADeltaTableError:
    """The error for a path without a table: where nothing at all is below it, it has Spark's condition for that."""
    if next(iter(table.delta_log.store.list_tree()), None) is None:
        return PathNotFoundError(table=table.label, found="nothing is there")
    return no_table(table)


def _travel(version: str | None, micros: int | None) -> TimeTravel:
    if version is not None:
        return TimeTravel(version=parse_version(version))
    return NEWEST if micros is None else TimeTravel(timestamp=time_of_micros(micros))


def _properties(snapshot: Snapshot, table: TableRef) -> dict[str, str]:
    found = properties_of(snapshot)
    found["provider"] = "delta"
    if table.entry is None or not table.entry.is_managed:
        found["external"] = "true"
    found["location"] = table.path
    if snapshot.metadata.description is not None:
        found["comment"] = snapshot.metadata.description
    return found


# Columns of a table that are no longer what Spark resolved.


def columns_now(facts: TableFacts, snapshot: Snapshot) -> list[str] | None:
    """What the columns that Spark resolved are called now; None where nothing has changed.

    Raises `SchemaChangedSinceAnalysisError` where one is gone, of another type, or may be NULL that could not be.
    """
    now_json = visible_json(snapshot)
    if now_json == facts.schema_json:
        return None
    analyzed, now = (StructType.fromJson(json.loads(each)) for each in (facts.schema_json, now_json))
    by_name = {field.name.lower(): field for field in now.fields}
    for field in analyzed.fields:
        found = by_name.get(field.name.lower())
        if found is None or not same_type(found.dataType, field.dataType) or (found.nullable and not field.nullable):
            raise _changed(facts, snapshot, field.name, before=field, now=found)
    return [by_name[field.name.lower()].name for field in analyzed.fields]


def check_columns(facts: TableFacts, snapshot: Snapshot) -> None:
    """Raises `SchemaChangedSinceAnalysisError` as `columns_now`, and where there are more columns, or in another order.

    A statement that changes rows means the columns by their places.
    """
    known = columns_now(facts, snapshot)
    if known is None or known == snapshot.schema.names:
        return
    fields = snapshot.schema.fields
    moved = next(place for place, field in enumerate(fields) if place >= len(known) or field.name != known[place])
    raise _changed(facts, snapshot, fields[moved].name, before=None, now=fields[moved])


def bound(facts: TableFacts, attributes: Any, metadata: Any = None) -> BoundAttributes:
    """What a plan calls the columns of the table, for as long as they are those that Spark resolved."""
    return BoundAttributes(attributes, metadata=metadata, check=functools.partial(check_columns, facts))


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
