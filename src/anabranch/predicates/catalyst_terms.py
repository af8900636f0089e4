"""The nodes of Spark's expressions: columns and constants with their types, and what depends on more than the row."""

from __future__ import annotations

import dataclasses
import decimal
import re
from collections.abc import Callable
from typing import Any

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NullType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from anabranch.predicates.expressions import EQ, Column, Comparison, Literal, Predicate, Truth, Unknown
from anabranch.predicates.literal_casts import keeps_order, nearest_float
from anabranch.protocol import value_text
from anabranch.protocol.time_zones import UTC

TEXT_MAX = 200
_PACKAGE = "org.apache.spark.sql.catalyst.expressions."
_OPAQUE = frozenset(
    {
        "CurrentDate",
        "CurrentTime",
        "CurrentTimestamp",
        "CurrentTimestampLike",
        "Exists",
        "InputFileBlockLength",
        "InputFileBlockStart",
        "InputFileName",
        "InSubquery",
        "LateralSubquery",
        "ListQuery",
        "LocalTimestamp",
        "MonotonicallyIncreasingID",
        "Now",
        "PythonUDF",
        "Rand",
        "RandStr",
        "Randn",
        "RandomUUID",
        "ScalaUDF",
        "ScalarSubquery",
        "Shuffle",
        "SparkPartitionID",
        "Uniform",
        "Uuid",
    }
)
"""Expressions that are not functions of the row alone, and users' functions, of which that is not known."""

_TYPES: dict[str, DataType] = {
    "boolean": BooleanType(),
    "byte": ByteType(),
    "short": ShortType(),
    "integer": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "string": StringType(),
    "binary": BinaryType(),
    "date": DateType(),
    "timestamp": TimestampType(),
    "timestamp_ntz": TimestampNTZType(),
    "void": NullType(),
}
_DECIMAL = re.compile(r"decimal\((\d+),(-?\d+)\)")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One node with its children; what was not understood of it is None."""

    name: str
    node: dict[str, Any]
    children: tuple[Term, ...]
    value: Column | Literal | None = None
    data_type: DataType | None = None
    """The type of `value`; None for types that are not compared by value, such as structs and text with a collation."""
    type_json: Any = None
    condition: Predicate | None = None
    nesting: int = 1

    @property
    def text(self) -> str:
        if self.condition is not None:
            return str(self.condition)[:TEXT_MAX]
        if isinstance(self.value, Column):
            return ".".join(self.value.path)[:TEXT_MAX]
        if isinstance(self.value, Literal):
            return str(self.value.value)[:TEXT_MAX]
        return f"{self.name}({', '.join(child.text for child in self.children)})"[:TEXT_MAX]

    @property
    def columns(self) -> tuple[Column, ...]:
        if isinstance(self.value, Column):
            return (self.value,)
        return tuple(dict.fromkeys(column for child in self.children for column in child.columns))

    @property
    def opaque(self) -> bool:
        deterministic = (self.node.get(key) for key in ("deterministic", "isDeterministic", "udfDeterministic"))
        return self.name in _OPAQUE or False in deterministic or any(child.opaque for child in self.children)

    @property
    def predicate(self) -> Predicate:
        """The node as a condition."""
        if self.condition is not None:
            return self.condition
        if isinstance(self.value, Literal) and (self.value.value is None or isinstance(self.value.value, bool)):
            return Truth(self.value.value)
        if isinstance(self.value, Column) and isinstance(self.data_type, BooleanType):
            return Comparison(EQ, self.value, Literal(True, BooleanType()))
        return Unknown(self.text, self.columns, self.opaque)


def name_of(node: dict[str, Any]) -> str:
    """The name of the node's class without its package; with `*` behind it for classes outside of Spark's package."""
    full = node["class"]
    inside = full.removeprefix(_PACKAGE)
    return inside if inside != full and "." not in inside else str(full.rsplit(".", 1)[-1]) + "*"


def _attribute(term: Term) -> Term:
    kind = term.node["dataType"]
    return dataclasses.replace(term, value=Column((str(term.node["name"]),)), data_type=type_of(kind), type_json=kind)


def _struct_field(term: Term) -> Term:
    struct = term.children[0]
    if not isinstance(struct.value, Column) or not isinstance(struct.type_json, dict):
        return term
    field = struct.type_json["fields"][term.node["ordinal"]]
    return dataclasses.replace(
        term,
        value=Column((*struct.value.path, str(field["name"]))),
        data_type=type_of(field["type"]),
        type_json=field["type"],
    )


def _literal(term: Term) -> Term:
    data_type = type_of(term.node["dataType"])
    text = term.node["value"]
    if data_type is None:
        return term
    if text is None:
        return dataclasses.replace(term, value=Literal(None, data_type), data_type=data_type)
    value = _value_of(str(text), data_type)
    return term if value is None else dataclasses.replace(term, value=Literal(value, data_type), data_type=data_type)


def _cast(term: Term) -> Term:
    """A cast that only widens is treated as the column itself, and a NULL that is cast as a NULL of the new type."""
    inner, data_type = term.children[0], type_of(term.node["dataType"])
    if data_type is None:
        return term
    if isinstance(inner.value, Literal) and inner.value.value is None:
        return dataclasses.replace(term, value=Literal(None, data_type), data_type=data_type)
    widens = inner.data_type is not None and keeps_order(inner.data_type, data_type)
    if isinstance(inner.value, Column) and widens:
        return dataclasses.replace(term, value=inner.value, data_type=data_type)
    return term


def _padding(term: Term) -> Term:
    """Padding is treated as the `char` column itself, which is always compared as if filled up with spaces."""
    inner = term.children[0] if term.children else None
    if term.node.get("functionName", "readSidePadding") != "readSidePadding" or inner is None:
        return term
    return dataclasses.replace(term, value=inner.value, data_type=inner.data_type)


VALUES: dict[str, Callable[[Term], Term]] = {
    "AttributeReference": _attribute,
    "GetStructField": _struct_field,
    "Literal": _literal,
    "Cast": _cast,
    "StaticInvoke*": _padding,
}


def type_of(kind: Any) -> DataType | None:
    """The type that a node names; None for types that are not compared by value."""
    if not isinstance(kind, str):
        return None
    match = _DECIMAL.fullmatch(kind)
    return DecimalType(int(match[1]), int(match[2])) if match else _TYPES.get(kind)


def _value_of(text: str, data_type: DataType) -> Any:
    """The value of a literal, from its text; None where the text does not determine it."""
    try:
        match data_type:
            case BooleanType():
                return {"true": True, "false": False}[text]
            case ByteType() | ShortType() | IntegerType() | LongType():
                return int(text)
            case FloatType():
                return nearest_float(float(text))
            case DoubleType():
                return float(text)
            case DecimalType():
                return decimal.Decimal(text)
            case StringType():
                return text
            case DateType():
                return value_text.parse_days(text)
            case TimestampType():
                # `anabranch.ConditionJson` writes them in UTC, years of more than four digits with their sign.
                return value_text.parse_micros(text, UTC)
            case TimestampNTZType():
                return int(text) if text.lstrip("-").isdigit() else value_text.parse_local_micros(text)
            case _:
                # The text of a binary is the identity of a Java object.
                return None
    except (ValueError, KeyError, ArithmeticError):
        return None
