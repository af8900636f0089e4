"""ALTER TABLE … ADD, DROP, RENAME, ALTER and REPLACE COLUMNS, and ALTER COLUMN … SYNC IDENTITY."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import DecimalType, StructField, StructType

from anabranch.commands.alter.alter_transaction import Alteration
from anabranch.commands.definition.column_usage import check_no_layout_uses, check_no_rule_uses
from anabranch.commands.definition.rule_checks import check_default
from anabranch.commands.definition.table_definition import current_properties
from anabranch.commands.table_access import TableRef
from anabranch.errors.alterations import (
    DropNeedsColumnMappingError,
    IdentityColumnNotFoundError,
    NoIdentityColumnError,
    RenameNeedsColumnMappingError,
    UnsupportedColumnChangeError,
)
from anabranch.errors.schema import ColumnNotFoundError
from anabranch.schema.column_changes import (
    ColumnChange,
    NewColumn,
    changes_type,
    is_in_structs,
    spelled,
    with_change,
    with_column,
    with_field,
    without_column,
)
from anabranch.schema.computed_columns import identity_of, with_high_water_mark
from anabranch.schema.logical_types import DECLARED_TYPE
from anabranch.schema.paths import FieldPath, find, find_field_or_part, quote, quoted
from anabranch.schema.replaced_columns import replaced_columns, with_renamed_stats_column, without_stats_column
from anabranch.schema.schema_evolution import visible_schema
from anabranch.transactions.commit.commit_context import CommittedVersion


class ChangedTable:
    """The columns and properties of a table while a list of changes is applied to them, one after the other."""

    def __init__(self, alteration: Alteration) -> None:
        self._alteration = alteration
        self._table = alteration.label
        self.schema = alteration.snapshot.schema
        self.configuration = current_properties(alteration.snapshot.metadata)
        self.partition_columns = alteration.snapshot.partition_columns

    def apply(self, path: FieldPath, change: ColumnChange) -> dict[str, Any]:
        """Make one change. Returns how `operationParameters` describe it."""
        new_name = None if change.new_name == path[-1] else change.new_name
        own = dataclasses.replace(change, path=path, new_name=new_name)
        before = self.schema
        if changes_type(before, own):
            check_no_rule_uses(self._alteration.snapshot, path, change="given another type", table=self._table)
        self.schema = with_change(before, own, widens=widens_types(self._alteration), table=self._table)
        if own.nullable is False:
            self._check_no_nulls(before, path)
        if own.default is not None:
            spark, protocol = self._alteration.table.session.spark, self._alteration.snapshot.protocol
            check_default(spark, self.schema[path[0]], own.default, protocol, table=self._table)
        if own.new_name is not None:
            self._rename(path, own.new_name)
        return self._logged(path, own)

    def _check_no_nulls(self, before: StructType, path: FieldPath) -> None:
        field = find(before, path)
        if field is None or not field.nullable:
            return
        if not is_in_structs(before, path):
            reason = "inside arrays and maps it is not checked"
            raise UnsupportedColumnChangeError(table=self._table, column=quoted(path), reason=reason)
        column = F.col(quote(path[0]))
        for name in path[1:]:
            column = column.getField(name)
        self._alteration.check_rows(
            column.isNull(), self._alteration.snapshot.schema.names, rule="NOT NULL", expression=quoted(path)
        )

    def _rename(self, path: FieldPath, new_name: str) -> None:
        check_maps(self._alteration, path, renamed=True)
        check_no_rule_uses(self._alteration.snapshot, path, change="renamed", table=self._table)
        check_no_lengths(self.schema, path, self._table)
        self.schema = with_field(
            self.schema,
            path,
            lambda field: StructField(new_name, field.dataType, field.nullable, field.metadata),
            table=self._table,
        )
        self.configuration = with_renamed_stats_column(self.configuration, path, new_name)
        if len(path) == 1:
            self.partition_columns = tuple(new_name if name == path[0] else name for name in self.partition_columns)

    def _logged(self, path: FieldPath, change: ColumnChange) -> dict[str, Any]:
        now = (*path[:-1], change.new_name or path[-1])
        field = find_field_or_part(self.schema, now)
        assert field is not None
        return with_position({"column": column_json(now, field)}, change.position)


def column_json(path: FieldPath, field: StructField) -> dict[str, Any]:
    """A column as `operationParameters` describe it."""
    shown = visible_schema(StructType([field])).fields[0]
    kind = field.dataType.simpleString() if isinstance(field.dataType, DecimalType) else field.dataType.typeName()
    return {"name": quoted(path), "type": kind, "nullable": field.nullable, "metadata": dict(shown.metadata)}


def with_position(entry: dict[str, Any], position: object | None) -> dict[str, Any]:
    """The description of a column for the log, with its position where one is set."""
    return entry if position is None else {**entry, "position": str(position)}


def widens_types(alteration: Alteration) -> bool:
    """Whether types of columns may become wider. See "Type Widening"."""
    return alteration.snapshot.properties.type_widening_enabled


def check_maps(alteration: Alteration, path: FieldPath, *, renamed: bool = False) -> None:
    """Raises a `ColumnMappingNeededError` where columns have the same names in files as in the schema."""
    if not alteration.snapshot.column_mapping_mode.maps:
        needed = RenameNeedsColumnMappingError if renamed else DropNeedsColumnMappingError
        raise needed(table=alteration.label, change=f"{'rename' if renamed else 'drop'} column {quoted(path)}")


def check_no_lengths(schema: StructType, path: FieldPath, table: str) -> None:
    """Raises `UnsupportedColumnChangeError` for a field of a column with nested CHAR or VARCHAR.

    The metadata of the column has their lengths together with the names of its fields.
    """
    if len(path) > 1 and DECLARED_TYPE in schema[path[0]].metadata:
        reason = f"{quoted(path[:1])} contains strings of limited length"
        raise UnsupportedColumnChangeError(table=table, column=quoted(path), reason=reason)


def alter_add_columns(
    table: TableRef, columns: Sequence[NewColumn], *, if_not_exists: bool = False
) -> CommittedVersion | None:
    """Add columns, also to structs. Existing rows have NULL in them.

    Raises `UnsupportedNewColumnError`, `DuplicateColumnsError`, `ColumnNotFoundError`, `NotAStructError`.
    """
    alteration = Alteration(table)
    schema = alteration.snapshot.schema
    added = [new for new in columns if not (if_not_exists and find(schema, new.path) is not None)]
    for new in added:
        schema = with_column(schema, new, table=table.label)
    log = [with_position({"column": column_json(new.path, new.field)}, new.position) for new in added]
    return alteration.commit("ADD COLUMNS", {"columns": log}, alteration.define(schema=schema))


def alter_drop_columns(
    table: TableRef, paths: Sequence[FieldPath], *, if_exists: bool = False
) -> CommittedVersion | None:
    """Drop columns, also of structs; files keep their values until they are rewritten.

    Raises `ColumnMappingNeededError`, `ColumnInUseError`, `ColumnNotFoundError`, `UnsupportedColumnChangeError`.
    """
    alteration = Alteration(table)
    snapshot = alteration.snapshot
    schema, configuration = snapshot.schema, current_properties(snapshot.metadata)
    dropped = [path for path in paths if not (if_exists and find(schema, path) is None)]
    for path in dropped:
        own = spelled(snapshot.schema, path, table=table.label)
        check_maps(alteration, own)
        check_no_layout_uses(snapshot, own, change="dropped", table=table.label)
        check_no_rule_uses(snapshot, own, change="dropped", table=table.label)
        check_no_lengths(snapshot.schema, own, table.label)
        schema = without_column(schema, own, table=table.label)
        configuration = without_stats_column(configuration, own)
    defined = alteration.define(schema=schema, configuration=configuration)
    return alteration.commit("DROP COLUMNS", {"columns": [quoted(path) for path in dropped]}, defined)


def alter_change_columns(table: TableRef, changes: Sequence[ColumnChange]) -> CommittedVersion | None:
    """Change types, comments, defaults, names, positions, and whether NULL is allowed.

    Raises `UnsupportedColumnChangeError`, `ColumnInUseError`, `ColumnMappingNeededError`, `ExistingRowsViolateError`
    where a column that is to be NOT NULL has NULL, the errors of defaults, `ColumnNotFoundError`.
    """
    alteration = Alteration(table)
    state = ChangedTable(alteration)
    logged: list[dict[str, Any]] = []
    for change in changes:
        own = spelled(state.schema, change.path, table=table.label)
        logged.append(state.apply(own, change))
    defined = alteration.define(
        schema=state.schema, configuration=state.configuration, partition_columns=state.partition_columns
    )
    return alteration.commit(*_changes_operation(changes, logged), defined)


def alter_replace_columns(table: TableRef, schema: StructType) -> CommittedVersion | None:
    """Replace the columns of the table: order and comments change, columns are added and, with mapping, dropped.

    Raises `UnsupportedColumnChangeError`, `ColumnInUseError`, `ColumnMappingNeededError`.
    """
    alteration = Alteration(table)
    snapshot = alteration.snapshot
    replaced = replaced_columns(snapshot.schema, schema, widens=widens_types(alteration), table=table.label)
    for path in replaced.dropped:
        check_maps(alteration, path)
        check_no_layout_uses(snapshot, path, change="dropped", table=table.label)
        check_no_rule_uses(snapshot, path, change="dropped", table=table.label)
    for path in replaced.retyped:
        check_no_rule_uses(snapshot, path, change="given another type", table=table.label)
    log = [column_json((field.name,), field) for field in schema.fields]
    return alteration.commit("REPLACE COLUMNS", {"columns": log}, alteration.define(schema=replaced.schema))


def _changes_operation(
    changes: Sequence[ColumnChange], logged: Sequence[Mapping[str, Any]]
) -> tuple[str, dict[str, Any]]:
    if len(changes) != 1:
        return "CHANGE COLUMNS", {"columns": [{**entry["column"], **_position(entry)} for entry in logged]}
    change = changes[0]
    if change.new_name is not None and change.new_name != change.path[-1]:
        new_path = (*change.path[:-1], change.new_name)
        return "RENAME COLUMN", {"oldColumnPath": quoted(change.path), "newColumnPath": quoted(new_path)}
    return "CHANGE COLUMN", dict(logged[0])


def _position(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {"position": entry["position"]} if "position" in entry else {}


def alter_sync_identity(table: TableRef, path: FieldPath) -> CommittedVersion | None:
    """Continue an identity column after the values that it has, also those that users wrote. Its mark never goes back.

    Raises `NoIdentityColumnError` for other columns, `IdentityColumnNotFoundError` where no column has this name.
    """
    alteration = Alteration(table)
    schema = alteration.snapshot.schema
    try:
        (name, *below) = spelled(schema, path, table=table.label)
    except ColumnNotFoundError as missing:
        raise IdentityColumnNotFoundError(**missing.facts()) from None
    identity = None if below else identity_of(schema[name], table.label)
    if identity is None:
        reason = "it is no identity column"
        raise NoIdentityColumnError(table=table.label, column=quoted(path), reason=reason)
    column = F.col(quote(name))
    aggregates = alteration.rows().agg(F.max(column) if identity.step > 0 else F.min(column)).first()
    last = aggregates[0] if aggregates is not None else None
    if last is None:
        return None
    changed = with_high_water_mark(schema, {name: identity.mark_after(int(last))})
    parameters = {"column": column_json((name,), changed[name])}
    return alteration.commit("CHANGE COLUMN", parameters, alteration.define(schema=changed))
