"""What can be told of a condition from its text alone."""

from __future__ import annotations

import dataclasses
import itertools

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from anabranch.predicates.expressions import Predicate, Unknown, conjunction
from anabranch.predicates.sql import predicate_of
from anabranch.predicates.sql_nodes import ConditionSyntaxError, holds_query, parts_of
from anabranch.predicates.sql_tokens import tokenize
from anabranch.predicates.sql_tree import parse_condition
from anabranch.spark.stopped_clock import stop_clock

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
