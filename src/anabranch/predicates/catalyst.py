"""Predicates from Spark's own resolved expressions, as `Expression.toJSON()` writes them.

The text is a list of nodes in prefix order, each with its class and its number of children. Seen on Spark 4.0 to 4.3.
"""

from __future__ import annotations

import dataclasses
import decimal
import json
import re
from collections.abc import Callable, Sequence
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

from anabranch.predicates.calendar_conditions import day_condition, year_condition
from anabranch.predicates.expressions import (
    EQ,
    EQ_NULL_SAFE,
    GE,
    GT,
    LE,
    LT,
    TRUE,
    And,
    Column,
    ColumnPath,
    Comparison,
    In,
    IsNotNull,
    IsNull,
    Literal,
    Not,
    Operator,
    Predicate,
    StartsWith,
    Truth,
    Unknown,
    conjunction,
    disjunction,
)
from anabranch.predicates.literal_casts import keeps_order, nearest_float
from anabranch.protocol import value_text
from anabranch.protocol.time_zones import UTC, Zones

NESTING_MAX = 100
"""Conditions that nest deeper become `Unknown`."""
_TEXT_MAX = 200
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

_NUMBERS = (ByteType, ShortType, IntegerType, LongType, FloatType, DoubleType)
_OTHERS = (BooleanType, StringType, BinaryType, DateType, TimestampType, TimestampNTZType, NullType)
_TYPES: dict[str, DataType] = {kind.typeName(): kind() for kind in (*_NUMBERS, *_OTHERS)}
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
            return str(self.condition)[:_TEXT_MAX]
        if isinstance(self.value, Column):
            return ".".join(self.value.path)[:_TEXT_MAX]
        if isinstance(self.value, Literal):
            return str(self.value.value)[:_TEXT_MAX]
        return f"{self.name}({', '.join(child.text for child in self.children)})"[:_TEXT_MAX]

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


def _name_of(node: dict[str, Any]) -> str:
    """The name of the node's class without its package; with `*` behind it for classes outside of Spark's package."""
    full = node["class"]
    inside = full.removeprefix(_PACKAGE)
    return inside if inside != full and "." not in inside else str(full.rsplit(".", 1)[-1]) + "*"


def _column(term: Term, path: ColumnPath, kind: Any) -> Term:
    return dataclasses.replace(term, value=Column(path), data_type=_type_of(kind), type_json=kind)


def _attribute(term: Term) -> Term:
    return _column(term, (str(term.node["name"]),), term.node["dataType"])


def _struct_field(term: Term) -> Term:
    struct = term.children[0]
    if not isinstance(struct.value, Column) or not isinstance(struct.type_json, dict):
        return term
    field = struct.type_json["fields"][term.node["ordinal"]]
    return _column(term, (*struct.value.path, str(field["name"])), field["type"])


def _literal(term: Term) -> Term:
    data_type = _type_of(term.node["dataType"])
    text = term.node["value"]
    if data_type is None:
        return term
    if text is None:
        return dataclasses.replace(term, value=Literal(None, data_type), data_type=data_type)
    value = _value_of(str(text), data_type)
    return term if value is None else dataclasses.replace(term, value=Literal(value, data_type), data_type=data_type)


def _cast(term: Term) -> Term:
    """A cast that only widens is treated as the column itself, and a NULL that is cast as a NULL of the new type."""
    inner, data_type = term.children[0], _type_of(term.node["dataType"])
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


_VALUES: dict[str, Callable[[Term], Term]] = {
    "AttributeReference": _attribute,
    "GetStructField": _struct_field,
    "Literal": _literal,
    "Cast": _cast,
    "StaticInvoke*": _padding,
}


def _type_of(kind: Any) -> DataType | None:
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


_OPERATORS = {
    "EqualTo": EQ,
    "EqualNullSafe": EQ_NULL_SAFE,
    "LessThan": LT,
    "LessThanOrEqual": LE,
    "GreaterThan": GT,
    "GreaterThanOrEqual": GE,
}
_REDUNDANT = frozenset({"DynamicPruningExpression", "DynamicPruningSubquery", "BloomFilterMightContain"})
"""Filters that the planner derives from a join: they leave out only rows that the join leaves out, too."""


def from_catalyst(text: str, *, zones: Zones) -> Predicate:
    """The condition over the names of its attributes; parts that are not understood become `Unknown`.

    `text` is written by `ConditionJson.java`, with timestamps in UTC. `zones` has the rules of the JVM that wrote it.
    """
    try:
        (root,) = _read(json.loads(text), zones)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        # No supported Spark writes this. It may be any condition, also one that depends on other rows.
        return Unknown(text[:_TEXT_MAX], opaque=True)
    return root.predicate


def _read(nodes: list[dict[str, Any]], zones: Zones) -> list[Term]:
    """The terms of these nodes. They are built from the last to the first, so children are before their parent."""
    terms: list[Term] = []
    for node in reversed(nodes):
        count = node["num-children"]
        if not isinstance(count, int) or not 0 <= count <= len(terms):
            raise ValueError("a node lacks its children")
        children = tuple(terms[: -count - 1 : -1])
        del terms[len(terms) - count :]
        terms.append(_term(_name_of(node), node, children, zones))
    return terms


def _term(name: str, node: dict[str, Any], children: tuple[Term, ...], zones: Zones) -> Term:
    nesting = 1 + max([child.nesting for child in children]) if children else 1
    plain = Term(name=name, node=node, children=children, nesting=nesting)
    if name in ("And", "Or"):
        # The planner makes a deep tree of a long list of conditions; flattened, it has one level.
        join = conjunction if name == "And" else disjunction
        joined = join([child.predicate for child in children])
        nesting = max([child.nesting + (child.name != name) for child in children])
        plain = dataclasses.replace(plain, condition=joined, nesting=nesting)
    if nesting > NESTING_MAX:
        return dataclasses.replace(plain, condition=Unknown(name, plain.columns, plain.opaque))
    if plain.condition is not None:
        return plain
    if name in _VALUES:
        return _VALUES[name](plain)
    return dataclasses.replace(plain, condition=_condition(plain, zones))


def _condition(term: Term, zones: Zones) -> Predicate | None:
    name, children = term.name, term.children
    if name in _REDUNDANT:
        return TRUE
    if name == "Not":
        return Not(children[0].predicate)
    if name in ("IsNull", "IsNotNull") and isinstance(children[0].value, Column):
        return (IsNull if name == "IsNull" else IsNotNull)(children[0].value)
    if name in _OPERATORS:
        return _comparison(_OPERATORS[name], children[0], children[1], zones)
    if name == "In":
        return _membership(children[0], [child.value for child in children[1:]])
    if name == "StartsWith":
        return _starts_with(children[0], children[1])
    if name == "Like":
        return _like(term)
    return None


def _comparison(operator: Operator, left: Term, right: Term, zones: Zones) -> Predicate | None:
    if isinstance(left.value, Literal) and not isinstance(right.value, Literal):
        return _comparison(operator.mirrored, right, left, zones)
    if isinstance(left.value, Column):
        comparable = left.data_type is not None and left.data_type == right.data_type
        return Comparison(operator, left.value, right.value) if right.value is not None and comparable else None
    if not isinstance(right.value, Literal) or right.value.value is None:
        return None
    if left.name == "Substring" and operator is EQ:
        return _substring(left, right.value)
    return _on_calendar(operator, left, right.value, zones)


def _on_calendar(operator: Operator, term: Term, literal: Literal, zones: Zones) -> Predicate | None:
    """`year(column)` or `CAST(column AS DATE)` compared with a constant."""
    inner = term.children[0] if term.name == "Year" else term
    to_date = inner.name == "Cast" and isinstance(_type_of(inner.node["dataType"]), DateType)
    subject = inner.children[0] if to_date and inner.value is None else inner
    if not isinstance(subject.value, Column) or subject.data_type is None:
        return None
    zone = zones(str(inner.node["timeZoneId"])) if to_date and inner.node.get("timeZoneId") else None
    if term.name == "Year" and isinstance(literal.data_type, IntegerType):
        return year_condition(subject.value, subject.data_type, operator, literal.value, zone=zone)
    if term is inner and to_date and isinstance(literal.data_type, DateType):
        return day_condition(subject.value, subject.data_type, operator, literal.value, zone=zone)
    return None


def _substring(term: Term, literal: Literal) -> Predicate | None:
    """The first characters of a column, compared with a text of that length or less."""
    subject, position, length = (child.value for child in term.children)
    at_start = isinstance(position, Literal) and position.value in (0, 1)
    if not isinstance(subject, Column) or not at_start or not isinstance(length, Literal):
        return None
    if not isinstance(term.children[0].data_type, StringType) or not isinstance(literal.value, str):
        return None
    if length.value is None or len(literal.value) > length.value:
        return None
    if len(literal.value) == length.value:
        return StartsWith(subject, literal.value)
    return Comparison(EQ, subject, literal)


def _membership(subject: Term, values: Sequence[Column | Literal | None]) -> Predicate | None:
    literals = [value for value in values if isinstance(value, Literal)]
    if not isinstance(subject.value, Column) or subject.data_type is None or len(literals) != len(values):
        return None
    return In(subject.value, tuple(literals))


def _starts_with(subject: Term, prefix: Term) -> Predicate | None:
    texts = isinstance(subject.data_type, StringType) and isinstance(prefix.data_type, StringType)
    if not isinstance(subject.value, Column) or not isinstance(prefix.value, Literal) or not texts:
        return None
    return Truth(None) if prefix.value.value is None else StartsWith(subject.value, prefix.value.value)


def _like(term: Term) -> Predicate | None:
    """A LIKE as a condition on the text before its first wildcard, and an unknown one for the rest."""
    pattern = term.children[1].value
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        return None
    escape = str(term.node.get("escapeChar") or "\\")
    stem = re.split(f"[%_{re.escape(escape)}]", pattern.value, maxsplit=1)[0]
    prefix = dataclasses.replace(term.children[1], value=Literal(stem, pattern.data_type))
    begins = _starts_with(term.children[0], prefix)
    return None if not stem or begins is None else And((begins, Unknown(term.text, term.columns, term.opaque)))
