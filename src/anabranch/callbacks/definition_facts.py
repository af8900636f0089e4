"""Definitions of new tables, from the arguments of Spark's catalog: name, columns, partitioning, properties, path."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql.types import StructField, StructType

from anabranch.booleans import parse_boolean
from anabranch.callbacks.driver import Driver
from anabranch.commands.definition.table_definition import TableDefinition
from anabranch.commands.table_access import TableRef, table_at, table_to_create
from anabranch.errors.arguments import BucketingError, InvalidArgumentError, UnsupportedOperationError
from anabranch.schema.computed_columns import default_column, generated_column, identity_column
from anabranch.schema.paths import quoted
from anabranch.schema.serialization import BINARY_COLLATION
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.spark.session.session_settings import check_names
from anabranch.spark.session.table_identifiers import PathIdentifier, TableIdentifier, identifier_of
from anabranch.sql.literals import as_quoted_names

# SQL that a definition keeps, and that must mean the same to every session that reads it.


_KEPT = frozenset({"default", "generated", "check"})


def with_sql_to_keep(session: DeltaSession, facts: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Facts of columns, constraints or changes, with names in backticks in their SQL, for any session."""
    return [
        {key: as_quoted_names(session, value) if key in _KEPT and value else value for key, value in fact.items()}
        for fact in facts
    ]


OPTION = "option."
_COLLATION = "collation"
_RESERVED = frozenset(
    {"provider", "location", "comment", "owner", "external", "is_managed_location", "path", _COLLATION}
)
_IDENTITY, _CLUSTERING, _BUCKETS = "identity", "cluster_by", frozenset({"bucket", "sorted_bucket"})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DefinedByStatement:
    """The definition of a new table by a statement or a DataFrame writer."""

    identifier: TableIdentifier
    definition: TableDefinition
    location: str | None
    """The path in the statement; None if the catalog chooses one."""
    options: Mapping[str, str]
    """The values of OPTIONS, or of the writer; without `path`, and without those that became properties."""

    def table(self, session: DeltaSession) -> TableRef:
        """The table of that name, which need not exist yet. Raises as `table_to_create` with `replaces`."""
        if not isinstance(self.identifier, PathIdentifier):
            # For a statement that only creates, Spark has checked that there is no such table.
            return table_to_create(session, self.identifier, location=self.location, replaces=True)
        path = self.identifier.path
        if self.location is not None and session.qualified_path(self.location) != session.qualified_path(path):
            raise InvalidArgumentError(argument="LOCATION", value=self.location, problem=f"the name says {path}")
        return table_at(session, path, self.options)


def definition_facts(
    driver: Driver,
    session: DeltaSession,
    ident: Any,
    columns: Any,
    partitions: Any,
    properties: Any,
    *,
    checks: Mapping[str, str] | None = None,
) -> DefinedByStatement:
    """The definition in arguments of `TableCatalog.createTable` and `StagingTableCatalog`.

    `checks` are the conditions of CHECK constraints by name.

    Raises `UnsupportedOperationError` for buckets, transforms and a default collation, `InvalidOptionError`, and
    the errors of columns.
    """
    facts = json.loads(driver.anabranch.TableDefinitions.json(ident, columns, partitions, properties))
    all_properties: dict[str, str] = facts["properties"]
    _check_collation(all_properties)
    options = {key.removeprefix(OPTION): value for key, value in all_properties.items() if key.startswith(OPTION)}
    check_names(options)
    partition_columns, clustering_columns = _partitioning(facts["transforms"])
    return DefinedByStatement(
        identifier=identifier_of(tuple(facts["name"])),
        definition=TableDefinition(
            schema=StructType([_field(column) for column in with_sql_to_keep(session, facts["columns"])]),
            partition_columns=partition_columns,
            clustering_columns=clustering_columns,
            properties=_properties(all_properties, options),
            description=all_properties.get("comment"),
            constraints=dict(checks or {}),
        ),
        location=_location(all_properties, options),
        options={key: value for key, value in options.items() if key.lower() != "path"},
    )


def _properties(properties: Mapping[str, str], options: Mapping[str, str]) -> dict[str, str]:
    """The properties without options, which Spark adds with and without prefix; `delta.…` options are properties."""
    return {
        key: value
        for key, value in properties.items()
        if key not in _RESERVED
        and not key.startswith(OPTION)
        and (options.get(key) != value or key.lower().startswith("delta."))
    }


def _check_collation(properties: Mapping[str, str]) -> None:
    """Raises `UnsupportedOperationError` for DEFAULT COLLATION, which the log cannot record for later columns."""
    collation = properties.get(_COLLATION, BINARY_COLLATION)
    if collation.upper() != BINARY_COLLATION:
        raise UnsupportedOperationError(
            operation=f"DEFAULT COLLATION {collation} for a Delta table",
            instead=f"Write COLLATE {collation} after the type of each column that should have it.",
        )


def _location(properties: Mapping[str, str], options: Mapping[str, str]) -> str | None:
    if parse_boolean(properties.get("is_managed_location", "")):
        return None
    path = next((value for key, value in options.items() if key.lower() == "path"), None)
    return properties.get("location", path)


def _partitioning(transforms: Sequence[Mapping[str, Any]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Columns to partition and to cluster by."""
    partition_columns: list[str] = []
    clustering_columns: list[str] = []
    for transform in transforms:
        if transform["name"] == _IDENTITY:
            partition_columns += [".".join(path) for path in transform["columns"]]
        elif transform["name"] == _CLUSTERING:
            clustering_columns += [quoted(tuple(path)) for path in transform["columns"]]
        elif transform["name"] in _BUCKETS:
            raise BucketingError(operation=f"CLUSTERED BY in a Delta table, as {transform['text']},")
        else:
            raise UnsupportedOperationError(
                operation=f"Partitioning a Delta table by {transform['text']}",
                instead="Partition by a generated column that has this value.",
            )
    return tuple(partition_columns), tuple(clustering_columns)


def _field(column: Mapping[str, Any]) -> StructField:
    kind = StructType.fromJson({"type": "struct", "fields": [_json_field(column)]})
    field = kind.fields[0]
    if column["default"] is not None:
        field = default_column(field, column["default"])
    if column["generated"] is not None:
        field = generated_column(field, column["generated"])
    identity = column.get("identity")
    if identity is not None:
        field = identity_column(field, **identity)
    return field


def _json_field(column: Mapping[str, Any]) -> dict[str, Any]:
    metadata = json.loads(column["metadata"] or "{}")
    if column["comment"] is not None:
        metadata["comment"] = column["comment"]
    return {
        "name": column["name"],
        "type": json.loads(column["type"]),
        "nullable": column["nullable"],
        "metadata": metadata,
    }
