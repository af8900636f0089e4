"""REPLACE COLUMNS: a new list of columns for a table whose files stay."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql.types import DataType, StructField, StructType

from anabranch.errors.alterations import UnsupportedColumnChangeError
from anabranch.protocol.properties import TableProperties
from anabranch.schema.column_changes import COMMENT, NewColumn, check_addable, new_type
from anabranch.schema.computed_columns import identity_columns
from anabranch.schema.logical_types import DECLARED_TYPE, without_char_varchar
from anabranch.schema.names import check_duplicates
from anabranch.schema.paths import FieldPath, fold, positions, quoted, same_type
from anabranch.schema.schema_evolution import record_type_changes


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplacedColumns:
    """The new schema, and the old columns that it drops or gives another type."""

    schema: StructType
    dropped: tuple[FieldPath, ...]
    retyped: tuple[FieldPath, ...]


@dataclass(slots=True, kw_only=True)
class _Replacement:
    widens: bool
    table: str
    dropped: list[FieldPath] = dataclasses.field(default_factory=list)
    retyped: list[FieldPath] = dataclasses.field(default_factory=list)


def replaced_columns(old: StructType, new: StructType, *, widens: bool, table: str) -> ReplacedColumns:
    """`new` as the schema of a table of schema `old`: columns of the same name keep their identity.

    Columns may move, get another comment, allow NULL, become wider where the table `widens` types. A struct may gain
    or lose columns, but not both, since that might be a rename. Raises UnsupportedColumnChangeError.
    """
    if identity_columns(old, table):
        name = next(iter(identity_columns(old, table)))
        raise UnsupportedColumnChangeError(
            table=table, column=quoted([name]), reason="tables with identity columns keep their columns"
        )
    check_duplicates(new, where="the new columns", table=table)
    state = _Replacement(widens=widens, table=table)
    schema = _structs(old, without_char_varchar(new), (), state)
    return ReplacedColumns(
        schema=record_type_changes(schema, old), dropped=tuple(state.dropped), retyped=tuple(state.retyped)
    )


def _structs(old: StructType, new: StructType, parent: FieldPath, state: _Replacement) -> StructType:
    old_positions, kept = positions(old), {fold(name) for name in new.names}
    dropped = [field.name for field in old.fields if fold(field.name) not in kept]
    added = [field.name for field in new.fields if fold(field.name) not in old_positions]
    if dropped and added:
        change = f"{', '.join(dropped)} would be dropped and {', '.join(added)} added"
        reason = f"{change}, which may be a rename; use RENAME COLUMN"
        raise _refused((*parent, dropped[0]), reason, state)
    state.dropped += [(*parent, name) for name in dropped]
    fields = []
    for field in new.fields:
        index = old_positions.get(fold(field.name))
        fields.append(
            _new_field(field, parent, state) if index is None else _field(old.fields[index], field, parent, state)
        )
    return StructType(fields)


def _new_field(field: StructField, parent: FieldPath, state: _Replacement) -> StructField:
    new = NewColumn(path=(*parent, field.name), data_type=field.dataType, nullable=field.nullable)
    check_addable(new, field, table=state.table)
    return field


def _field(old: StructField, new: StructField, parent: FieldPath, state: _Replacement) -> StructField:
    path = (*parent, old.name)
    if old.nullable and not new.nullable:
        raise _refused(path, "existing rows may have NULL in it; use ALTER COLUMN … SET NOT NULL", state)
    if old.metadata.get(DECLARED_TYPE) != new.metadata.get(DECLARED_TYPE):
        raise _refused(path, "its length would change; use ALTER COLUMN … TYPE", state)
    metadata = dict(old.metadata)
    if COMMENT in new.metadata:
        metadata[COMMENT] = new.metadata[COMMENT]
    return StructField(old.name, _type(old.dataType, new.dataType, path, state), new.nullable, metadata)


def _type(old: DataType, new: DataType, path: FieldPath, state: _Replacement) -> DataType:
    if isinstance(old, StructType) and isinstance(new, StructType):
        return _structs(old, new, path, state)
    if same_type(old, new):
        return old
    state.retyped.append(path)
    return new_type(old, new, path, widens=state.widens, table=state.table)


def _refused(path: FieldPath, reason: str, state: _Replacement) -> UnsupportedColumnChangeError:
    return UnsupportedColumnChangeError(table=state.table, column=quoted(path), reason=reason)


# `delta.dataSkippingStatsColumns` after one of its columns was renamed or dropped.


PROPERTY = "delta.dataSkippingStatsColumns"


def with_renamed_stats_column(properties: Mapping[str, str], path: FieldPath, new_name: str) -> dict[str, str]:
    """`properties` with the column, and its nested fields, under its new name."""

    def rename(named: FieldPath) -> FieldPath | None:
        return (*named[: len(path) - 1], new_name, *named[len(path) :]) if _is_below(named, path) else named

    return _rewritten(properties, rename)


def without_stats_column(properties: Mapping[str, str], path: FieldPath) -> dict[str, str]:
    """`properties` without the column and its nested fields."""
    return _rewritten(properties, lambda named: None if _is_below(named, path) else named)


def _rewritten(properties: Mapping[str, str], change: Callable[[FieldPath], FieldPath | None]) -> dict[str, str]:
    named = TableProperties(properties).stats_columns
    if named is None:
        return dict(properties)
    changed = [new for path in named if (new := change(path)) is not None]
    return {**properties, PROPERTY: ",".join(map(quoted, changed))}


def _is_below(named: FieldPath, path: FieldPath) -> bool:
    return [fold(part) for part in named[: len(path)]] == [fold(part) for part in path]
