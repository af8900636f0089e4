"""Predicates from SQL text, as a user writes them in `replaceWhere` or on the command line."""

from __future__ import annotations

from pyspark.sql.types import BooleanType, DataType, DateType, IntegralType, StringType, StructType

from anabranch.errors.arguments import PredicateSyntaxError
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
from anabranch.predicates.normalization import coerced, day_condition, year_condition
from anabranch.predicates.sql_lexer import TokenKind
from anabranch.predicates.sql_literals import literal_of
from anabranch.predicates.sql_nodes import (
    Call,
    Cast,
    ConditionSyntaxError,
    Constant,
    Name,
    Node,
    Operation,
    Query,
    names_in,
)
from anabranch.predicates.sql_tree import parse_condition
from anabranch.predicates.stored_sql_words import FUNCTIONS

# Which column of a schema a name in SQL text means.


def find_path(schema: StructType, path: ColumnPath) -> ColumnPath | None:
    """The path in the schema's own spelling."""
    found: list[str] = []
    below: DataType = schema
    for part in path:
        if not isinstance(below, StructType):
            return None
        names = [name for name in below.names if name == part] or [
            name for name in below.names if name.casefold() == part.casefold()
        ]
        if len(names) != 1:
            return None
        found.append(names[0])
        below = below[names[0]].dataType
    return tuple(found)


def has_plain_order(data_type: DataType | None) -> bool:
    """Whether values are compared as such; text with a collation is not."""
    return not isinstance(data_type, StringType) or getattr(data_type, "collation", "UTF8_BINARY") == "UTF8_BINARY"


TEXT_CHARACTERS_MAX = 1 << 20
_UNKNOWN_TEXT_MAX = 500

_OPERATORS: dict[str, Operator] = {
    "=": EQ,
    "<>": NE,
    "<": LT,
    "<=": LE,
    ">": GT,
    ">=": GE,
    "<=>": EQ_NULL_SAFE,
}
_STEADY = FUNCTIONS - {
    *("current_date", "curdate", "current_timestamp", "localtimestamp", "now", "unix_timestamp", "to_unix_timestamp"),
}
"""Functions of the row alone."""
_BARE_FUNCTIONS = frozenset(
    {
        *("current_date", "current_time", "current_timestamp", "localtimestamp"),
        *("current_user", "user", "session_user", "current_catalog", "current_database", "current_schema"),
    }
)
"""May stand without parentheses, where no column is called so."""


def parse_predicate(
    text: str, *, schema: StructType | None = None, session_time_zone: str = "UTC", alias: str | None = None
) -> Predicate:
    """The condition in logical names, spelled as in `schema`; what is not understood becomes `Unknown`.

    With the schema, literals get the types of the columns they are compared with, as Spark would; without it they keep
    their own. `alias` is what the condition may call the table. Raises `PredicateSyntaxError`.
    """
    if len(text) > TEXT_CHARACTERS_MAX:
        raise PredicateSyntaxError(
            text=text, line=1, column=1, reason=f"it is longer than {TEXT_CHARACTERS_MAX} characters"
        )
    try:
        return predicate_of(
            parse_condition(text), text, schema=schema, session_time_zone=session_time_zone, alias=alias
        )
    except ConditionSyntaxError as error:
        before = text[: error.at]
        column = error.at - (before.rfind("\n") + 1) + 1
        raise PredicateSyntaxError(text=text, line=before.count("\n") + 1, column=column, reason=str(error)) from None
    except RecursionError:
        raise PredicateSyntaxError(text=text, line=1, column=1, reason="it nests too deeply") from None


def predicate_of(
    tree: Node, text: str, *, schema: StructType | None, session_time_zone: str, alias: str | None = None
) -> Predicate:
    """As `parse_predicate`, for a tree of `text`."""
    return _Reader(text, schema, session_time_zone, alias).predicate(tree)


class _Reader:
    """Turns the tree of the text into a predicate, node by node."""

    def __init__(self, text: str, schema: StructType | None, zone: str, alias: str | None) -> None:
        self._text = text
        self._schema = schema
        self._zone = zone
        self._alias = None if alias is None else alias.casefold()

    def predicate(self, node: Node) -> Predicate:
        if isinstance(node, Operation):
            if node.operator == "AND":
                return conjunction(map(self.predicate, node.operands))
            if node.operator == "OR":
                return disjunction(map(self.predicate, node.operands))
            if node.operator == "NOT":
                return Not(self.predicate(node.operands[0]))
        if isinstance(node, Constant) and node.tokens[0].kind is TokenKind.WORD:
            return Truth({"NULL": None, "TRUE": True, "FALSE": False}[node.tokens[0].word])
        return self._condition(node) or self._unknown(node)

    def _condition(self, node: Node) -> Predicate | None:
        """A condition on columns; None if it is not understood."""
        if isinstance(node, Operation):
            return self._operation(node)
        if isinstance(node, Call) and node.is_plain and _is_function(node, "startswith", arguments=2):
            return self._beginning(*node.operands)
        column = self._column(node)
        if column is not None and isinstance(self._type(column), BooleanType):
            return Comparison(EQ, column, Literal(True, BooleanType()))
        return None

    def _operation(self, node: Operation) -> Predicate | None:
        subject, *others = node.operands
        if node.operator in _OPERATORS:
            return self._comparison(_OPERATORS[node.operator], subject, others[0])
        if node.operator.startswith("IS "):
            return self._identity(subject, node.operator.removeprefix("IS "))
        if node.operator == "BETWEEN":
            low = self._comparison(GE, subject, others[0])
            high = self._comparison(LE, subject, others[1])
            return None if low is None or high is None else And((low, high))
        if node.operator == "IN":
            return self._membership(subject, others)
        return self._pattern(node, subject, others[0]) if node.operator == "LIKE" else None

    def _comparison(self, operator: Operator, left: Node, right: Node) -> Predicate | None:
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

    def _on_calendar(self, operator: Operator, node: Node, literal: Literal | None) -> Predicate | None:
        """`year(column)` and `CAST(column AS DATE)` against a constant."""
        if literal is None or self._schema is None:
            return None
        is_year = _is_function(node, "year", arguments=1)
        inner = node.operands[0] if is_year else node
        to_date = _to_date(inner)
        column = self._column(inner if to_date is None else to_date)
        data_type = None if column is None else self._type(column)
        if column is None or data_type is None:
            return None
        if is_year and isinstance(literal.data_type, IntegralType) and literal.value is not None:
            return year_condition(column, data_type, operator, literal.value, zone=self._zone)
        if not is_year and to_date is not None:
            day = coerced(literal, DateType(), zone=self._zone)
            if day is not None and day.value is not None:
                return day_condition(column, data_type, operator, day.value, zone=self._zone)
        return None

    def _identity(self, subject: Node, what: str) -> Predicate | None:
        column = self._column(subject)
        if column is None:
            return None
        if what == "NULL":
            return IsNull(column)
        if what in {"TRUE", "FALSE"}:
            return Comparison(EQ_NULL_SAFE, column, Literal(what == "TRUE", BooleanType()))
        return None

    def _membership(self, subject: Node, values: list[Node]) -> Predicate | None:
        column = self._column(subject)
        if column is None:
            return None
        found = [self._literal(value) for value in values]
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

    def _beginning(self, subject: Node, prefix: Node) -> Predicate | None:
        column, literal = self._column(subject), self._literal(prefix)
        if column is None or literal is None or not self._is_text(column) or not isinstance(literal.value, str):
            return None
        return StartsWith(column, literal.value)

    def _pattern(self, node: Node, subject: Node, written: Node) -> Predicate | None:
        column, literal = self._column(subject), self._literal(written)
        if column is None or literal is None or not self._is_text(column) or not isinstance(literal.value, str):
            return None
        pattern = literal.value
        stem = pattern.split("%", 1)[0].split("_", 1)[0]
        if stem == pattern:
            return Comparison(EQ, column, literal)
        if stem + "%" == pattern:
            return StartsWith(column, stem)
        return And((StartsWith(column, stem), self._unknown(node)))

    def _column(self, node: Node) -> Column | None:
        if not isinstance(node, Name):
            return None
        path = node.parts
        if self._schema is None:
            is_function = len(path) == 1 and not node.is_quoted and path[0].lower() in _BARE_FUNCTIONS
            return None if is_function else Column(path)
        below = find_path(self._schema, path[1:]) if len(path) > 1 else None
        if below is not None and path[0].casefold() == self._alias:
            return Column(below)
        # Some other name of the table may stand in front.
        found = find_path(self._schema, path) or below
        return Column(found) if found else None

    def _type(self, column: Column) -> DataType | None:
        below: DataType | None = self._schema
        for part in column.path:
            below = below[part].dataType if isinstance(below, StructType) else None
        return below

    def _is_text(self, column: Column) -> bool:
        data_type = self._type(column)
        return data_type is None or (isinstance(data_type, StringType) and has_plain_order(data_type))

    def _literal(self, node: Node) -> Literal | None:
        return literal_of(node, zone=self._zone)

    def _fitting(self, literal: Literal, column: Column) -> Literal | None:
        """The literal in the type of the column, as far as that is known."""
        data_type = self._type(column)
        if data_type is None:
            return literal
        return coerced(literal, data_type, zone=self._zone) if has_plain_order(data_type) else None

    def _unknown(self, node: Node) -> Unknown:
        columns = dict.fromkeys(found for each in names_in(node) if (found := self._column(each)) is not None)
        opaque = any(self._asks_more(each) for each in node.walk())
        return Unknown(self._text[node.start : node.end][:_UNKNOWN_TEXT_MAX], tuple(columns), opaque)

    def _asks_more(self, node: Node) -> bool:
        """Whether it is no function of the row alone, or, being one that is not known here, may be none."""
        if isinstance(node, Call):
            return not node.is_plain or len(node.name) > 1 or node.name[0].lower() not in _STEADY
        if isinstance(node, Name) and len(node.parts) == 1 and not node.is_quoted:
            return node.parts[0].lower() in _BARE_FUNCTIONS and self._column(node) is None
        return isinstance(node, Query)


def _is_function(node: Node, name: str, *, arguments: int) -> bool:
    is_called = isinstance(node, Call) and node.is_plain and [part.lower() for part in node.name] == [name]
    return is_called and len(node.operands) == arguments


def _to_date(node: Node) -> Node | None:
    """What is made a date by a cast; None where none is."""
    if isinstance(node, Cast) and node.data_type.upper() == "DATE" and not node.tries:
        return node.operands[0]
    is_call = _is_function(node, "date", arguments=1) or _is_function(node, "to_date", arguments=1)
    return node.operands[0] if is_call else None


def _folded(operator: Operator, left: Literal, right: Literal) -> Predicate | None:
    """`1 = 1` and the like, which people write to have something to add to."""
    same_kind = isinstance(left.data_type, IntegralType) and isinstance(right.data_type, IntegralType)
    return Truth((left.value == right.value) is (operator is EQ)) if same_kind and operator in (EQ, NE) else None
