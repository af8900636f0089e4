"""Adding, dropping, renaming and moving columns: a schema in, another schema out. Nested columns too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql.types import (
    ArrayType,
    CharType,
    DataType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    VarcharType,
)

from anabranch.errors.alterations import (
    IdentityChangeError,
    NewColumnDefaultError,
    NewColumnNotNullError,
    NotAStructError,
    OnlyColumnError,
    UnsupportedColumnChangeError,
    UnsupportedNewColumnError,
)
from anabranch.errors.schema import ColumnNotFoundError
from anabranch.schema.computed_columns import CURRENT_DEFAULT, EXISTS_DEFAULT, GENERATION_EXPRESSION, IDENTITY_START
from anabranch.schema.enforcement import Fill, fill_of
from anabranch.schema.logical_types import DECLARED_TYPE, length_limits, without_char_varchar
from anabranch.schema.paths import ELEMENT, KEY, VALUE, FieldPath, as_nullable, child, find, fold, quoted, same_type
from anabranch.schema.schema_evolution import is_supported_change, record_type_changes

COMMENT = "comment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The position of a column in its struct."""

    after: str | None
    """The column before it; None for the first position."""

    def __str__(self) -> str:
        return "FIRST" if self.after is None else f"AFTER {quoted([self.after])}"


FIRST = Position(after=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewColumn:
    """A column to add. Without a position it goes to the end of its struct."""

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
    """A change of one column. None leaves that property as it is."""

    path: FieldPath
    data_type: DataType | None = None
    nullable: bool | None = None
    comment: str | None = None
    position: Position | None = None
    default: str | None = None
    """The new default, as SQL."""
    drop_default: bool = False
    new_name: str | None = None


def with_column(schema: StructType, new: NewColumn, *, table: str) -> StructType:
    """`schema` with one more column. Callers check the names of the result, so that none is used twice."""
    field = new.field
    check_addable(new, field, table=table)

    def add(struct: StructType) -> StructType:
        return StructType(_placed(struct.fields, field, new.position, new.path[:-1], table))

    return changed_struct(schema, new.path[:-1], add, table=table)


def check_addable(new: NewColumn, field: StructField, *, table: str) -> None:
    """Refuse a new column of which existing rows would lack values. Raises UnsupportedNewColumnError."""
    column = quoted(new.path)
    if new.default is not None:
        reason = "existing rows would need the default, too; add the column, then ALTER COLUMN … SET DEFAULT"
        raise NewColumnDefaultError(table=table, column=column, reason=reason)
    if as_nullable(StructType([field])) != StructType([field]):
        reason = "existing rows have NULL in it, so it cannot be NOT NULL"
        raise NewColumnNotNullError(table=table, column=column, reason=reason)
    if {CURRENT_DEFAULT, GENERATION_EXPRESSION, IDENTITY_START} & field.metadata.keys():
        reason = "existing rows lack the values that the table would compute for it"
        raise UnsupportedNewColumnError(table=table, column=column, reason=reason)


def without_column(schema: StructType, path: FieldPath, *, table: str) -> StructType:
    """`schema` without the column at `path`."""

    def drop(struct: StructType) -> StructType:
        field = _existing(struct, path, table)
        if len(struct.fields) == 1:
            reason = "it is the only column there; drop the struct that it is in, or the table"
            raise OnlyColumnError(table=table, column=quoted(path), reason=reason)
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
    changed = changed_type(schema, path, lambda existing: _change_struct(existing, path, change, table), table=table)
    assert isinstance(changed, StructType)
    return changed


def changed_type(
    schema: DataType, path: FieldPath, change: Callable[[DataType], DataType], *, table: str, parent: FieldPath = ()
) -> DataType:
    """`schema` with the type at `path` changed: that of a column, an array's element, a map's key or value."""
    if not path:
        return change(schema)
    step, rest, path_so_far = path[0], path[1:], (*parent, path[0])
    if isinstance(schema, StructType):
        field = _existing(schema, path_so_far, table)
        inner = changed_type(field.dataType, rest, change, table=table, parent=path_so_far)
        new = StructField(field.name, inner, field.nullable, field.metadata)
        return StructType([new if other is field else other for other in schema.fields])
    if isinstance(schema, ArrayType) and fold(step) == ELEMENT:
        return ArrayType(
            changed_type(schema.elementType, rest, change, table=table, parent=path_so_far), schema.containsNull
        )
    if isinstance(schema, MapType) and fold(step) in (KEY, VALUE):
        key, value = schema.keyType, schema.valueType
        if fold(step) == KEY:
            key = changed_type(key, rest, change, table=table, parent=path_so_far)
        else:
            value = changed_type(value, rest, change, table=table, parent=path_so_far)
        return MapType(key, value, schema.valueContainsNull)
    raise NotAStructError(table=table, column=quoted(parent), column_type=schema.simpleString())


def type_at(schema: StructType, path: FieldPath) -> DataType:
    """The type of the column, element, key or value at `path`, which exists and is spelled as in the schema."""
    data_type: DataType = schema
    for step in path:
        if isinstance(data_type, StructType):
            data_type = data_type[step].dataType
        elif isinstance(data_type, ArrayType):
            data_type = data_type.elementType
        else:
            assert isinstance(data_type, MapType)
            data_type = data_type.keyType if step == KEY else data_type.valueType
    return data_type


def is_in_structs(schema: StructType, path: FieldPath) -> bool:
    """Whether only structs lie above the existing column at `path`, so that each row has one value of it."""
    return all(isinstance(type_at(schema, path[:length]), StructType) for length in range(1, len(path)))


def spelled(schema: StructType, path: FieldPath, *, table: str) -> FieldPath:
    """`path` as the schema spells it. Raises ColumnNotFoundError and NotAStructError."""
    names: list[str] = []
    data_type: DataType = schema
    for step in path:
        if isinstance(data_type, StructType):
            field = _existing(data_type, (*names, step), table)
            names.append(field.name)
            data_type = field.dataType
        elif isinstance(data_type, ArrayType) and fold(step) == ELEMENT:
            names.append(ELEMENT)
            data_type = data_type.elementType
        elif isinstance(data_type, MapType) and fold(step) in (KEY, VALUE):
            names.append(fold(step))
            data_type = data_type.keyType if fold(step) == KEY else data_type.valueType
        else:
            raise NotAStructError(table=table, column=quoted(names), column_type=data_type.simpleString())
    return tuple(names)


def _change_struct(
    data_type: DataType, path: FieldPath, change: Callable[[StructType], StructType], table: str
) -> StructType:
    if not isinstance(data_type, StructType):
        raise NotAStructError(table=table, column=quoted(path), column_type=data_type.simpleString())
    return change(data_type)


def _existing(struct: StructType, path: FieldPath, table: str) -> StructField:
    """The field of `struct` that the last step of `path` names. Raises ColumnNotFoundError."""
    field = child(struct, path[-1])
    if field is None:
        names = tuple(quoted((*path[:-1], name)) for name in struct.names)
        raise ColumnNotFoundError(table=table, column=quoted(path), available=names)
    return field


def _placed(
    fields: Sequence[StructField], new: StructField, position: Position | None, parent: FieldPath, table: str
) -> list[StructField]:
    if position is None:
        return [*fields, new]
    if position.after is None:
        return [new, *fields]
    before = _existing(StructType(list(fields)), (*parent, position.after), table)
    index = [field is before for field in fields].index(True) + 1
    return [*fields[:index], new, *fields[index:]]


# Changes of type, comment, nullability and default. See "Type Widening" for types.


_NESTED = (StructType, ArrayType, MapType)


def with_change(schema: StructType, change: ColumnChange, *, widens: bool, table: str) -> StructType:
    """`schema` with the change made, except for the new name. `change.path` is spelled as in `schema`.

    `widens` says whether the table lets types become wider. Callers check whether its rows and other rules allow the
    change. Raises UnsupportedColumnChangeError and ColumnNotFoundError.
    """
    if _is_part_of_collection(schema, change):
        return _with_changed_part(schema, change, widens, table)
    changed = with_field(
        schema,
        change.path,
        lambda field: _changed(field, change, widens=widens, table=table),
        position=change.position,
        table=table,
    )
    return record_type_changes(changed, schema)


def changes_type(schema: StructType, change: ColumnChange) -> bool:
    """Whether values of the column get another type. A new length is not another type."""
    if change.data_type is None:
        return False
    return not same_type(type_at(schema, change.path), _plain(change.data_type))


def _is_part_of_collection(schema: StructType, change: ColumnChange) -> bool:
    """Whether the last step is an element, key or value."""
    if len(change.path) == 1:
        return False
    holder = find(schema, change.path[:-1])
    return find(schema, change.path) is holder


def _with_changed_part(schema: StructType, change: ColumnChange, widens: bool, table: str) -> StructType:
    others = (change.nullable, change.comment, change.position, change.default, change.new_name)
    if change.drop_default or any(other is not None for other in others):
        reason = "elements, keys and values have only a type"
        raise UnsupportedColumnChangeError(table=table, column=quoted(change.path), reason=reason)
    wanted = change.data_type
    if wanted is None:
        return schema
    changed = changed_type(
        schema, change.path, lambda old: new_type(old, wanted, change.path, widens=widens, table=table), table=table
    )
    assert isinstance(changed, StructType)
    return record_type_changes(changed, schema)


def _changed(field: StructField, change: ColumnChange, *, widens: bool, table: str) -> StructField:
    metadata = dict(field.metadata)
    data_type = field.dataType
    if change.data_type is not None:
        data_type = new_type(field.dataType, change.data_type, change.path, widens=widens, table=table)
        _change_length(metadata, field, change, table)
    if change.comment is not None:
        metadata[COMMENT] = change.comment
    if change.default is not None or change.drop_default:
        if len(change.path) > 1:
            raise _refused(change.path, table, "only columns have defaults, and fields of structs have none")
        if fill_of(field)[0] in (Fill.GENERATED, Fill.IDENTITY):
            kind = IdentityChangeError if fill_of(field)[0] is Fill.IDENTITY else UnsupportedColumnChangeError
            reason = "the table computes its values itself, so it has no default"
            raise kind(table=table, column=quoted(change.path), reason=reason)
        metadata.pop(CURRENT_DEFAULT, None)
        metadata.pop(EXISTS_DEFAULT, None)
    if change.default is not None:
        metadata[CURRENT_DEFAULT] = change.default
    nullable = field.nullable if change.nullable is None else change.nullable
    return StructField(field.name, data_type, nullable, metadata)


def new_type(old: DataType, wanted: DataType, path: FieldPath, *, widens: bool, table: str) -> DataType:
    """The type of a column of type `old` after a change to `wanted`. Raises UnsupportedColumnChangeError."""
    plain = _plain(wanted)
    if same_type(old, plain):
        return old
    if isinstance(old, _NESTED) or isinstance(plain, _NESTED):
        reason = "change the fields of a struct, the element of an array, the key or value of a map one by one"
        raise _refused(path, table, f"it is {old.simpleString()}; {reason}")
    if isinstance(old, NullType):
        return plain
    if not is_supported_change(old, plain):
        reason = f"its files hold {old.simpleString()}, which cannot be read as {plain.simpleString()}"
        raise _refused(path, table, f"{reason}; write the whole table again, with overwriteSchema")
    if not widens:
        reason = f"{old.simpleString()} can become {plain.simpleString()} only where the table allows it"
        raise _refused(path, table, f"{reason}; set the table property 'delta.enableTypeWidening' = 'true' first")
    return plain


def _change_length(metadata: dict[str, object], field: StructField, change: ColumnChange, table: str) -> None:
    """Declare the new length of a string in `metadata`. It may only grow, since existing rows are not checked."""
    wanted = change.data_type
    if not isinstance(field.dataType, StringType) or wanted is None:
        return
    declared = StructType([StructField(field.name, wanted)])
    new = length_limits(without_char_varchar(declared))
    if len(change.path) > 1:
        if new:
            raise _refused(change.path, table, "lengths of fields in structs cannot be changed")
        return
    old = length_limits(StructType([field]))
    metadata.pop(DECLARED_TYPE, None)
    if not new:
        return
    padded = isinstance(wanted, CharType)
    if not old or new[0].length < old[0].length or (padded and new[0] != old[0]):
        was = old[0].declared if old else "string"
        raise _refused(change.path, table, f"it is {was}, and existing rows may not fit {new[0].declared}")
    metadata[DECLARED_TYPE] = new[0].declared


def _plain(data_type: DataType) -> DataType:
    return StringType() if isinstance(data_type, CharType | VarcharType) else data_type


def _refused(path: FieldPath, table: str, reason: str) -> UnsupportedColumnChangeError:
    return UnsupportedColumnChangeError(table=table, column=quoted(path), reason=reason)
