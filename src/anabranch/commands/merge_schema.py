"""What a MERGE makes of the table's schema: as it is, or grown by what its clauses take from the source."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from pyspark.sql.types import StructField, StructType

from anabranch.commands.assignments import Value
from anabranch.commands.merge_clauses import DeleteClause, MergeStatement
from anabranch.commands.table_access import TableHandle
from anabranch.commands.table_definition import with_schema
from anabranch.commands.write_target import automatic_widening, store_assignment
from anabranch.errors.schema import IncompatibleTypesError
from anabranch.protocol.actions import Action, Metadata
from anabranch.protocol.iceberg_compat import compat_versions
from anabranch.schema.comparison import as_nullable
from anabranch.schema.merging import MergeRules, merge
from anabranch.schema.names import check_duplicates
from anabranch.schema.paths import FieldPath, fold
from anabranch.schema.serialization import parse_schema
from anabranch.schema.visibility import visible_schema
from anabranch.schema.void import check_writable
from anabranch.schema.widening import record_type_changes
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.row_names import RowNames
from anabranch.spark.table_identifiers import split_identifier

AUTO_MERGE_SETTING = "spark.databricks.delta.schema.autoMerge.enabled"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MergeTarget:
    """The table as the commit will leave it, and the actions that make it so."""

    schema: StructType
    metadata: Metadata
    actions: tuple[Action, ...] = ()
    """Protocol and metadata that change; none for a table that stays as it is."""


def may_evolve(handle: TableHandle, statement: MergeStatement) -> bool:
    """Whether the statement, or the session, lets the schema grow."""
    return statement.evolves or handle.session.flag(AUTO_MERGE_SETTING, default=False)


def merge_target(handle: TableHandle, snapshot: Snapshot, statement: MergeStatement, source: StructType) -> MergeTarget:
    """The table with the columns and fields that it lacks and that a clause sets from the source's of that name.

    Raises `IncompatibleTypesError` for columns of both whose types cannot be brought together.
    """
    as_it_is = MergeTarget(schema=snapshot.schema, metadata=snapshot.metadata)
    if not may_evolve(handle, statement):
        return as_it_is
    taken = _taken(statement, source)
    check_duplicates(taken, where="the source", table=handle.label)
    properties = snapshot.properties
    rules = MergeRules(
        widening=automatic_widening(handle.session, snapshot),
        casting=store_assignment(handle.session),
        iceberg=bool(compat_versions(snapshot.properties)),
    )
    merged = merge(snapshot.schema, as_nullable(visible_schema(taken)), rules)
    if merged.conflicts:
        raise IncompatibleTypesError(table=handle.label, extra={}, mismatched=merged.conflicts, overwriting=False)
    if merged.schema == snapshot.schema:
        return as_it_is
    check_writable(merged.schema, table=handle.label)
    schema = merged.schema
    if merged.retyped and properties.type_widening_enabled:
        schema = record_type_changes(schema, snapshot.schema)
    defined = with_schema(
        snapshot.metadata, snapshot.protocol, schema, label=handle.label, source=handle.session.random
    )
    protocol = () if defined.protocol == snapshot.protocol else (defined.protocol,)
    return MergeTarget(
        schema=parse_schema(defined.metadata.schema_string, handle.label),
        metadata=defined.metadata,
        actions=(*protocol, defined.metadata),
    )


def _taken(statement: MergeStatement, source: StructType) -> StructType:
    """The columns and fields of the source that a clause sets in the table."""
    clauses = [
        clause for clause in (*statement.matched, *statement.not_matched) if not isinstance(clause, DeleteClause)
    ]
    paths = [path for clause in clauses for path in _paths(clause.values or {}, statement.alias)]
    return StructType(list(_kept(source, (), paths, everything=any(clause.values is None for clause in clauses))))


def _paths(values: Mapping[str, Value], alias: RowNames) -> Iterator[FieldPath]:
    for name in values:
        parts = tuple(fold(part) for part in split_identifier(name))
        yield parts[1:] if isinstance(alias, str) and len(parts) > 1 and parts[0] == fold(alias) else parts


def _kept(struct: StructType, above: FieldPath, paths: list[FieldPath], *, everything: bool) -> Iterator[StructField]:
    for field in struct.fields:
        path = (*above, fold(field.name))
        inside = any(other[: len(path)] == path for other in paths)
        if path in paths or (everything and not (inside and isinstance(field.dataType, StructType))):
            yield field
        elif inside and isinstance(field.dataType, StructType):
            inner = StructType(list(_kept(field.dataType, path, paths, everything=everything)))
            if inner.fields:
                yield StructField(field.name, inner, field.nullable, field.metadata)
