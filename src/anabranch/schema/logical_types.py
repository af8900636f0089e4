"""Types that data files do not have: `char(n)` and `varchar(n)`, stored as strings, and void, which is not stored."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pyspark.sql.types import (
    ArrayType,
    CharType,
    DataType,
    DayTimeIntervalType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    VarcharType,
    YearMonthIntervalType,
)

from anabranch.errors.protocol import IntervalWriteError
from anabranch.errors.schema import VoidWriteError
from anabranch.schema.paths import ELEMENT, KEY, VALUE, FieldPath, contains_type, fold, quoted, walk

# `char(n)` and `varchar(n)`: strings with a length, which the metadata of their column records.
#
# As in Spark, a table's schema says `string` and the top-level field keeps the declared type as text under
# `__CHAR_VARCHAR_TYPE_STRING`: `char(5)`, or `struct<a:int,b:array<varchar(3)>>` for a nested one.


DECLARED_TYPE = "__CHAR_VARCHAR_TYPE_STRING"

_TOKEN = re.compile(r"\s*(`(?:[^`]|``)*`|[<>:,]|[^<>:,`(]+(?:\([^)]*\))?[^<>:,`(]*)")
_LIMITED = re.compile(r"(char|character|varchar)\s*\(\s*(\d{1,9})\s*\)\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthLimit:
    """The greatest length of the strings at `path`, counted in characters; nulls pass."""

    path: FieldPath
    length: int
    padded: bool
    """True for `char`: shorter values compare, and are read, as if filled up with spaces."""

    @property
    def declared(self) -> str:
        return f"{'char' if self.padded else 'varchar'}({self.length})"


_INTERVALS = (DayTimeIntervalType, YearMonthIntervalType)
_MAY_HOLD_CHAR_VARCHAR = (CharType, VarcharType, ArrayType, MapType, StructType)


def without_char_varchar(schema: StructType) -> StructType:
    """`schema` with char and varchar as strings that carry their declared type, as tables store them."""
    return StructType(
        [_as_string_field(f) if isinstance(f.dataType, _MAY_HOLD_CHAR_VARCHAR) else f for f in schema.fields]
    )


def length_limits(schema: StructType) -> list[LengthLimit]:
    """Every limit that the columns of `schema` declare, in schema order.

    A declaration that does not parse, or names fields the column no longer has, sets no limit.
    """
    limits: list[LengthLimit] = []
    for field in without_char_varchar(schema).fields:
        declared = field.metadata.get(DECLARED_TYPE)
        if isinstance(declared, str):
            limits += [limit for limit in _declared(declared, field.name) if _holds_string(field, limit.path)]
    return limits


def _as_string_field(field: StructField) -> StructField:
    plain = _as_string(field.dataType)
    if plain == field.dataType:
        return field
    return StructField(
        field.name, plain, field.nullable, {**field.metadata, DECLARED_TYPE: _declaration(field.dataType)}
    )


def _as_string(data_type: DataType) -> DataType:
    if isinstance(data_type, CharType | VarcharType):
        return StringType()
    if isinstance(data_type, ArrayType):
        return ArrayType(_as_string(data_type.elementType), data_type.containsNull)
    if isinstance(data_type, MapType):
        return MapType(_as_string(data_type.keyType), _as_string(data_type.valueType), data_type.valueContainsNull)
    if isinstance(data_type, StructType):
        fields = [StructField(f.name, _as_string(f.dataType), f.nullable, f.metadata) for f in data_type.fields]
        return StructType(fields)
    return data_type


def _declaration(data_type: DataType) -> str:
    """The type as Spark's `catalogString` writes it; PySpark's own `simpleString` does not quote names."""
    if isinstance(data_type, StructType):
        return f"struct<{','.join(f'{quoted([f.name])}:{_declaration(f.dataType)}' for f in data_type.fields)}>"
    if isinstance(data_type, ArrayType):
        return f"array<{_declaration(data_type.elementType)}>"
    if isinstance(data_type, MapType):
        return f"map<{_declaration(data_type.keyType)},{_declaration(data_type.valueType)}>"
    return data_type.simpleString()


def _declared(text: str, name: str) -> Iterator[LengthLimit]:
    """The limits in a type as Spark's `catalogString` writes it; none where the text does not parse."""
    tokens = [match[1].strip() for match in _TOKEN.finditer(text)]
    try:
        limits, rest = _read_type(tokens, (name,))
    except IndexError:
        return
    if not rest:
        yield from limits


def _read_type(tokens: list[str], path: FieldPath) -> tuple[list[LengthLimit], list[str]]:
    name, rest = tokens[0], tokens[1:]
    if not rest or rest[0] != "<":
        match = _LIMITED.fullmatch(name)
        if match is None:
            return [], rest
        return [LengthLimit(path=path, length=int(match[2]), padded=match[1].lower() != "varchar")], rest
    rest = rest[1:]
    parts = {"array": [ELEMENT], "map": [KEY, VALUE]}.get(name.lower())
    limits: list[LengthLimit] = []
    while rest[0] != ">":
        if parts is not None:
            part = parts.pop(0)
        else:
            part, rest = rest[0].strip("`").replace("``", "`"), rest[2:]
        inner_limits, rest = _read_type(rest, (*path, part))
        limits += inner_limits
        if rest[0] == ",":
            rest = rest[1:]
    return limits, rest[1:]


def _holds_string(field: StructField, path: FieldPath) -> bool:
    data_type: DataType | None = field.dataType
    for part in path[1:]:
        if isinstance(data_type, StructType):
            data_type = next((f.dataType for f in data_type.fields if fold(f.name) == fold(part)), None)
        elif isinstance(data_type, ArrayType) and part == ELEMENT:
            data_type = data_type.elementType
        elif isinstance(data_type, MapType) and part in (KEY, VALUE):
            data_type = data_type.keyType if part == KEY else data_type.valueType
        else:
            return False
    return isinstance(data_type, StringType)


# Columns of type void: all null, and never in a data file.
#
# Implements "Void Type" of PROTOCOL.md.


def without_void(struct: StructType) -> StructType:
    """The fields that data files hold; see "Void Type" of PROTOCOL.md."""
    fields = []
    for field in struct.fields:
        if isinstance(field.dataType, NullType):
            continue
        inner = without_void(field.dataType) if isinstance(field.dataType, StructType) else field.dataType
        fields.append(StructField(field.name, inner, field.nullable, field.metadata))
    return StructType(fields)


def check_storable(schema: StructType, *, table: str) -> None:
    """Refuse to write data files for a schema with intervals, or with void that cannot be left out."""
    fields = list(walk(schema))
    _check_no_intervals(fields, table)
    for path, field in fields:
        if not isinstance(field.dataType, ArrayType | MapType | StructType):
            continue
        if _holds_void(field.dataType):
            raise VoidWriteError(table=table, column=quoted(path), reason="has void inside an array or a map")
        if isinstance(field.dataType, StructType) and _is_all_void(field.dataType):
            raise VoidWriteError(table=table, column=quoted(path), reason="is a struct that has only void fields")
    if _is_all_void(schema):
        raise VoidWriteError(table=table, column="", reason="has only void columns")


def check_no_intervals(schema: StructType, *, table: str) -> None:
    """Refuse to write rows into a table with intervals. Raises `IntervalWriteError`."""
    _check_no_intervals(walk(schema), table)


def _check_no_intervals(fields: Iterable[tuple[FieldPath, StructField]], table: str) -> None:
    # Fields of structs are fields of their own, also below arrays and maps.
    intervals = [
        quoted(path)
        for path, field in fields
        if isinstance(field.dataType, _INTERVALS)
        or (isinstance(field.dataType, ArrayType | MapType) and contains_type(field.dataType, _INTERVALS))
    ]
    if intervals:
        raise IntervalWriteError(table=table, columns=tuple(intervals))


def _holds_void(data_type: DataType) -> bool:
    return isinstance(data_type, ArrayType | MapType) and contains_type(data_type, NullType)


def _is_all_void(struct: StructType) -> bool:
    return bool(struct.fields) and not without_void(struct).fields
