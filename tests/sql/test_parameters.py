"""Parameters of statements: where they are, which belong to which piece, and what replaces them."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    CalendarIntervalType,
    DecimalType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from anabranch.predicates.sql_lexer import TokenKind, tokenize
from anabranch.sql.literals import literal, typed_literal
from anabranch.sql.parameters import Parameters, markers


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a = :n AND b = ?", [":n", "?"]),
        ("':n' || \"?\" || `:x` -- :y ?", []),
        ("a::INT + x:field + x[0]:field + f(1):field", []),
        ("f(:a,:b)", [":a", ":b"]),
        ("x -:n", [":n"]),
        ("a IN (?,?) /* ? */", ["?", "?"]),
    ],
)
def test_where_parameters_are(text: str, expected: list[str]) -> None:
    assert [text[marker.start : marker.end] for marker in markers(text)] == expected


def test_pieces_of_a_statement_have_their_own_parameters() -> None:
    text = "UPDATE t SET a = ?, b = f(?, '?') WHERE c = ?"
    parameters = Parameters.of([1, 2, 3])
    assert parameters.within(text, 0, 20).args == [1]
    assert parameters.within(text, 20, 36).args == [2]
    assert parameters.within(text, 36, len(text)).args == [3]
    assert parameters.within(text, 0, 5).args is None
    assert parameters.without([1]).args == [1, 3]
    assert parameters.within(text, 36, 99).followed_by(parameters.within(text, 0, 20)).args == [3, 1]
    named = Parameters.of({"n": 1})
    assert named.within(text, 0, 5).args == {"n": 1}
    assert named.without([0]).args == {"n": 1}
    assert Parameters.of(None).args is None
    assert Parameters.of([]).args is None


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (None, "NULL"),
        (True, "true"),
        (5, "5"),
        (-5, "(-5)"),
        (2**31, "2147483648L"),
        (-(2**63), "(-9223372036854775808L)"),
        (1.5, "1.5D"),
        (-1e300, "(-1e+300D)"),
        (float("nan"), "CAST('NaN' AS DOUBLE)"),
        (float("-inf"), "CAST('-Infinity' AS DOUBLE)"),
        (decimal.Decimal("-1.50"), "(-1.50BD)"),
        (decimal.Decimal("1E+3"), "1000BD"),
        ("plain text, 50%", "'plain text, 50%'"),
        ("it's", "CAST(X'69742773' AS STRING)"),
        ("${x}", "CAST(X'247b787d' AS STRING)"),
        ("é", "CAST(X'c3a9' AS STRING)"),
        (b"\x00\xff", "X'00ff'"),
        (datetime.date(24, 1, 2), "DATE'0024-01-02'"),
        (datetime.datetime(2026, 1, 2, 3, 4, 5, 6, datetime.UTC), "TIMESTAMP'2026-01-02 03:04:05.000006+00:00'"),
        (datetime.timedelta(days=-1, microseconds=1), "INTERVAL '-0 23:59:59.999999' DAY TO SECOND"),
    ],
)
def test_values_as_sql(value: Any, written: str) -> None:
    assert literal(value) == written


@pytest.mark.parametrize("value", [2**63, [1], {"a": 1}, object(), type("S", (str,), {})("x")])
def test_other_values_are_left_to_spark(value: Any) -> None:
    assert literal(value) is None


@pytest.mark.parametrize(
    ("value", "kind", "written"),
    [
        (3, ByteType(), "3Y"),
        (-3, LongType(), "(-3L)"),
        (0.5, FloatType(), "CAST(0.5D AS FLOAT)"),
        (decimal.Decimal("1.5"), DecimalType(9, 3), "CAST(1.5BD AS DECIMAL(9, 3))"),
        ([1, None], ArrayType(IntegerType()), "array(1, NULL)"),
        ({"k": [1]}, MapType(StringType(), ArrayType(IntegerType())), "map('k', array(1))"),
        (("x", 1), StructType([StructField("a'b", StringType()), StructField("n", IntegerType())]),
         "named_struct(CAST(X'612762' AS STRING), 'x', 'n', 1)"),
        (object(), CalendarIntervalType(), None),
        ([object()], ArrayType(CalendarIntervalType()), None),
    ],
)  # fmt: skip
def test_values_of_spark_types(value: Any, kind: Any, written: str | None) -> None:
    assert typed_literal(value, kind) == written


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.decimals(allow_nan=False, allow_infinity=False, places=3),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.binary(),
    st.dates(),
    st.datetimes(timezones=st.just(datetime.UTC)),
    st.timedeltas(),
)


@given(SCALARS)
def test_no_value_becomes_anything_but_a_literal(value: Any) -> None:
    """Names, comments, statements: the literal of any text is made of a few known words and one value."""
    written = literal(value)
    assert written is not None
    tokens = tokenize(f"a ={written}")[2:]
    assert "".join(token.text for token in tokens) == "".join(written.split(" ")) or "'" in written
    words = {token.word for token in tokens if token.kind is TokenKind.WORD}
    expected = {
        "CAST",
        "X",
        "AS",
        "STRING",
        "DOUBLE",
        "DATE",
        "TIMESTAMP",
        "INTERVAL",
        "DAY",
        "TO",
        "SECOND",
        "NULL",
        "TRUE",
        "FALSE",
    }
    assert words <= expected
    assert all(token.text in {"(", ")", "-"} for token in tokens if token.kind is TokenKind.SYMBOL)
    assert not any(token.kind in {TokenKind.QUOTED_NAME, TokenKind.UNFINISHED} for token in tokens)
