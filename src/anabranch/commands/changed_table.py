"""The columns of a table while a list of changes is made to them."""

from __future__ import annotations

import dataclasses
from typing import Any

from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import DecimalType, StructField, StructType

from anabranch.commands.alteration import Alteration
from anabranch.commands.column_uses import check_no_rule_uses
from anabranch.commands.rule_checks import check_default
from anabranch.commands.table_definition import current_properties
from anabranch.errors.alterations import ColumnMappingNeededError, UnsupportedColumnChangeError
from anabranch.schema.changed_columns import changes_type, with_change
from anabranch.schema.char_varchar import DECLARED_TYPE
from anabranch.schema.column_changes import ColumnChange, is_in_structs, with_field
from anabranch.schema.paths import FieldPath, find, quoted
from anabranch.schema.stats_column_list import with_renamed_stats_column
from anabranch.schema.visibility import visible_schema
from anabranch.spark.table_identifiers import quote


class ChangedTable:
    """The table as a list of changes makes it, one after the other."""

    def __init__(self, alteration: Alteration) -> None:
        self._alteration = alteration
        self._table = alteration.table
        self.schema = alteration.snapshot.schema
        self.configuration = current_properties(alteration.snapshot.metadata)
        self.partition_columns = alteration.snapshot.partition_columns

    def apply(self, path: FieldPath, change: ColumnChange) -> dict[str, Any]:
        """Make one change, and say how the log tells of it."""
        new_name = None if change.new_name == path[-1] else change.new_name
        own = dataclasses.replace(change, path=path, new_name=new_name)
        before = self.schema
        if changes_type(before, own):
            check_no_rule_uses(self._alteration.snapshot, path, change="given another type", table=self._table)
        self.schema = with_change(before, own, widens=widens_types(self._alteration), table=self._table)
        if own.nullable is False:
            self._check_no_nulls(before, path)
        if own.default is not None:
            spark, protocol = self._alteration.handle.session.spark, self._alteration.snapshot.protocol
            check_default(spark, self.schema[path[0]], own.default, protocol, table=self._table)
        if own.new_name is not None:
            self._rename(path, own.new_name)
        return self._logged(path, own)

    def _check_no_nulls(self, before: StructType, path: FieldPath) -> None:
        field = find(before, path)
        if field is None or not field.nullable:
            return
        if not is_in_structs(before, path):
            reason = "inside arrays and maps nobody checks it"
            raise UnsupportedColumnChangeError(table=self._table, column=quoted(path), reason=reason)
        column = F.col(quote(path[0]))
        for name in path[1:]:
            column = column.getField(name)
        self._alteration.check_rows(
            column.isNull(), self._alteration.snapshot.schema.names, rule="NOT NULL", expression=quoted(path)
        )

    def _rename(self, path: FieldPath, new_name: str) -> None:
        check_maps(self._alteration, f"rename column {quoted(path)}")
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
        field = find(self.schema, now)
        assert field is not None
        return with_position({"column": column_json(now, field)}, change.position)


def column_json(path: FieldPath, field: StructField) -> dict[str, Any]:
    """A column as `operationParameters` tell of it."""
    shown = visible_schema(StructType([field])).fields[0]
    kind = field.dataType.simpleString() if isinstance(field.dataType, DecimalType) else field.dataType.typeName()
    return {"name": quoted(path), "type": kind, "nullable": field.nullable, "metadata": dict(shown.metadata)}


def with_position(entry: dict[str, Any], position: object | None) -> dict[str, Any]:
    """What the log tells of a column, with its place."""
    return entry if position is None else {**entry, "position": str(position)}


def widens_types(alteration: Alteration) -> bool:
    """Whether types of columns may become wider. See "Type Widening"."""
    return alteration.snapshot.properties.type_widening_enabled


def check_maps(alteration: Alteration, change: str) -> None:
    """Raises `ColumnMappingNeededError` where files call columns as users do."""
    if not alteration.snapshot.column_mapping_mode.maps:
        raise ColumnMappingNeededError(table=alteration.table, change=change)


def check_no_lengths(schema: StructType, path: FieldPath, table: str) -> None:
    """Raises UnsupportedColumnChangeError: lengths of nested strings are written down with the names of fields."""
    if len(path) > 1 and DECLARED_TYPE in schema[path[0]].metadata:
        reason = f"{quoted(path[:1])} holds strings of limited length"
        raise UnsupportedColumnChangeError(table=table, column=quoted(path), reason=reason)
