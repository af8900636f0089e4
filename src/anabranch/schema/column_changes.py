"""Adding, dropping, renaming and moving columns: a schema in, another schema out. Nested columns too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from anabranch.errors.alterations import NotAStructError, UnsupportedColumnChangeError, UnsupportedNewColumnError
from anabranch.errors.schema import ColumnNotFoundError
from anabranch.schema.char_varchar import without_char_varchar
from anabranch.schema.comparison import as_nullable
from anabranch.schema.paths import ELEMENT, KEY, VALUE, FieldPath, child, fold, quoted
from anabranch.schema.visibility import CURRENT_DEFAULT, GENERATION_EXPRESSION, IDENTITY_START

COMMENT = "comment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where a column goes among those beside it."""

    after: str | None
    """None: before all others."""

    def __str__(self) -> str:
        return "FIRST" if self.after is None else f"AFTER {quoted([self.after])}"


FIRST = Position(after=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewColumn:
    """A column to be added. Without a position it goes to the end of its struct."""

    path: FieldPath
    data_type: DataType
    nullable: bool = True
    comment: str | None = None
    default: str | None = None
    position: Position | None = None

    @property
    def field(self) -> StructField:
        metadata = {} if self.comment is None else {COMMENT: self.comment}
        plain = StructField(self.path[-1], self.data_type, self.nullable, metadata)
        return without_char_varchar(StructType([plain])).fields[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnChange:
    """What is to become of one column. None leaves a thing as it is."""

    path: FieldPath
    data_type: DataType | None = None
    nullable: bool | None = None
    comment: str | None = None
    position: Position | None = None
    default: str | None = None
    """SQL."""
    drop_default: bool = False
    new_name: str | None = None


def with_column(schema: StructType, new: NewColumn, *, table: str) -> StructType:
    """`schema` with one more column. That its name is free is checked with the names of the result."""
    field = new.field
    check_addable(new, field, table=table)

    def add(struct: StructType) -> StructType:
        return StructType(_placed(struct.fields, field, new.position, new.path[:-1], table))

    return changed_struct(schema, new.path[:-1], add, table=table)


def check_addable(new: NewColumn, field: StructField, *, table: str) -> None:
    """Raises UnsupportedNewColumnError where rows that are there would lack values of the column."""
    column = quoted(new.path)
    if new.default is not None:
        reason = "rows that are there would need the default, too; add the column, then ALTER COLUMN … SET DEFAULT"
        raise UnsupportedNewColumnError(table=table, column=column, reason=reason)
    if as_nullable(StructType([field])) != StructType([field]):
        reason = "rows that are there have NULL in it, so it cannot be NOT NULL"
        raise UnsupportedNewColumnError(table=table, column=column, reason=reason)
    if {CURRENT_DEFAULT, GENERATION_EXPRESSION, IDENTITY_START} & field.metadata.keys():
        reason = "rows that are there lack the values that it would make"
        raise UnsupportedNewColumnError(table=table, column=column, reason=reason)


def without_column(schema: StructType, path: FieldPath, *, table: str) -> StructType:
    """`schema` without the column at `path`."""

    def drop(struct: StructType) -> StructType:
        field = _existing(struct, path, table)
        if len(struct.fields) == 1:
            reason = "it is the only one there; drop what it is part of, or the table"
            raise UnsupportedColumnChangeError(table=table, column=quoted(path), reason=reason)
        return StructType([other for other in struct.fields if other is not field])

    return changed_struct(schema, path[:-1], drop, table=table)


def with_field(
    schema: StructType,
    path: FieldPath,
    change: Callable[[StructField], StructField],
    *,
    position: Position | None = None,
    table: str,
) -> StructType:
    """`schema` with the column at `path` changed, and moved if a position is given."""

    def replace(struct: StructType) -> StructType:
        field = _existing(struct, path, table)
        new = change(field)
        if position is None or (position.after is not None and fold(position.after) == fold(field.name)):
            return StructType([new if other is field else other for other in struct.fields])
        rest = [other for other in struct.fields if other is not field]
        return StructType(_placed(rest, new, position, path[:-1], table))

    return changed_struct(schema, path[:-1], replace, table=table)


def changed_struct(
    schema: StructType, path: FieldPath, change: Callable[[StructType], StructType], *, table: str
) -> StructType:
    """`schema` with the struct at `path` changed; the empty path is the schema itself.

    Raises ColumnNotFoundError and NotAStructError.
    """
    changed = changed_type(schema, path, lambda found: _change_struct(found, path, change, table), table=table)
    assert isinstance(changed, StructType)
    return changed


def changed_type(
    schema: DataType, path: FieldPath, change: Callable[[DataType], DataType], *, table: str, above: FieldPath = ()
) -> DataType:
    """`schema` with the type at `path` changed: that of a column, an array's element, a map's key or value."""
    if not path:
        return change(schema)
    step, rest, here = path[0], path[1:], (*above, path[0])
    if isinstance(schema, StructType):
        field = _existing(schema, here, table)
        inner = changed_type(field.dataType, rest, change, table=table, above=here)
        new = StructField(field.name, inner, field.nullable, field.metadata)
        return StructType([new if other is field else other for other in schema.fields])
    if isinstance(schema, ArrayType) and fold(step) == ELEMENT:
        return ArrayType(changed_type(schema.elementType, rest, change, table=table, above=here), schema.containsNull)
    if isinstance(schema, MapType) and fold(step) in (KEY, VALUE):
        key, value = schema.keyType, schema.valueType
        if fold(step) == KEY:
            key = changed_type(key, rest, change, table=table, above=here)
        else:
            value = changed_type(value, rest, change, table=table, above=here)
        return MapType(key, value, schema.valueContainsNull)
    raise NotAStructError(table=table, column=quoted(above), column_type=schema.simpleString())


def type_at(schema: StructType, path: FieldPath) -> DataType:
    """The type of the column, element, key or value at a path that is there, spelled as in the schema."""
    here: DataType = schema
    for step in path:
        if isinstance(here, StructType):
            here = here[step].dataType
        elif isinstance(here, ArrayType):
            here = here.elementType
        else:
            assert isinstance(here, MapType)
            here = here.keyType if step == KEY else here.valueType
    return here


def is_in_structs(schema: StructType, path: FieldPath) -> bool:
    """Whether only structs lie above a column that is there, so that each row has one value of it."""
    return all(isinstance(type_at(schema, path[:length]), StructType) for length in range(1, len(path)))


def spelled(schema: StructType, path: FieldPath, *, table: str) -> FieldPath:
    """`path` as the schema spells it. Raises ColumnNotFoundError and NotAStructError."""
    found: list[str] = []
    here: DataType = schema
    for step in path:
        if isinstance(here, StructType):
            field = _existing(here, (*found, step), table)
            found.append(field.name)
            here = field.dataType
        elif isinstance(here, ArrayType) and fold(step) == ELEMENT:
            found.append(ELEMENT)
            here = here.elementType
        elif isinstance(here, MapType) and fold(step) in (KEY, VALUE):
            found.append(fold(step))
            here = here.keyType if fold(step) == KEY else here.valueType
        else:
            raise NotAStructError(table=table, column=quoted(found), column_type=here.simpleString())
    return tuple(found)


def _change_struct(
    found: DataType, path: FieldPath, change: Callable[[StructType], StructType], table: str
) -> StructType:
    if not isinstance(found, StructType):
        raise NotAStructError(table=table, column=quoted(path), column_type=found.simpleString())
    return change(found)


def _existing(struct: StructType, path: FieldPath, table: str) -> StructField:
    """The field that the last step of `path` means."""
    field = child(struct, path[-1])
    if field is None:
        names = tuple(quoted((*path[:-1], name)) for name in struct.names)
        raise ColumnNotFoundError(table=table, column=quoted(path), available=names)
    return field


def _placed(
    fields: Sequence[StructField], new: StructField, position: Position | None, above: FieldPath, table: str
) -> list[StructField]:
    if position is None:
        return [*fields, new]
    if position.after is None:
        return [new, *fields]
    before = _existing(StructType(list(fields)), (*above, position.after), table)
    place = [field is before for field in fields].index(True) + 1
    return [*fields[:place], new, *fields[place:]]
