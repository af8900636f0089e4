"""What can be told of a condition from its text alone, and the clock in it, stopped."""

from __future__ import annotations

import dataclasses
import datetime
import zoneinfo

import sqlglot
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType

from anabranch.errors.base import DeltaError
from anabranch.predicates.expressions import Predicate, Unknown
from anabranch.predicates.sql import parse_predicate
from anabranch.predicates.sql_literals import DIALECT

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
_CLOCKS = frozenset({"current_date", "curdate", "current_timestamp", "now", "localtimestamp"})
_MAY_STAND_BARE = frozenset({"current_date", "current_timestamp", "localtimestamp"})


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
        tree = sqlglot.parse_one(frozen, dialect=DIALECT, into=exp.Condition)
    except (SqlglotError, RecursionError):
        return TextCondition(frozen=frozen, predicate=Unknown(text), repeatable=False, has_subquery=True)
    if tree.find(exp.Query, exp.Exists) is not None:
        opaque = Unknown(text, opaque=True)
        return TextCondition(frozen=frozen, predicate=opaque, repeatable=False, has_subquery=True)
    if alias is not None:
        for column in tree.find_all(exp.Column):
            if column.table.lower() == alias.lower():
                column.set("table", None)
    try:
        predicate = parse_predicate(
            tree.sql(dialect=DIALECT) if alias else frozen, schema=schema, session_time_zone=time_zone
        )
    except DeltaError:
        predicate = Unknown(text)
    return TextCondition(frozen=frozen, predicate=predicate, repeatable=_is_steady(spark, frozen), has_subquery=False)


def stop_clock(text: str, *, columns: set[str], time_zone: str, now_ms: int) -> str:
    """`text` with the time it is for every built-in function that tells it. A column of that name stays one."""
    try:
        tokens = sqlglot.tokenize(text, dialect=DIALECT)
    except SqlglotError:
        return text
    pieces: list[str] = []
    at = 0
    for place, token in enumerate(tokens):
        name = token.text.lower()
        if name not in _CLOCKS or token.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
            continue
        if place and tokens[place - 1].token_type is TokenType.DOT:
            continue
        called = _is_called(tokens, place)
        if not called and (name not in _MAY_STAND_BARE or name in columns or _follows(tokens, place, TokenType.DOT)):
            continue
        pieces += [text[at : token.start], _literal(name, time_zone, now_ms)]
        at = (tokens[place + 2] if called else token).end + 1
    return "".join([*pieces, text[at:]])


def _is_called(tokens: list[Token], place: int) -> bool:
    return _follows(tokens, place, TokenType.L_PAREN) and _follows(tokens, place + 1, TokenType.R_PAREN)


def _follows(tokens: list[Token], place: int, kind: TokenType) -> bool:
    return place + 1 < len(tokens) and tokens[place + 1].token_type is kind


def _literal(name: str, time_zone: str, now_ms: int) -> str:
    now = datetime.datetime.fromtimestamp(now_ms / 1000, zoneinfo.ZoneInfo(time_zone))
    if name in ("current_date", "curdate"):
        return f"DATE'{now:%Y-%m-%d}'"
    if name == "localtimestamp":
        return f"TIMESTAMP_NTZ'{now:%Y-%m-%d %H:%M:%S.%f}'"
    return f"TIMESTAMP'{now.astimezone(datetime.UTC):%Y-%m-%d %H:%M:%S.%f}+00:00'"


def _is_steady(spark: SparkSession, text: str) -> bool:
    """Whether every function in it is a built-in one that always answers the same."""
    tokens = sqlglot.tokenize(text, dialect=DIALECT)
    called = {
        token.text.lower()
        for place, token in enumerate(tokens)
        if _follows(tokens, place, TokenType.L_PAREN)
        and token.text
        and (token.text[0].isalpha() or token.text[0] == "_")
    }
    named = {token.text.lower() for token in tokens}
    if named & _UNSTEADY:
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
