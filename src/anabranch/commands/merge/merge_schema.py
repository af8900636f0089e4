"""The schema of a MERGE's target: unchanged, or evolved by columns that its clauses take from the source."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping

from pyspark.sql.types import StructField, StructType

from anabranch.commands.definition.column_usage import check_types_unused
from anabranch.commands.definition.table_definition import with_schema
from anabranch.commands.dml.assignments import Value
from anabranch.commands.merge.merge_statement import DeleteClause, MergeStatement
from anabranch.commands.table_access import TableRef
from anabranch.commands.write_settings import CASE_SENSITIVE_SETTING, automatic_widening, store_assignment
from anabranch.errors.schema import IncompatibleTypesError
from anabranch.protocol.actions import Action, Metadata
from anabranch.protocol.iceberg_compat import compat_versions
from anabranch.schema.logical_types import check_storable
from anabranch.schema.merging import MergeRules, merge_schemas, visible_schema
from anabranch.schema.names import check_duplicates
from anabranch.schema.paths import FieldPath, as_nullable, fold
from anabranch.schema.serialization import parse_schema
from anabranch.schema.type_widening import record_type_changes
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.conditions.column_names import RowNames
from anabranch.spark.session.table_identifiers import split_identifier

AUTO_MERGE_SETTING = "spark.databricks.delta.schema.autoMerge.enabled"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MergeTarget:
    """Schema and metadata of the table after the commit, and the actions that change them."""

    schema: StructType
    metadata: Metadata
    actions: tuple[Action, ...] = ()
    """The new protocol and metadata; none where nothing of the table itself changes."""


def may_evolve(table: TableRef, statement: MergeStatement) -> bool:
    """Whether the statement or the session allows schema evolution."""
    return statement.evolves or table.session.flag(AUTO_MERGE_SETTING, default=False)


def merge_target(table: TableRef, snapshot: Snapshot, statement: MergeStatement, source: StructType) -> MergeTarget:
    """The table with those columns and fields of the source added that a clause sets and that the table lacks.

    Raises `IncompatibleTypesError` for columns of both whose types cannot be brought together.
    """
    unchanged = MergeTarget(schema=snapshot.schema, metadata=snapshot.metadata)
    if not may_evolve(table, statement):
        return unchanged
    case_sensitive = table.session.flag(CASE_SENSITIVE_SETTING, default=False)
    taken = _taken(statement, source, str if case_sensitive else fold)
    check_duplicates(taken, where="the source", table=table.label)
    properties = snapshot.properties
    rules = MergeRules(
        widening=automatic_widening(table.session, snapshot),
        casting=store_assignment(table.session),
        iceberg=bool(compat_versions(snapshot.properties)),
    )
    merged = merge_schemas(snapshot.schema, as_nullable(visible_schema(taken)), rules)
    if merged.conflicts:
        raise IncompatibleTypesError(table=table.label, extra={}, mismatched=merged.conflicts, overwriting=False)
    if merged.schema == snapshot.schema:
        return unchanged
    check_storable(merged.schema, table=table.label)
    check_types_unused(snapshot, merged.schema, table=table.label)
    schema = merged.schema
    if merged.retyped and properties.type_widening_enabled:
        schema = record_type_changes(schema, snapshot.schema)
    defined = with_schema(snapshot.metadata, snapshot.protocol, schema, label=table.label, source=table.session.random)
    protocol = () if defined.protocol == snapshot.protocol else (defined.protocol,)
    return MergeTarget(
        schema=parse_schema(defined.metadata.schema_string, table.label),
        metadata=defined.metadata,
        actions=(*protocol, defined.metadata),
    )


def _taken(statement: MergeStatement, source: StructType, spelled: Callable[[str], str]) -> StructType:
    """The columns and fields of the source that a clause sets in the table; `spelled` makes names comparable."""
    clauses = [
        clause for clause in (*statement.matched, *statement.not_matched) if not isinstance(clause, DeleteClause)
    ]
    paths = [path for clause in clauses for path in _paths(clause.values or {}, statement.alias, spelled)]
    everything = any(clause.values is None for clause in clauses)
    return StructType(list(_taken_fields(source, (), paths, spelled, everything=everything)))


def _paths(values: Mapping[str, Value], alias: RowNames, spelled: Callable[[str], str]) -> Iterator[FieldPath]:
    """The paths of the columns that a clause sets, without the alias of the table."""
    for name in values:
        parts = tuple(spelled(part) for part in split_identifier(name))
        yield parts[1:] if isinstance(alias, str) and len(parts) > 1 and fold(parts[0]) == fold(alias) else parts


def _taken_fields(
    struct: StructType,
    above: FieldPath,
    paths: list[FieldPath],
    spelled: Callable[[str], str],
    *,
    everything: bool,
) -> Iterator[StructField]:
    """The fields that one of the paths names; with `everything` also those that no path leads into."""
    for field in struct.fields:
        path = (*above, spelled(field.name))
        inside = any(other[: len(path)] == path for other in paths)
        if path in paths or (everything and not (inside and isinstance(field.dataType, StructType))):
            yield field
        elif inside and isinstance(field.dataType, StructType):
            inner = StructType(list(_taken_fields(field.dataType, path, paths, spelled, everything=everything)))
            if inner.fields:
                yield StructField(field.name, inner, field.nullable, field.metadata)
