"""Predicates from Spark's own resolved expressions, as `Expression.toJSON()` writes them.

The text is a list of nodes in prefix order, each with its class and its number of children. Seen on Spark 4.0 to 4.3.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from typing import Any

from pyspark.sql.types import DateType, IntegerType, StringType

from anabranch.predicates.calendar_conditions import day_condition, year_condition
from anabranch.predicates.catalyst_terms import TEXT_MAX, VALUES, Term, name_of, type_of
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
from anabranch.protocol.time_zones import Zones

NESTING_MAX = 100
"""Conditions that nest deeper become `Unknown`."""

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
        nodes = json.loads(text)
        (root,) = _Reader(zones).read(nodes)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        # No supported Spark writes this. It may be any condition, also one that depends on other rows.
        return Unknown(text[:TEXT_MAX], opaque=True)
    return root.predicate


class _Reader:
    """Builds terms from the last node to the first, so that children are built before their parent."""

    def __init__(self, zones: Zones) -> None:
        self._zones = zones

    def read(self, nodes: list[dict[str, Any]]) -> list[Term]:
        terms: list[Term] = []
        for node in reversed(nodes):
            count = node["num-children"]
            if not isinstance(count, int) or not 0 <= count <= len(terms):
                raise ValueError("a node lacks its children")
            children = tuple(terms[: -count - 1 : -1])
            del terms[len(terms) - count :]
            terms.append(self._term(name_of(node), node, children))
        return terms

    def _term(self, name: str, node: dict[str, Any], children: tuple[Term, ...]) -> Term:
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
        value = VALUES.get(name)
        if value is not None:
            return value(plain)
        return dataclasses.replace(plain, condition=self._condition(plain))

    def _condition(self, term: Term) -> Predicate | None:
        name, children = term.name, term.children
        if name in _REDUNDANT:
            return TRUE
        if name == "Not":
            return Not(children[0].predicate)
        if name in ("IsNull", "IsNotNull") and isinstance(children[0].value, Column):
            return (IsNull if name == "IsNull" else IsNotNull)(children[0].value)
        if name in _OPERATORS:
            return _comparison(_OPERATORS[name], children[0], children[1], self._zones)
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
    to_date = inner.name == "Cast" and isinstance(type_of(inner.node["dataType"]), DateType)
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
    begins = _starts_with(
        term.children[0], dataclasses.replace(term.children[1], value=Literal(stem, pattern.data_type))
    )
    return None if not stem or begins is None else And((begins, Unknown(term.text, term.columns, term.opaque)))
