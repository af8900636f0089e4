"""Changing what a column is: type, comment, nullability, default. See "Type Widening" for types."""

from __future__ import annotations

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

from anabranch.errors.alterations import UnsupportedColumnChangeError
from anabranch.schema.char_varchar import DECLARED_TYPE, length_limits, without_char_varchar
from anabranch.schema.column_changes import COMMENT, ColumnChange, changed_type, type_at, with_field
from anabranch.schema.comparison import same_type
from anabranch.schema.enforcement import Fill, fill_of
from anabranch.schema.paths import FieldPath, find, quoted
from anabranch.schema.visibility import CURRENT_DEFAULT, EXISTS_DEFAULT
from anabranch.schema.widening import is_supported_change, record_type_changes

_NESTED = (StructType, ArrayType, MapType)


def with_change(schema: StructType, change: ColumnChange, *, widens: bool, table: str) -> StructType:
    """`schema` with the change made, but for its new name. `change.path` is spelled as in `schema`.

    `widens` says whether the table lets types become wider. Raises UnsupportedColumnChangeError and
    ColumnNotFoundError. Whether rows and other rules allow the change is another question.
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
    """Whether values of the column will be of another type; a new length is none."""
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
        reason = "elements, keys and values have a type and nothing else"
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
            raise _refused(change.path, table, "the table makes its values itself, so it has no default")
        metadata.pop(CURRENT_DEFAULT, None)
        metadata.pop(EXISTS_DEFAULT, None)
    if change.default is not None:
        metadata[CURRENT_DEFAULT] = change.default
    nullable = field.nullable if change.nullable is None else change.nullable
    return StructField(field.name, data_type, nullable, metadata)


def new_type(old: DataType, wanted: DataType, path: FieldPath, *, widens: bool, table: str) -> DataType:
    """The type of a column that is to be `wanted`. Raises UnsupportedColumnChangeError."""
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
        raise _refused(path, table, f"{reason}; write the table anew, with overwriteSchema")
    if not widens:
        reason = f"{old.simpleString()} becomes {plain.simpleString()} only where the table says so"
        raise _refused(path, table, f"{reason}; set the table property 'delta.enableTypeWidening' = 'true' first")
    return plain


def _change_length(metadata: dict[str, object], field: StructField, change: ColumnChange, table: str) -> None:
    """A string may become longer, never shorter: nobody looks at the rows that are there."""
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
        raise _refused(change.path, table, f"it is {was}, and rows that are there may not fit {new[0].declared}")
    metadata[DECLARED_TYPE] = new[0].declared


def _plain(data_type: DataType) -> DataType:
    return StringType() if isinstance(data_type, CharType | VarcharType) else data_type


def _refused(path: FieldPath, table: str, reason: str) -> UnsupportedColumnChangeError:
    return UnsupportedColumnChangeError(table=table, column=quoted(path), reason=reason)
