"""What can be told of a Column of Spark Connect, which the client holds as the tree that it will send."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable
from typing import Any

from pyspark.sql import Column, SparkSession

from anabranch.spark.unresolved.condition_text import is_steady_function

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
        repeatable=_is_steady(spark, tree, is_steady_text),
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


def _is_steady(spark: SparkSession, node: Any, is_steady_text: Callable[[str], bool]) -> bool:
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
    return all(_is_steady(spark, child, is_steady_text) for child in children)
