"""SQL from a table's metadata: what is run, and that nothing else ever is. Covers attack A6."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DateType,
    DecimalType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from anabranch.errors.constraints import UntrustedExpressionError
from anabranch.predicates.stored_sql import StoredExpression, read_stored_sql
from anabranch.predicates.stored_sql_words import FUNCTIONS, OPERATORS

INT, TEXT = IntegerType(), StringType()
SCHEMA = StructType(
    [
        StructField("a", INT),
        StructField("b", TEXT),
        StructField("s", StructType([StructField("x", INT), StructField("y z", TEXT)])),
        StructField("arr", ArrayType(StructType([StructField("k", INT)]))),
        StructField("m", MapType(TEXT, INT)),
        StructField("d", DateType()),
        StructField("ts", TimestampType()),
        StructField("n", DecimalType(10, 2)),
        StructField("odd `name`", INT),
        StructField("end", INT),
        StructField("day", INT),
        StructField("order", INT),
        StructField("current_user", TEXT),
        StructField("${env:PATH}", TEXT),
        StructField("v", VariantType()),
    ]
)

HARMLESS = [
    ("a > 0", ["a"]),
    ("A>0 AND b IS NOT NULL OR NOT (a <> 1)", ["a", "b"]),
    ("s.x = 1 and s.`y z` like 'a%' escape '!'", ["s.x", "s.y z"]),
    ("`odd ``name```  between 1 and 2", ["odd `name`"]),
    ("variant_get(v, '$.a', 'int') > 0 OR is_variant_null(try_parse_json(b))", ["v", "b"]),
    ("case when a>1 then 'x' else 'y' end = b", ["a", "b"]),
    ("case a when 1 then `end` > 2 end", ["a", "end"]),
    ("end > `order` + day", ["end", "order", "day"]),
    ("cast(a as decimal(10,2)) > 1.5BD", ["a"]),
    ("a::bigint = 1L and a % 2 = 1 and -a < +1 and ~a < 3", ["a"]),
    ("cast(ts as date) = d", ["ts", "d"]),
    ("year(d) = 2024 and extract(month from ts) = 2", ["d", "ts"]),
    ("substring(b from 1 for 2)='x'", ["b"]),
    ("trim(both 'x' from b) = trim(b)", ["b"]),
    ("overlay(b placing 'q' from 1 for 1) = 'q'", ["b"]),
    ("exists(arr, x -> x.k > 0)", ["arr"]),
    ("aggregate(arr, 0, (acc, x) -> acc + x.k) > 1", ["arr"]),
    ("m['k'] > 1 and arr[0].k is null", ["m", "arr"]),
    ("d > date'2020-01-01' and ts > timestamp '2020-01-01 00:00:00'", ["d", "ts"]),
    ("ts > timestamp'2024-01-01 00:00:00' - interval 1 day 2 hours", ["ts"]),
    ("ts > timestamp'2024-01-01 00:00:00' - interval '1-2' year to month", ["ts"]),
    ("b in ('it''s', \"dq's\", r'raw\\d', 'a\\'b', \"q\\\"q\")", ["b"]),
    ("b rlike '^\\\\w+$' and b not in ('/*', '--', ';') -- a comment", ["b"]),
    ("a /* between /* two */ signs */ = 1", ["a"]),
    ("timestampadd(DAY, 1, ts) > ts and datediff(d, d) = 0", ["ts", "d"]),
    ("b like any ('a', 'b%') or b ilike 'X%'", ["b"]),
    ("a is distinct from 1 and a is not null and (a <=> day) is not true", ["a", "day"]),
    ("cast(s as struct<x: bigint, `y z`: string>).x = 1", ["s"]),
    ("cast(array(map('k', a)) as array<map<string, bigint>>) is null", ["a"]),
    ("x'ff' = cast(b as binary)", ["b"]),
    ("current_user = 'me'", ["current_user"]),
    ("if(a > 1, true, false) and coalesce(nullif(a, 1), 2) = 2", ["a"]),
    ("n * 1.10 > round(n, 1) and n div 2 = 3 and a & 1 | 2 ^ 3 > 0", ["n", "a"]),
    ("a > 1e2 and a < .5D and !(a == 3)", ["a"]),
    ("lpad(b, 10, '0') = rpad(b, 10)", ["b"]),
    ("format_string('%05d-%s', a, b) = 'x' or printf('%1$s', b) = b", ["a", "b"]),
    ("format_number(a, 2) = format_number(a, '#,##0.00')", ["a"]),
    ("replace(replace(lower(b), ' ', ''), '-', '') = b", ["b"]),
    ("regexp_replace(trim(b), '[^0-9]', '') rlike '^[0-9]{3,12}$'", ["b"]),
    ("b rlike r'^[A-Za-z0-9._%+-]+@([A-Za-z0-9-]+\\.)+[A-Za-z]{2,}$'", ["b"]),
    ("b rlike '^(foo|bar)+$' and b rlike r'^(\\d{3}-)?\\d{4}$' and b rlike '^(a|ab|abc)$'", ["b"]),
    ("b regexp '^(https?)://[^/]+(/[^/]*)*$'", ["b"]),
    ("aggregate(arr, 0, (acc, x) -> greatest(acc, x.k)) > 1", ["arr"]),
    ("substring_index(b, '@', 1) = split(b, '@')[0]", ["b"]),
    ("sha2(hex(md5(b)), 256) = b", ["b"]),
    ("concat_ws('-', b, string(a)) || 'x' = lower(b)", ["b", "a"]),
]

ATTACKS = [
    "reflect('java.lang.System', 'exit', 0)",
    "REFLECT ('java.lang.System', 'exit', 0) is null",
    "java_method('java.lang.Runtime', 'getRuntime')",
    "try_reflect('a', 'b')",
    "`reflect`('a', 'b')",
    "\"reflect\"('a')",
    "'reflect'('a')",
    "a + reflect/**/('a', 'b')",
    "reflect--\n('a', 'b')",
    "(reflect)('a')",
    "b <> '${env:PATH}'",
    'b <> "${system:user.home}"',
    "b like r'${spark.master}'",
    "`${env:PATH}` is null",
    "b = '${a' and b = 'x}'",
    "if(true, reflect('a', 'b'), 1)",
    "transform(arr, x -> reflect('a', 'b'))",
    "cast(reflect('a', 'b') as int)",
    "m[reflect('a', 'b')]",
    "a in (select 1)",
    "a in (SELECT/**/1)",
    "exists(select 1 from t)",
    "(select max(a) from t) > 1",
    "(map a using 'sh')",
    "(reduce a using 'sh')",
    "(from t select 1)",
    "(values (1))",
    "(table t)",
    "(with x as (select 1) select 1)",
    "extract(day from t select 1)",
    "sum(a) > 1",
    "count(*) > 1",
    "a > any (select 1)",
    "row_number() over (order by a)",
    "lag(a) over (order by a) > 1",
    "sum(a) filter (where a > 1)",
    "rand() > 0",
    "uuid() = b",
    "monotonically_increasing_id() > 1",
    "input_file_name() = 'x'",
    "current_user() = 'x'",
    "session_user = 'x'",
    "spark_catalog.default.f(a)",
    "default.f(a)",
    "a.reflect('x')",
    "s.x('y')",
    "(s).x('y')",
    "identifier('reflect')('a')",
    "read_files('x')",
    "ai_query('x')",
    "from_avro(b, 'x')",
    "raise_error('x')",
    "assert_true(false)",
    "xpath(b, 'x')",
    "sequence(1, 1000000000)",
    "array_repeat(1, 1000000000)",
    "lpad(b, 1000000000, 'x') = b",
    "rpad(b, 1000000000) = b",
    "lpad(b, 1e9, 'x') = b",
    "lpad(b, a, 'x') = b",
    "lpad(b, 1000 * 1000 * 1000, 'x') = b",
    "lpad(b, (1000000000), 'x') = b",
    "format_string('%900000000d', a) = b",
    "format_string('%' '900000000d', a) = b",
    "format_string('\\u0025900000000d', a) = b",
    "format_string(b, a) = b",
    "printf('%.900000000f', 1.5D) = b",
    "format_number(a, 900000000) = b",
    "array_insert(arr, 1000000000, null) is null",
    "array_insert(arr, -1000000000, null) is null",
    "replace(replace(replace(replace(replace(b, 'a', 'aaaaaaaaaa'), 'a', 'aaaaaaaaaa'), 'a', 'aaaaaaaaaa'), 'a', 'aaaaaaaaaa'), 'a', 'aaaaaaaaaa') = b",
    f"replace('{'a' * 20_000}', 'a', '{'b' * 20_000}') = b",
    "hex(" * 40 + "b" + ")" * 40 + " = b",
    "base64(" * 90 + "b" + ")" * 90 + " = b",
    "regexp_replace(" * 5 + "b" + ", '.', 'aaaaaaaaaa')" * 5 + " = b",
    f"aggregate(array({', '.join('1' * 60)}), 'a', (acc, x) -> concat(acc, acc)) = b",
    f"reduce(array({', '.join('1' * 60)}), 'a', (acc, x) -> acc || acc) = b",
    f"aggregate(array({', '.join('1' * 60)}), array(1), (acc, x) -> flatten(array(acc, acc))) is null",
    "size(" + "flatten(transform(" * 8 + "array(1,2,3,4,5,6,7,8)" + ", x -> array(x,x,x,x,x,x,x,x)))" * 8 + ") > 1",
    "b rlike '(a|a)+$'",
    "b rlike '(a+)+$'",
    "b regexp '^(a*)*$'",
    "regexp_like(b, '(x+x+)+y')",
    "regexp_replace(b, '(.*,)+;', '')",
    "split(b, '(a|ab)+c')[0] = 'x'",
    "b rlike '^(([a-z])+.)+[A-Z]([a-z])+$'",
    "b rlike '(a{1,1000}){1,1000}'",
    "b rlike '(\\u0061|a)+$'",
    "b rlike '(a' '|a)+$'",
    "b rlike concat('(a', '|a)+$')",
    "b rlike b",
    "regexp_extract(b, b) = b",
    "b rlike ('(a|a)+$')",
    "a > ?",
    "a > :p",
    "a => 1",
    "struct(*) is null",
    "a; drop table t",
    "a) or (1 = 1",
    "((a)",
    "'unterminated",
    "`unterminated",
    "a /* unterminated",
    "{fn x}",
    "a @ b",
    "$x",
    "${env:PATH}",
    "nope > 1",
    "s.nope > 1",
    "x -> x",
    "cast(a as foo)",
    "cast(a as struct<reflect('x')>)",
    "cast(a as interval day)",
    "date 'x' (1)",
    "case a",
    "a collate x",
    "",
    "  -- nothing",
    "(" * 1000 + "a" + ")" * 1000,
    "abs(" * 1000 + "a" + ")" * 1000,
    "a" * 100_000,
]


def read(text: str) -> StoredExpression:
    return read_stored_sql(text, SCHEMA, table="t", owner="CHECK constraint c")


@pytest.mark.parametrize(("text", "columns"), HARMLESS)
def test_harmless_expressions(text: str, columns: list[str]) -> None:
    """The columns are spelled as in the schema; the rebuilt SQL is read as the same SQL."""
    expression = read(text)
    assert [".".join(path) for path in expression.columns] == columns
    assert expression.text == text
    assert read(expression.sql).sql == expression.sql


def is_refused(text: str) -> bool:
    """Whether it is refused by an error that names it and its owner, and stays short."""
    try:
        read(text)
    except UntrustedExpressionError as error:
        return error.expression == text and "CHECK constraint c" in str(error) and len(str(error)) < 2000
    return False


def test_attacks() -> None:
    """Covers attack "SQL in metadata": each is refused before Spark gets any of it."""
    assert [text for text in ATTACKS if not is_refused(text)] == []


PIECES = st.sampled_from(
    [
        "a",
        "b",
        "s",
        ".",
        "s.x",
        "arr",
        "m",
        "`a`",
        "`reflect`",
        "reflect",
        "abs",
        "exists",
        "select",
        "from",
        "map",
        "using",
        "(",
        ")",
        "[",
        "]",
        ",",
        "+",
        "-",
        "*",
        "/",
        "=",
        "<",
        ">",
        "->",
        "::",
        ":",
        ";",
        "'x'",
        '"y"',
        "1",
        "2.5",
        "and",
        "or",
        "not",
        "in",
        "is",
        "null",
        "case",
        "when",
        "then",
        "else",
        "end",
        "cast",
        "as",
        "int",
        "struct",
        "extract",
        "trim",
        "over",
        "filter",
        "where",
        "x",
        "identifier",
        "--",
        "/*",
        "*/",
        "r'z'",
        "?",
        "@",
        "{",
        "}",
        "current_date",
        "interval",
        "day",
        "distinct",
        "any",
        "values",
        "table",
        "with",
        "'",
        '"',
        "`",
        "\\",
        "\\'",
        '""',
        "''",
    ]
)


@given(st.lists(PIECES, max_size=12), st.sampled_from(["", " "]))
def test_accepted_text_calls_only_allowed_functions(pieces: list[str], between: str) -> None:
    try:
        expression = read(between.join(pieces))
    except UntrustedExpressionError:
        return
    without_text = re.sub(r"r?'(?:[^'\\]|\\.|'')*'", "''", expression.sql)
    called = re.findall(r"([`\w.]+)\s*\(", without_text)
    assert {name.lower() for name in called} <= FUNCTIONS | {name.lower() for name in OPERATORS} | {
        *["when", "then", "else", "case", "any", "some", "all", "and", "from"]
    }
    names = re.sub(r"`(?:[^`]|``)*`", "", without_text)
    assert not re.search(r"\b(select|map\s+[^(]|using|values|table|with|over|filter|where|identifier)\b", names, re.I)


@pytest.mark.spark
def test_spark_makes_the_same_of_both(spark: SparkSession) -> None:
    """What is put together from the tokens means what was written."""
    row = """SELECT 1 AS a, 'x' AS b, named_struct('x', 1, 'y z', 'abc') AS s, array(named_struct('k', 1)) AS arr,
             map('k', 2) AS m, DATE'2024-02-29' AS d, TIMESTAMP'2024-02-29 12:00:00' AS ts, 1.50BD AS n,
             1 AS `odd ``name```, 3 AS `end`, 1 AS day, 1 AS `order`, 'me' AS `current_user`,
             parse_json('{"a": 1}') AS v"""
    texts = [text for text, _ in HARMLESS if "/*" not in text]
    written = [F.expr(text.split("--")[0] if text.endswith("comment") else text) for text in texts]
    handed_on = [F.expr(read(text).sql) for text in texts]
    values = spark.sql(row).select(*(column.alias(f"c{i}") for i, column in enumerate([*written, *handed_on]))).first()
    assert values is not None
    assert list(values[: len(texts)]) == list(values[len(texts) :])
