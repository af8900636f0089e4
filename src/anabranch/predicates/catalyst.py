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

import sqlglot
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
from sqlglot import exp
from sqlglot.errors import SqlglotError

from anabranch.predicates.calendar_ranges import day_condition, year_condition
from anabranch.predicates.coercion import coerced, keeps_order, moment_of_text, single
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
from anabranch.predicates.sql_literals import DIALECT, literal_of
from anabranch.protocol import date_times

NESTING_MAX = 100
"""Conditions that nest deeper are not looked into."""
_TEXT_MAX = 200
_PACKAGE = "org.apache.spark.sql.catalyst.expressions."

_OPERATORS = {
    "EqualTo": EQ,
    "EqualNullSafe": EQ_NULL_SAFE,
    "LessThan": LT,
    "LessThanOrEqual": LE,
    "GreaterThan": GT,
    "GreaterThanOrEqual": GE,
}
_REDUNDANT = frozenset({"DynamicPruningExpression", "DynamicPruningSubquery", "BloomFilterMightContain"})
"""Filters that the planner derives from a join: they leave out only rows that the join would."""
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
"""No function of the row alone, or one that only its author knows to be."""

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


def from_catalyst(text: str, *, session_time_zone: str, sql: str | None = None) -> Predicate:
    """The condition in the names of its attributes; what is not understood becomes `Unknown`.

    `session_time_zone` is the one in which Spark wrote the text: it gives timestamps no zone of their own. The text
    leaves out the values of an `InSet` (an `IN` with many values); with `sql`, the same expression's `sql()`, they are
    found.
    """
    try:
        nodes = json.loads(text)
        (root,) = _Reader(session_time_zone, _in_lists(sql) if sql and '"hset"' in text else None).read(nodes)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        # Another shape than any that Spark had so far. It may be anything, also something that asks other rows.
        return Unknown(text[:_TEXT_MAX], opaque=True)
    return root.predicate


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Term:
    """One node with its children, as far as it was understood."""

    name: str
    node: dict[str, Any]
    children: tuple[_Term, ...]
    value: Column | Literal | None = None
    data_type: DataType | None = None
    """Of the value; None for types that are not compared by value, such as structs and text with a collation."""
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
        told = (self.node.get(key) for key in ("deterministic", "isDeterministic", "udfDeterministic"))
        return self.name in _OPAQUE or False in told or any(child.opaque for child in self.children)

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


class _Reader:
    """Builds terms from the last node to the first, so that children are there before their parent."""

    def __init__(self, zone: str, in_lists: list[list[exp.Expression]] | None) -> None:
        self._zone = zone
        self._in_lists = in_lists

    def read(self, nodes: list[dict[str, Any]]) -> list[_Term]:
        places = [index for index, node in enumerate(nodes) if _name(node) in ("In", "InSet")]
        if self._in_lists is not None and len(places) != len(self._in_lists):
            self._in_lists = None
        terms: list[_Term] = []
        for index in range(len(nodes) - 1, -1, -1):
            node = nodes[index]
            count = node["num-children"]
            if not isinstance(count, int) or not 0 <= count <= len(terms):
                raise ValueError("a node lacks its children")
            children = tuple(terms.pop() for _ in range(count))
            place = places.index(index) if _name(node) == "InSet" else None
            terms.append(self._term(_name(node), node, children, place))
        return terms

    def _term(self, name: str, node: dict[str, Any], children: tuple[_Term, ...], place: int | None) -> _Term:
        nesting = 1 + max((child.nesting for child in children), default=0)
        plain = _Term(name=name, node=node, children=children, nesting=nesting)
        if name in ("And", "Or"):
            # The planner builds a long list of conditions as a deep tree; flattened it is neither.
            join = conjunction if name == "And" else disjunction
            joined = join(child.predicate for child in children)
            nesting = max(child.nesting + (child.name != name) for child in children)
            plain = dataclasses.replace(plain, condition=joined, nesting=nesting)
        if nesting > NESTING_MAX:
            return dataclasses.replace(plain, condition=Unknown(name, plain.columns, plain.opaque))
        if plain.condition is not None:
            return plain
        if name == "InSet":
            return dataclasses.replace(plain, condition=self._in_set(children[0], place))
        value = _VALUES.get(name)
        if value is not None:
            return value(plain, self._zone)
        return dataclasses.replace(plain, condition=self._condition(plain))

    def _condition(self, term: _Term) -> Predicate | None:
        name, children = term.name, term.children
        if name in _REDUNDANT:
            return TRUE
        if name == "Not":
            return Not(children[0].predicate)
        if name in ("IsNull", "IsNotNull") and isinstance(children[0].value, Column):
            return (IsNull if name == "IsNull" else IsNotNull)(children[0].value)
        if name in _OPERATORS:
            return _comparison(_OPERATORS[name], children[0], children[1], self._zone)
        if name == "In":
            return _membership(children[0], [child.value for child in children[1:]])
        if name == "StartsWith":
            return _beginning(children[0], children[1])
        if name == "Like":
            return _pattern(term)
        return None

    def _in_set(self, subject: _Term, place: int | None) -> Predicate | None:
        if self._in_lists is None or place is None or subject.data_type is None:
            return None
        found = []
        for node in self._in_lists[place]:
            literal = literal_of(node, zone=self._zone, escapes="\\" in node.sql(dialect=DIALECT))
            found.append(None if literal is None else coerced(literal, subject.data_type, zone=self._zone))
        return _membership(subject, found)


def _name(node: dict[str, Any]) -> str:
    """The class without its package, so long as it is one of Spark's expressions."""
    full = node["class"]
    inside = full.removeprefix(_PACKAGE)
    return inside if inside != full and "." not in inside else str(full.rsplit(".", 1)[-1]) + "*"


def _attribute(term: _Term, _: str) -> _Term:
    kind = term.node["dataType"]
    return dataclasses.replace(term, value=Column((str(term.node["name"]),)), data_type=_type_of(kind), type_json=kind)


def _struct_field(term: _Term, _: str) -> _Term:
    above = term.children[0]
    if not isinstance(above.value, Column) or not isinstance(above.type_json, dict):
        return term
    field = above.type_json["fields"][term.node["ordinal"]]
    return dataclasses.replace(
        term,
        value=Column((*above.value.path, str(field["name"]))),
        data_type=_type_of(field["type"]),
        type_json=field["type"],
    )


def _literal(term: _Term, zone: str) -> _Term:
    data_type = _type_of(term.node["dataType"])
    text = term.node["value"]
    if data_type is None:
        return term
    if text is None:
        return dataclasses.replace(term, value=Literal(None, data_type), data_type=data_type)
    value = _value_of(str(text), data_type, zone)
    return term if value is None else dataclasses.replace(term, value=Literal(value, data_type), data_type=data_type)


def _cast(term: _Term, _: str) -> _Term:
    """A cast that only widens is the column itself; so is a NULL of another type."""
    inner, data_type = term.children[0], _type_of(term.node["dataType"])
    if data_type is None:
        return term
    if isinstance(inner.value, Literal) and inner.value.value is None:
        return dataclasses.replace(term, value=Literal(None, data_type), data_type=data_type)
    widens = inner.data_type is not None and keeps_order(inner.data_type, data_type)
    if isinstance(inner.value, Column) and widens:
        return dataclasses.replace(term, value=inner.value, data_type=data_type)
    return term


def _padding(term: _Term, _: str) -> _Term:
    """A `char` column is always compared filled up with spaces, so the filling adds nothing."""
    inner = term.children[0] if term.children else None
    if term.node.get("functionName", "readSidePadding") != "readSidePadding" or inner is None:
        return term
    return dataclasses.replace(term, value=inner.value, data_type=inner.data_type)


_VALUES: dict[str, Callable[[_Term, str], _Term]] = {
    "AttributeReference": _attribute,
    "GetStructField": _struct_field,
    "Literal": _literal,
    "Cast": _cast,
    "StaticInvoke*": _padding,
}


def _type_of(kind: Any) -> DataType | None:
    if not isinstance(kind, str):
        return None
    match = _DECIMAL.fullmatch(kind)
    return DecimalType(int(match[1]), int(match[2])) if match else _TYPES.get(kind)


def _value_of(text: str, data_type: DataType, zone: str) -> Any:
    """A literal's text as the value it was; None where that cannot be told."""
    try:
        match data_type:
            case BooleanType():
                return {"true": True, "false": False}[text]
            case ByteType() | ShortType() | IntegerType() | LongType():
                return int(text)
            case FloatType():
                return single(float(text))
            case DoubleType():
                return float(text)
            case DecimalType():
                return decimal.Decimal(text)
            case StringType():
                return text
            case DateType():
                return date_times.parse_days(text)
            case TimestampType():
                return moment_of_text(text, zone=zone)
            case TimestampNTZType():
                return int(text) if text.lstrip("-").isdigit() else date_times.parse_local_micros(text)
            case _:
                # Of a binary only its Java identity is written.
                return None
    except (ValueError, KeyError, ArithmeticError):
        return None


def _comparison(operator: Operator, left: _Term, right: _Term, zone: str) -> Predicate | None:
    if isinstance(left.value, Literal) and not isinstance(right.value, Literal):
        return _comparison(operator.mirrored, right, left, zone)
    if isinstance(left.value, Column):
        comparable = left.data_type is not None and left.data_type == right.data_type
        return Comparison(operator, left.value, right.value) if right.value is not None and comparable else None
    if not isinstance(right.value, Literal) or right.value.value is None:
        return None
    if left.name == "Substring" and operator is EQ:
        return _substring(left, right.value)
    return _on_calendar(operator, left, right.value, zone)


def _on_calendar(operator: Operator, term: _Term, literal: Literal, zone: str) -> Predicate | None:
    """`year(column)` and `CAST(column AS DATE)` against a constant."""
    inner = term.children[0] if term.name == "Year" else term
    to_date = inner.name == "Cast" and isinstance(_type_of(inner.node["dataType"]), DateType)
    subject = inner.children[0] if to_date and inner.value is None else inner
    if not isinstance(subject.value, Column) or subject.data_type is None:
        return None
    zone = str(inner.node.get("timeZoneId") or zone) if to_date else zone
    if term.name == "Year" and isinstance(literal.data_type, IntegerType):
        return year_condition(subject.value, subject.data_type, operator, literal.value, zone=zone)
    if term is inner and to_date and isinstance(literal.data_type, DateType):
        return day_condition(subject.value, subject.data_type, operator, literal.value, zone=zone)
    return None


def _substring(term: _Term, literal: Literal) -> Predicate | None:
    """The first letters of a column, compared with as many or fewer."""
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


def _membership(subject: _Term, values: Sequence[Column | Literal | None]) -> Predicate | None:
    literals = [value for value in values if isinstance(value, Literal)]
    if not isinstance(subject.value, Column) or subject.data_type is None or len(literals) != len(values):
        return None
    return In(subject.value, tuple(literals))


def _beginning(subject: _Term, prefix: _Term) -> Predicate | None:
    texts = isinstance(subject.data_type, StringType) and isinstance(prefix.data_type, StringType)
    if not isinstance(subject.value, Column) or not isinstance(prefix.value, Literal) or not texts:
        return None
    return Truth(None) if prefix.value.value is None else StartsWith(subject.value, prefix.value.value)


def _pattern(term: _Term) -> Predicate | None:
    """What of a pattern stands before its first wildcard; the rest is left to Spark."""
    pattern = term.children[1].value
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        return None
    escape = str(term.node.get("escapeChar") or "\\")
    stem = re.split(f"[%_{re.escape(escape)}]", pattern.value, maxsplit=1)[0]
    begins = _beginning(term.children[0], dataclasses.replace(term.children[1], value=Literal(stem, pattern.data_type)))
    return None if not stem or begins is None else And((begins, Unknown(term.text, term.columns, term.opaque)))


def _in_lists(sql: str) -> list[list[exp.Expression]] | None:
    """The values of every `IN` of an expression, in prefix order; None if its SQL is not understood."""
    try:
        tree = sqlglot.parse_one(sql, dialect=DIALECT, into=exp.Condition)
        return [list(node.expressions) for node in tree.find_all(exp.In, bfs=False)]
    except (SqlglotError, RecursionError):
        return None
