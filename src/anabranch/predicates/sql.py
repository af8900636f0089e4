"""Predicates from SQL text, as a user writes them in `replaceWhere` or on the command line."""

from __future__ import annotations

import sqlglot
from pyspark.sql.types import BooleanType, DataType, DateType, IntegralType, StringType, StructType
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from anabranch.errors.predicates import PredicateSyntaxError
from anabranch.predicates.calendar_ranges import day_condition, year_condition
from anabranch.predicates.coercion import coerced
from anabranch.predicates.expressions import (
    EQ,
    EQ_NULL_SAFE,
    GE,
    GT,
    LE,
    LT,
    NE,
    And,
    Column,
    ColumnPath,
    Comparison,
    In,
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
from anabranch.predicates.sql_columns import find_path, has_plain_order
from anabranch.predicates.sql_literals import DIALECT, literal_of

TEXT_CHARACTERS_MAX = 1 << 20
NESTING_MAX = 100
_UNKNOWN_TEXT_MAX = 500

_OPERATORS: dict[type[exp.Expression], Operator] = {
    exp.EQ: EQ,
    exp.NEQ: NE,
    exp.LT: LT,
    exp.LTE: LE,
    exp.GT: GT,
    exp.GTE: GE,
    exp.NullSafeEQ: EQ_NULL_SAFE,
}
_OPAQUE = (
    exp.Query,
    exp.Anonymous,
    exp.Rand,
    exp.Randn,
    exp.Uuid,
    exp.CurrentDate,
    exp.CurrentTimestamp,
    exp.CurrentTime,
    exp.Window,
    exp.AggFunc,
)
"""What is no function of the row alone, or, being a function that sqlglot does not know, may be none."""


def parse_predicate(text: str, *, schema: StructType | None = None, session_time_zone: str = "UTC") -> Predicate:
    """The condition in logical names, spelled as in `schema`; what is not understood becomes `Unknown`.

    With the schema, literals get the types of the columns they are compared with, as Spark would; without it they keep
    their own. Raises `PredicateSyntaxError`.
    """
    if len(text) > TEXT_CHARACTERS_MAX:
        raise _syntax_error(text, f"it is longer than {TEXT_CHARACTERS_MAX} characters")
    if _nesting(text) > NESTING_MAX:
        raise _syntax_error(text, f"its parentheses nest deeper than {NESTING_MAX} levels")
    try:
        tree = sqlglot.parse_one(text, dialect=DIALECT, into=exp.Condition)
        return _Reader(schema, session_time_zone, escapes="\\" in text).predicate(tree)
    except ParseError as error:
        first = error.errors[0] if error.errors else {}
        raise PredicateSyntaxError(
            text=text, line=first.get("line") or 1, column=first.get("col") or 1, reason=_reason(first)
        ) from None
    except SqlglotError:
        raise _syntax_error(text, "a string, a comment or a character in it does not end") from None
    except RecursionError:
        raise _syntax_error(text, "it nests too deeply") from None


def _syntax_error(text: str, reason: str) -> PredicateSyntaxError:
    return PredicateSyntaxError(text=text, line=1, column=1, reason=reason)


def _reason(found: dict[str, object]) -> str:
    near = str(found.get("highlight") or "").strip()
    return f"a condition does not go on like this at {near!r}" if near else "the condition is not complete"


def _nesting(text: str) -> int:
    depth = deepest = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        deepest = max(deepest, depth)
    return deepest


class _Reader:
    """Turns sqlglot's tree into ours, node by node."""

    def __init__(self, schema: StructType | None, zone: str, *, escapes: bool) -> None:
        self._schema = schema
        self._zone = zone
        self._escapes = escapes

    def predicate(self, node: exp.Expression) -> Predicate:
        # A node with arguments beyond those read here says something that this would lose.
        if isinstance(node, exp.Paren):
            return self.predicate(node.this)
        if type(node) is exp.And:
            return conjunction(self.predicate(operand) for operand in node.flatten())
        if type(node) is exp.Or:
            return disjunction(self.predicate(operand) for operand in node.flatten())
        if type(node) is exp.Not:
            return Not(self.predicate(node.this))
        if isinstance(node, exp.Boolean | exp.Null):
            return Truth(None if isinstance(node, exp.Null) else bool(node.this))
        return self._condition(node) or self._unknown(node)

    def _condition(self, node: exp.Expression) -> Predicate | None:
        """A condition on columns; None if it is not understood."""
        if type(node) in _OPERATORS and _says_only(node, "this", "expression"):
            return self._comparison(_OPERATORS[type(node)], node.this, node.expression)
        if type(node) is exp.NullSafeNEQ and _says_only(node, "this", "expression"):
            same = self._comparison(EQ_NULL_SAFE, node.this, node.expression)
            return None if same is None else Not(same)
        if type(node) is exp.Is and _says_only(node, "this", "expression"):
            return self._identity(node)
        if type(node) is exp.Between and _says_only(node, "this", "low", "high"):
            low = self._comparison(GE, node.this, node.args["low"])
            high = self._comparison(LE, node.this, node.args["high"])
            return None if low is None or high is None else And((low, high))
        if type(node) is exp.In and _says_only(node, "this", "expressions"):
            return self._membership(node)
        if type(node) is exp.StartsWith and _says_only(node, "this", "expression"):
            return self._beginning(node.this, node.expression)
        if type(node) is exp.Like:
            return self._pattern(node)
        column = self._column(node)
        if column is not None and isinstance(self._type(column), BooleanType):
            return Comparison(EQ, column, Literal(True, BooleanType()))
        return None

    def _comparison(self, operator: Operator, left: exp.Expression, right: exp.Expression) -> Predicate | None:
        column, other = self._column(left), self._column(right)
        literal, first = self._literal(right), self._literal(left)
        if first is not None:
            return _folded(operator, first, literal) if literal else self._comparison(operator.mirrored, right, left)
        if column is None:
            return self._on_calendar(operator, left, literal)
        if other is not None:
            same = self._type(column) == self._type(other) is not None and has_plain_order(self._type(column))
            return Comparison(operator, column, other) if same else None
        fitting = None if literal is None else self._fitting(literal, column)
        return None if fitting is None else Comparison(operator, column, fitting)

    def _on_calendar(self, operator: Operator, node: exp.Expression, literal: Literal | None) -> Predicate | None:
        """`year(column)` and `CAST(column AS DATE)` against a constant."""
        if literal is None or self._schema is None:
            return None
        function = node.this if isinstance(node, exp.Year) else node
        inner = function.this if isinstance(function, exp.TsOrDsToDate | exp.Cast) else function
        column = self._column(inner) if isinstance(inner, exp.Expression) else None
        data_type = None if column is None else self._type(column)
        if column is None or data_type is None:
            return None
        if isinstance(node, exp.Year) and isinstance(literal.data_type, IntegralType) and literal.value is not None:
            return year_condition(column, data_type, operator, literal.value, zone=self._zone)
        if type(node) is exp.Cast and node.args["to"].this is exp.DataType.Type.DATE:
            day = coerced(literal, DateType(), zone=self._zone)
            if day is not None and day.value is not None:
                return day_condition(column, data_type, operator, day.value, zone=self._zone)
        return None

    def _identity(self, node: exp.Expression) -> Predicate | None:
        column = self._column(node.this)
        if column is None:
            return None
        if isinstance(node.expression, exp.Null):
            return IsNull(column)
        if isinstance(node.expression, exp.Boolean):
            return Comparison(EQ_NULL_SAFE, column, Literal(bool(node.expression.this), BooleanType()))
        return None

    def _membership(self, node: exp.Expression) -> Predicate | None:
        column = self._column(node.this)
        if column is None:
            return None
        found = [self._literal(value) for value in node.expressions]
        fitting = [None if literal is None else self._fitting(literal, column) for literal in found]
        # Spark brings all values to one type before it compares; only with one kind of them is that no matter. Text may
        # win over other types then.
        kinds = {literal.data_type.typeName() for literal in found if literal is not None and literal.value is not None}
        data_type = self._type(column)
        if "string" in kinds and not isinstance(data_type, StringType | IntegralType | DateType | None):
            return None
        if None in fitting or (len(kinds) > 1 and not kinds <= {"byte", "short", "integer", "long"}):
            return None
        return In(column, tuple(literal for literal in fitting if literal is not None))

    def _beginning(self, subject: exp.Expression, prefix: exp.Expression) -> Predicate | None:
        column, literal = self._column(subject), self._literal(prefix)
        if column is None or literal is None or not self._is_text(column) or not isinstance(literal.value, str):
            return None
        return StartsWith(column, literal.value)

    def _pattern(self, node: exp.Expression) -> Predicate | None:
        column, literal = self._column(node.this), self._literal(node.expression)
        if column is None or literal is None or not self._is_text(column) or not isinstance(literal.value, str):
            return None
        if not _says_only(node, "this", "expression", "negate"):
            return None
        pattern = literal.value
        stem = pattern.split("%", 1)[0].split("_", 1)[0]
        if stem == pattern:
            like: Predicate = Comparison(EQ, column, literal)
        elif stem + "%" == pattern:
            like = StartsWith(column, stem)
        else:
            like = And((StartsWith(column, stem), self._unknown(node)))
            # The unknown part is that of the pattern as such, so a negation goes around both.
        return Not(like) if node.args.get("negate") else like

    def _column(self, node: exp.Expression) -> Column | None:
        path = _path_of(node)
        if path is None:
            return None
        if self._schema is None:
            return Column(path)
        # A table's alias may stand in front.
        found = find_path(self._schema, path) or (find_path(self._schema, path[1:]) if len(path) > 1 else None)
        return Column(found) if found else None

    def _type(self, column: Column) -> DataType | None:
        below: DataType | None = self._schema
        for part in column.path:
            below = below[part].dataType if isinstance(below, StructType) else None
        return below

    def _is_text(self, column: Column) -> bool:
        data_type = self._type(column)
        return data_type is None or (isinstance(data_type, StringType) and has_plain_order(data_type))

    def _literal(self, node: exp.Expression) -> Literal | None:
        return literal_of(node, zone=self._zone, escapes=self._escapes)

    def _fitting(self, literal: Literal, column: Column) -> Literal | None:
        """The literal in the type of the column, as far as that is known."""
        data_type = self._type(column)
        if data_type is None:
            return literal
        return coerced(literal, data_type, zone=self._zone) if has_plain_order(data_type) else None

    def _unknown(self, node: exp.Expression) -> Unknown:
        text = node.sql(dialect=DIALECT, comments=False)
        columns = dict.fromkeys(found for each in node.find_all(exp.Column) if (found := self._column(each)))
        opaque = any(isinstance(each, _OPAQUE) for each in node.walk())
        return Unknown(text[:_UNKNOWN_TEXT_MAX], tuple(columns), opaque)


def _folded(operator: Operator, left: Literal, right: Literal) -> Predicate | None:
    """`1 = 1` and the like, which people write to have something to add to."""
    same_kind = isinstance(left.data_type, IntegralType) and isinstance(right.data_type, IntegralType)
    return Truth((left.value == right.value) is (operator is EQ)) if same_kind and operator in (EQ, NE) else None


def _says_only(node: exp.Expression, *known: str) -> bool:
    return all(name in known or not value for name, value in node.args.items())


def _path_of(node: exp.Expression) -> ColumnPath | None:
    """The names of `a.b.c`; None for anything else."""
    if isinstance(node, exp.Column):
        return (
            tuple(part.name for part in node.parts) if all(isinstance(p, exp.Identifier) for p in node.parts) else None
        )
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        above = _path_of(node.this)
        return None if above is None else (*above, node.expression.name)
    return None
