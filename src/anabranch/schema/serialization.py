"""The schema of a table, from and to the JSON of `metaData.schemaString`.

Implements "Schema Serialization Format" of PROTOCOL.md. PySpark's own `StructType.fromJson` is not used:
it differs between releases, drops keys that it does not know, recurses without a bound, and imports the
Python class that a `udt` entry names, which a table's log must never decide. Only the vectors and matrices of
Spark's ML libraries are read.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    UserDefinedType,
    VarcharType,
    VariantType,
    YearMonthIntervalType,
)

from anabranch.errors.protocol import UnknownTypeError
from anabranch.errors.schema import MalformedSchemaError, UnsupportedTypeError
from anabranch.schema.logical_types import without_char_varchar
from anabranch.schema.paths import ELEMENT, KEY, VALUE, FieldPath, quoted

DEPTH_MAX = 100
"""How deep types may nest. Spark itself plans nothing near it, and PySpark's types recurse."""

COLLATIONS = "__COLLATIONS"
BINARY_COLLATION = "UTF8_BINARY"

_PRIMITIVES: Mapping[str, type[DataType]] = {
    "string": StringType,
    "long": LongType,
    "integer": IntegerType,
    "short": ShortType,
    "byte": ByteType,
    "float": FloatType,
    "double": DoubleType,
    "boolean": BooleanType,
    "binary": BinaryType,
    "date": DateType,
    "timestamp": TimestampType,
    "timestamp_ntz": TimestampNTZType,
    "void": NullType,
    "variant": VariantType,
}
_ML_TYPES: Mapping[str, tuple[str, str]] = {
    f"org.apache.spark.{library}.linalg.{name}": (f"pyspark.{library}.linalg", name)
    for library in ("ml", "mllib")
    for name in ("VectorUDT", "MatrixUDT")
}
"""The user-defined types that a table may hold, by their class in Java: module and class in Python. No log may name
another, since every reader would load that class. Files hold their `sqlType`."""
_OLD_SPELLINGS: Mapping[str, type[DataType]] = {"null": NullType, "timestamp_ltz": TimestampType}
"""Names that older writers used and Spark still reads."""
_NAMES: Mapping[type[DataType], str] = {kind: name for name, kind in _PRIMITIVES.items()}
_DECIMAL = re.compile(r"decimal\(\s*(\d{1,4})\s*,\s*(-?\d{1,4})\s*\)")
_LENGTH = re.compile(r"(char|varchar)\(\s*(\d{1,9})\s*\)")
_COLLATED = re.compile(r"string\s+collate\s+(\w+)", re.IGNORECASE)
_UNSUPPORTED = re.compile(r"(interval$|time\b|geometry\b|geography\b|calendar_?interval)", re.IGNORECASE)
_INTERVAL = re.compile(r"interval (\w+)(?: to (\w+))?")
_INTERVAL_FIELDS: tuple[tuple[tuple[str, ...], type[DataType]], ...] = (
    (("year", "month"), YearMonthIntervalType),
    (("day", "hour", "minute", "second"), DayTimeIntervalType),
)
"""The fields of both kinds of intervals, the longest first. See "Interval Types" of the protocol's RFC."""


def parse_schema(schema_string: str, table: str = "the table") -> StructType:
    """The schema that `metaData.schemaString` of `table` describes.

    Char and varchar come back as strings that carry `__CHAR_VARCHAR_TYPE_STRING`, as in Spark; collated
    strings as `StringType` of that collation; intervals with all fields of their kind, whichever are named. Raises
    MalformedSchemaError, and UnsupportedTypeError for a type that no Delta table can hold.
    """
    return _Parser(table).schema(schema_string)


def parse_type(type_json: str | Mapping[str, Any], table: str = "the table") -> DataType:
    """The type that a `type` entry of a schema describes: a name or an object, already decoded."""
    return _Parser(table).type(type_json, (), {})


def schema_string(schema: StructType, table: str = "the table") -> str:
    """`schema` as Spark writes it into the log: one line, keys in Spark's order, not ASCII-escaped.

    Raises UnsupportedTypeError, naming every column with a type that no Delta table can hold.
    """
    check_types(schema, table)
    value = _struct_json(without_char_varchar(schema))
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def check_types(schema: StructType, table: str) -> None:
    """Refuse a schema, a DataFrame's say, with types that no Delta table can hold."""
    refused = dict(_refused(without_char_varchar(schema), ()))
    if refused:
        raise UnsupportedTypeError(table=table, columns=refused)


def type_json(data_type: DataType) -> str | dict[str, Any]:
    """A `type` entry of a schema, ready for encoding."""
    if isinstance(data_type, StructType):
        return _struct_json(data_type)
    if isinstance(data_type, ArrayType):
        element = type_json(data_type.elementType)
        return {"type": "array", "elementType": element, "containsNull": data_type.containsNull}
    if isinstance(data_type, MapType):
        return {
            "type": "map",
            "keyType": type_json(data_type.keyType),
            "valueType": type_json(data_type.valueType),
            "valueContainsNull": data_type.valueContainsNull,
        }
    if isinstance(data_type, UserDefinedType) and is_ml_type(data_type):
        return dict(data_type.jsonValue())
    return type_name(data_type)


def is_ml_type(data_type: UserDefinedType) -> bool:
    """Whether it is a vector or a matrix of Spark's ML libraries."""
    return _ML_TYPES.get(data_type.scalaUDT()) == (type(data_type).__module__, type(data_type).__name__)


def _ml_type(scala_class: Any) -> UserDefinedType | None:
    python_class = _ML_TYPES.get(scala_class) if isinstance(scala_class, str) else None
    if python_class is None:
        return None
    module, name = python_class
    ml_type: UserDefinedType = getattr(importlib.import_module(module), name)()
    return ml_type


def type_name(data_type: DataType) -> str:
    """The name of a primitive type in a schema, such as `decimal(10,2)`."""
    if isinstance(data_type, DecimalType):
        return f"decimal({data_type.precision},{data_type.scale})"
    name = _NAMES.get(type(data_type))
    if name is None:
        raise UnsupportedTypeError(table="the table", columns={"": data_type.simpleString()})
    return name


class _Parser:
    """Builds types from decoded JSON; errors name the field that is malformed."""

    def __init__(self, table: str) -> None:
        self.table = table

    def schema(self, text: str) -> StructType:
        try:
            value = json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise self.malformed((), f"it is not JSON ({error})") from error
        if not isinstance(value, dict) or value.get("type") != "struct":
            raise self.malformed((), "the top level is not an object of type struct")
        return without_char_varchar(self.struct(value, ()))

    def struct(self, value: Mapping[str, Any], path: FieldPath) -> StructType:
        fields = value.get("fields")
        if not isinstance(fields, list):
            raise self.malformed(path, "a struct has no list of fields")
        return StructType([self.field(field, path, position) for position, field in enumerate(fields)])

    def field(self, value: Any, path: FieldPath, position: int) -> StructField:
        if not isinstance(value, dict):
            raise self.malformed(path, f"field {position} is not an object")
        name = value.get("name")
        if not isinstance(name, str):
            raise self.malformed(path, f"field {position} has no name")
        field_path = (*path, name)
        if "type" not in value:
            raise self.malformed(field_path, "it has no type")
        metadata = self.metadata(value.get("metadata"), field_path)
        collations = self.collations(metadata.pop(COLLATIONS, None), field_path)
        data_type = self.type(value["type"], field_path, collations, within=name)
        return StructField(name, data_type, self.flag(value, "nullable", field_path), metadata)

    def type(self, value: Any, path: FieldPath, collations: Mapping[str, str], within: str = "") -> DataType:
        """`within` is the path that `__COLLATIONS` uses: from the nearest field, not from the root."""
        if len(path) > DEPTH_MAX:
            raise self.malformed(path[:3], f"types nest more than {DEPTH_MAX} levels deep below it")
        if isinstance(value, str):
            return self.primitive(value, path, collations.get(within))
        if not isinstance(value, Mapping):
            raise self.malformed(path, "its type is neither a name nor an object")
        kind = value.get("type")
        if kind == "struct":
            return self.struct(value, path)
        if kind == "array":
            element = self.type(
                self.part(value, "elementType", path), (*path, ELEMENT), collations, f"{within}.{ELEMENT}"
            )
            return ArrayType(element, self.flag(value, "containsNull", path))
        if kind == "map":
            key = self.type(self.part(value, "keyType", path), (*path, KEY), collations, f"{within}.{KEY}")
            inner = self.type(self.part(value, "valueType", path), (*path, VALUE), collations, f"{within}.{VALUE}")
            return MapType(key, inner, self.flag(value, "valueContainsNull", path))
        if kind == "udt":
            return self.user_defined(value, path)
        if isinstance(kind, str) and kind == "variant":
            return VariantType()
        if isinstance(kind, str):
            raise UnknownTypeError(table=self.table, column=".".join(path), type_name=kind[:100])
        raise self.malformed(path, f"its type is called {kind!r}, which is no name")

    def user_defined(self, value: Mapping[str, Any], path: FieldPath) -> DataType:
        """One of `_ML_TYPES`, if the entry is exactly what Spark writes for it. Raises UnsupportedTypeError."""
        ml_type = _ml_type(value.get("class"))
        if ml_type is not None and dict(value) == ml_type.jsonValue():
            return ml_type
        named = str(value.get("class") or value.get("pyClass") or "unnamed")
        raise UnsupportedTypeError(table=self.table, columns={".".join(path): f"user-defined type {named[:100]}"})

    def part(self, value: Mapping[str, Any], key: str, path: FieldPath) -> Any:
        if key not in value:
            raise self.malformed(path, f"its type lacks {key}")
        return value[key]

    def primitive(self, name: str, path: FieldPath, collation: str | None) -> DataType:
        if name == "string" and collation is not None:
            return StringType(collation)
        if kind := _PRIMITIVES.get(name) or _OLD_SPELLINGS.get(name):
            return kind()
        if name == "decimal":
            return DecimalType(10, 0)
        if match := _DECIMAL.fullmatch(name):
            return self.decimal(int(match[1]), int(match[2]), path)
        if match := _LENGTH.fullmatch(name):
            return (CharType if match[1] == "char" else VarcharType)(int(match[2]))
        if match := _COLLATED.fullmatch(name):
            return StringType(match[1])
        if (match := _INTERVAL.fullmatch(name)) and (kind := _interval(match[1], match[2])):
            return kind()
        if _UNSUPPORTED.match(name):
            raise UnsupportedTypeError(table=self.table, columns={".".join(path): name[:100]})
        raise UnknownTypeError(table=self.table, column=".".join(path), type_name=name[:100])

    def decimal(self, precision: int, scale: int, path: FieldPath) -> DecimalType:
        if not (1 <= precision <= 38 and 0 <= scale <= precision):
            raise self.malformed(path, f"decimal({precision},{scale}) is out of range")
        return DecimalType(precision, scale)

    def flag(self, value: Mapping[str, Any], key: str, path: FieldPath) -> bool:
        flag = value.get(key, True)
        if not isinstance(flag, bool):
            raise self.malformed(path, f"its {key} is neither true nor false")
        return flag

    def metadata(self, value: Any, path: FieldPath) -> dict[str, Any]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.malformed(path, "its metadata is not an object")
        return dict(value)

    def collations(self, value: Any, path: FieldPath) -> dict[str, str]:
        """Names of collations by path within the field; the log writes `provider.name`."""
        if value is None:
            return {}
        if not isinstance(value, dict) or not all(isinstance(name, str) for name in value.values()):
            raise self.malformed(path, f"its {COLLATIONS} is not an object of names")
        return {key: name.split(".", 1)[-1] for key, name in value.items()}

    def malformed(self, path: FieldPath, reason: str) -> MalformedSchemaError:
        return MalformedSchemaError(table=self.table, field=".".join(path), reason=reason)


def _interval(longest: str, shortest: str | None) -> type[DataType] | None:
    """The kind of interval with these fields; None where they name no interval."""
    for fields, kind in _INTERVAL_FIELDS:
        if longest in fields and (shortest is None or shortest in fields[fields.index(longest) + 1 :]):
            return kind
    return None


def _refused(data_type: DataType, path: FieldPath) -> Iterator[tuple[str, str]]:
    if isinstance(data_type, StructType):
        for field in data_type.fields:
            yield from _refused(field.dataType, (*path, field.name))
    elif isinstance(data_type, ArrayType):
        yield from _refused(data_type.elementType, (*path, ELEMENT))
    elif isinstance(data_type, MapType):
        yield from _refused(data_type.keyType, (*path, KEY))
        yield from _refused(data_type.valueType, (*path, VALUE))
    elif isinstance(data_type, UserDefinedType) and is_ml_type(data_type):
        return
    elif not isinstance(data_type, DecimalType) and type(data_type) not in _NAMES:
        yield quoted(path), data_type.simpleString()


def _struct_json(struct: StructType) -> dict[str, Any]:
    return {"type": "struct", "fields": [_field_json(field) for field in struct.fields]}


def _field_json(field: StructField) -> dict[str, Any]:
    metadata = {key: value for key, value in field.metadata.items() if key != COLLATIONS}
    collations = dict(_collations(field.dataType, field.name))
    if collations:
        metadata[COLLATIONS] = collations
    return {"name": field.name, "type": type_json(field.dataType), "nullable": field.nullable, "metadata": metadata}


def _collations(data_type: DataType, path: str) -> list[tuple[str, str]]:
    """Every collated string of a field outside nested structs, whose fields keep their own."""
    if isinstance(data_type, StringType):
        name = data_type.collation
        provider = "spark" if name.startswith("UTF8") else "icu"
        return [] if name == BINARY_COLLATION else [(path, f"{provider}.{name}")]
    if isinstance(data_type, ArrayType):
        return _collations(data_type.elementType, f"{path}.{ELEMENT}")
    if isinstance(data_type, MapType):
        return [
            *_collations(data_type.keyType, f"{path}.{KEY}"),
            *_collations(data_type.valueType, f"{path}.{VALUE}"),
        ]
    return []
