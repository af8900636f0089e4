"""What can be told of a Column of Spark Connect, which the client holds as the tree that it will send."""

from __future__ import annotations

import dataclasses
import datetime
import itertools
from collections.abc import Callable
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql.types import StructType

from anabranch.predicates.expressions import Predicate, Unknown, conjunction
from anabranch.predicates.sql_lexer import tokenize
from anabranch.predicates.sql_nodes import ConditionSyntaxError, holds_query, parts_of
from anabranch.predicates.sql_predicates import predicate_of
from anabranch.predicates.sql_tree import parse_condition
from anabranch.spark.conditions.repeatable_rows import stop_clock

# What can be told of a condition from its text alone.


_UNSTEADY = frozenset(
    {
        *("rand", "random", "randn", "randstr", "uniform", "uuid", "shuffle"),
        *("monotonically_increasing_id", "spark_partition_id"),
        *("input_file_name", "input_file_block_start", "input_file_block_length"),
        *("current_date", "curdate", "current_time", "current_timestamp", "now", "localtimestamp"),
        *("unix_timestamp", "to_unix_timestamp"),
        *("current_user", "user", "session_user", "current_catalog", "current_database", "current_schema"),
        *("reflect", "java_method", "try_reflect"),
    }
)
"""Built-in functions that may answer otherwise when asked again."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TextCondition:
    """A condition as text."""

    frozen: str
    """The same with constants for `current_date()` and its like, so that it means the same tomorrow."""
    predicate: Predicate
    """In logical names."""
    repeatable: bool
    has_subquery: bool


def text_condition(
    spark: SparkSession, text: str, *, schema: StructType, alias: str | None, time_zone: str, now_ms: int | None
) -> TextCondition:
    """What the words say. In doubt it is not repeatable; without `now_ms` the clock in it goes on."""
    columns = {name.lower() for name in schema.fieldNames()}
    frozen = text if now_ms is None else stop_clock(text, columns=columns, time_zone=time_zone, now_ms=now_ms)
    try:
        tree = parse_condition(frozen)
        parts = [part for part in parts_of(tree) if not holds_query(part)]
        told = [predicate_of(part, frozen, schema=schema, session_time_zone=time_zone, alias=alias) for part in parts]
    except (ConditionSyntaxError, RecursionError):
        return TextCondition(frozen=frozen, predicate=Unknown(text), repeatable=False, has_subquery=True)
    if holds_query(tree):
        # A client cannot tell whether the subquery reads this table, so that any of its rows may matter.
        predicate = conjunction([*told, Unknown(text, opaque=True)])
        return TextCondition(frozen=frozen, predicate=predicate, repeatable=False, has_subquery=True)
    return TextCondition(
        frozen=frozen, predicate=conjunction(told), repeatable=_is_steady(spark, frozen), has_subquery=False
    )


def _is_steady(spark: SparkSession, text: str) -> bool:
    """Whether every function in it is a built-in one that always answers the same."""
    tokens = tokenize(text)
    called = {
        token.name.lower()
        for token, following in itertools.pairwise(tokens)
        if token.is_name and following.is_symbol("(")
    }
    if {token.name.lower() for token in tokens if token.is_name} & _UNSTEADY:
        return False
    return called <= _NO_FUNCTIONS or called <= (_NO_FUNCTIONS | _built_in(spark))


_NO_FUNCTIONS = frozenset({"and", "or", "not", "in", "between", "like", "is", "case", "when", "then", "else", "cast"})
"""Words before a parenthesis that call nothing."""


def is_steady_function(spark: SparkSession, name: str) -> bool:
    """Whether it is a built-in function that always answers the same."""
    return name not in _UNSTEADY and name in _built_in(spark)


_known: dict[str, frozenset[str]] = {}


def _built_in(spark: SparkSession) -> frozenset[str]:
    """Names of the functions that Spark itself brings; they are the same for all sessions of one version."""
    version = spark.version
    if version not in _known:
        _known[version] = frozenset(row[0].lower() for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect())
    return _known[version]


_INFIX = {"==": "=", "<=>": "<=>", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "and": "AND", "or": "OR"}
_SYMBOLS = frozenset({*_INFIX, "not", "!", "+", "-", "*", "/", "%", "&", "|", "^", "~", "negative", "in", "when"})
"""Functions that Spark does not list by name."""
_EPOCH = datetime.date(1970, 1, 1)


class _NotWordsError(Exception):
    """It has no simple text."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ColumnCondition:
    """A condition as a tree."""

    text: str | None
    """SQL of the same meaning; None where that is not simple."""
    repeatable: bool
    """Whether it tells the same of the same row, asked again; in doubt not."""
    has_subquery: bool


def column_condition(spark: SparkSession, column: Column, *, is_steady_text: Callable[[str], bool]) -> ColumnCondition:
    """What the tree says. `is_steady_text` judges pieces of SQL in it."""
    session: Any = spark
    unsent: Any = column
    tree = unsent.to_plan(session.client)
    try:
        text: str | None = _text(tree)
    except _NotWordsError:
        text = None
    return ColumnCondition(
        text=text,
        repeatable=_is_steady_tree(spark, tree, is_steady_text),
        has_subquery="subquery_expression" in str(tree),
    )


def _text(node: Any) -> str:
    kind = node.WhichOneof("expr_type")
    if kind == "unresolved_attribute":
        return str(node.unresolved_attribute.unparsed_identifier)
    if kind == "expression_string":
        return f"({node.expression_string.expression})"
    if kind == "literal":
        return _literal(node.literal)
    if kind != "unresolved_function":
        raise _NotWordsError
    name = node.unresolved_function.function_name
    given = [_text(argument) for argument in node.unresolved_function.arguments]
    if name in _INFIX and len(given) == 2:
        return f"({given[0]} {_INFIX[name]} {given[1]})"
    if name in ("not", "!"):
        return f"(NOT {given[0]})"
    if name.lower() in ("isnull", "isnotnull"):
        return f"({given[0]} IS {'NOT ' if name.lower() == 'isnotnull' else ''}NULL)"
    if name == "in":
        return f"({given[0]} IN ({', '.join(given[1:])}))"
    raise _NotWordsError


def _literal(literal: Any) -> str:
    kind = literal.WhichOneof("literal_type")
    value = getattr(literal, kind) if kind is not None else None
    if kind == "boolean":
        return "TRUE" if value else "FALSE"
    if kind in ("byte", "short", "integer", "long"):
        return str(value)
    if kind == "date":
        return f"DATE'{_EPOCH + datetime.timedelta(days=int(value or 0)):%Y-%m-%d}'"
    if kind == "string" and isinstance(value, str) and not {"'", "\\"} & set(value):
        return f"'{value}'"
    raise _NotWordsError


def _is_steady_tree(spark: SparkSession, node: Any, is_steady_text: Callable[[str], bool]) -> bool:
    kind = node.WhichOneof("expr_type")
    if kind in ("literal", "unresolved_attribute", "unresolved_named_lambda_variable"):
        return True
    if kind == "expression_string":
        return is_steady_text(node.expression_string.expression)
    children: list[Any]
    if kind == "unresolved_function":
        function = node.unresolved_function
        name = function.function_name.lower()
        if function.is_user_defined_function or not (name in _SYMBOLS or is_steady_function(spark, name)):
            return False
        children = list(function.arguments)
    elif kind == "common_inline_user_defined_function":
        if not node.common_inline_user_defined_function.deterministic:
            return False
        children = list(node.common_inline_user_defined_function.arguments)
    elif kind in ("alias", "cast"):
        children = [getattr(node, kind).expr]
    elif kind == "unresolved_extract_value":
        children = [node.unresolved_extract_value.child, node.unresolved_extract_value.extraction]
    elif kind == "lambda_function":
        children = [node.lambda_function.function]
    else:
        return False
    return all(_is_steady_tree(spark, child, is_steady_text) for child in children)
