"""Spark's own expressions, as its planner wrote them, are understood as far as they can be."""

from __future__ import annotations

import json
import zoneinfo
from pathlib import Path
from typing import Any

import pytest

from anabranch.cli.rows.local_time_zone import PythonTimeZone
from anabranch.predicates.catalyst import from_catalyst
from anabranch.predicates.expressions import TRUE, Unknown, is_exact, is_opaque, nodes_of, references
from anabranch.protocol import value_text

SAMPLES = sorted((Path(__file__).parent / "catalyst_samples").glob("spark-*.json"))
ZONE = "America/Los_Angeles"

EXPECTED = {
    "b": "b IS NOT NULL AND b = true",
    "NOT b": "b IS NOT NULL AND NOT (b = true)",
    "t = 1": "t IS NOT NULL AND t = 1",
    "5 = i": "i IS NOT NULL AND i = 5",
    "i <> 5": "i IS NOT NULL AND NOT (i = 5)",
    "i <=> 5": "i <=> 5",
    "i <=> NULL": "i IS NULL",
    "NOT (i <=> 5)": "NOT (i <=> 5)",
    "i < 5 AND i >= -3": "i IS NOT NULL AND i < 5 AND i >= -3",
    "i = 1 OR l = 2": "i = 1 OR l = 2",
    "i IN (1, NULL)": "i IN (1, NULL)",
    "i NOT IN (1, 2)": "NOT (i IN (1, 2))",
    "i IN (1,2,3,4,5,6,7,8,9,10,11,12)": "i IN (5, 10, 1, 6, 9, 2, 12, 7, 3, 11, 8, 4)",
    "l = 9223372036854775807": "l IS NOT NULL AND l = 9223372036854775807",
    "f > CAST(1.1 AS FLOAT)": "f IS NOT NULL AND f > 1.100000023841858",
    "d = CAST('NaN' AS DOUBLE)": "d IS NOT NULL AND d = nan",
    "d > CAST('Infinity' AS DOUBLE)": "d IS NOT NULL AND d > inf",
    "d = -0.0D": "d IS NOT NULL AND d = -0.0",
    "big = 1234567890123456789.0123456789": "big IS NOT NULL AND big = 1234567890123456789.0123456789",
    "s LIKE 'abc%'": "s IS NOT NULL AND startswith(s, 'abc')",
    "s LIKE 'abc'": "s IS NOT NULL AND s = 'abc'",
    "s NOT LIKE 'abc%'": "s IS NOT NULL AND NOT (startswith(s, 'abc'))",
    "s LIKE 'a_c%'": "s IS NOT NULL AND startswith(s, 'a') AND Like(s, a_c%)",
    "substring(s, 1, 3) = 'abc'": "s IS NOT NULL AND startswith(s, 'abc')",
    "ch = 'ab'": "ch IS NOT NULL AND ch = 'ab   '",
    "dt = DATE'2024-02-29'": "dt IS NOT NULL AND dt = DATE(19782)",
    "dt > DATE'0001-01-01'": "dt IS NOT NULL AND dt > DATE(-719162)",
    "ts = TIMESTAMP'2024-02-29 12:34:56.789012Z'": "ts IS NOT NULL AND ts = TIMESTAMP(1709210096789012)",
    "ts < TIMESTAMP'1969-12-31 23:59:59.999999Z'": "ts IS NOT NULL AND ts < TIMESTAMP(-1)",
    "ntz = TIMESTAMP_NTZ'2024-02-29 12:34:56.789012'": "ntz IS NOT NULL AND ntz = TIMESTAMP_NTZ(1709210096789012)",
    "CAST(ts AS DATE) = DATE'2024-01-01'": (
        "ts IS NOT NULL AND ts >= TIMESTAMP(1704096000000000) AND ts < TIMESTAMP(1704182400000000)"
    ),
    "year(ts) = 2024": "ts IS NOT NULL AND ts >= TIMESTAMP(1704096000000000) AND ts < TIMESTAMP(1735718400000000)",
    "year(dt) > 2020": "dt IS NOT NULL AND dt >= DATE(18628)",
    "year(ntz) <= 2020": "ntz IS NOT NULL AND ntz < TIMESTAMP_NTZ(1609459200000000)",
    "CAST(i AS BIGINT) = 5": "i IS NOT NULL AND i = 5",
    "st.`in`.y = 'q'": "st.in.y IS NOT NULL AND st.in.y = 'q'",
    "`odd name` = 1": "`odd name` IS NOT NULL AND `odd name` = 1",
    "i IS DISTINCT FROM 3": "NOT (i <=> 3)",
    "i = l": "i IS NOT NULL AND l IS NOT NULL AND i = l",
}
LEFT_TO_SPARK = [
    "l = 2.0D",
    "isnan(d)",
    "dec = 1.5D",
    "upper(s) = 'A'",
    "s = i",
    "bin = X'00ff'",
    "dt < ts",
    "month(dt) = 3",
    "hour(ts) = 3",
    "CAST(l AS INT) = 5",
    "CAST(s AS INT) = 5",
    "CAST(dec AS DECIMAL(5,1)) < 3.5",
    "arr[0] = 1",
    "m['k'] = 1",
    "ci = 'abc'",
    "ci LIKE 'abc%'",
    "i + 1 = 5",
    "coalesce(i, 0) = 5",
    "CASE WHEN i = 1 THEN b ELSE false END",
    "(i = 1) IS NULL",
]
ASKS_MORE_THAN_THE_ROW = [
    "rand() < 0.5",
    "i = 1 AND rand() < 0.5",
    "uuid() = s",
    "i = (SELECT max(l) FROM samples)",
    "monotonically_increasing_id() < 5",
    "input_file_name() = 'x'",
]


@pytest.fixture(params=SAMPLES, ids=lambda path: path.stem)
def samples(request: pytest.FixtureRequest) -> dict[str, dict[str, Any]]:
    return {sample["sql"]: sample for sample in json.loads(request.param.read_text())}


def python_zone(name: str) -> PythonTimeZone:
    """The zones of the samples are those on which Python and the JVM agree."""
    return PythonTimeZone(zoneinfo.ZoneInfo(name))


def predicate_of(sample: dict[str, Any]) -> Any:
    return from_catalyst(json.dumps([in_utc(node) for node in sample["optimized"]]), zones=python_zone)


def in_utc(node: dict[str, Any]) -> dict[str, Any]:
    """The samples were written in the session's zone; `anabranch.ConditionJson` writes timestamps in UTC."""
    if not node["class"].endswith(".Literal") or node.get("dataType") != "timestamp" or node["value"] is None:
        return node
    moment = python_zone(ZONE).to_utc(value_text.parse_local_micros(node["value"]))
    return {**node, "value": value_text.format_local_micros(moment)}


def test_there_are_samples() -> None:
    assert len(SAMPLES) >= 2


def test_conditions_are_understood(samples: dict[str, dict[str, Any]]) -> None:
    predicates = {sql: str(predicate_of(samples[sql])) for sql in EXPECTED}
    assert predicates == EXPECTED


def test_the_rest_is_unknown_and_names_its_columns(samples: dict[str, dict[str, Any]]) -> None:
    for sql in LEFT_TO_SPARK:
        predicate = predicate_of(samples[sql])
        assert not is_exact(predicate), sql
        assert not is_opaque(predicate), sql
        assert references(predicate), sql


def test_conditions_on_more_than_the_row_are_opaque(samples: dict[str, dict[str, Any]]) -> None:
    for sql in ASKS_MORE_THAN_THE_ROW:
        assert is_opaque(predicate_of(samples[sql])), sql
    subquery = samples["i IN (SELECT l FROM samples)"]["analyzed"]
    assert is_opaque(from_catalyst(json.dumps(subquery), zones=python_zone))


def test_no_sample_fails(samples: dict[str, dict[str, Any]]) -> None:
    for sample in samples.values():
        for form in ("analyzed", "optimized"):
            if form in sample:
                predicate = from_catalyst(json.dumps(sample[form]), zones=python_zone)
                whole = [
                    node for node in nodes_of(predicate) if isinstance(node, Unknown) and node.text.startswith("[")
                ]
                assert not whole, sample["sql"]


def test_a_text_literal_keeps_every_character(samples: dict[str, dict[str, Any]]) -> None:
    """Its quotes, escapes and letters beyond the basic plane."""
    (sample,) = [sample for sql, sample in samples.items() if "quoted" in sql]
    (literal,) = [node.right.value for node in nodes_of(predicate_of(sample)) if hasattr(node, "right")]
    assert literal in ('it\'s "quoted" é \U0001f600 \n tab\t', 'its "quoted" é \U0001f600 \n tab\t')


def test_the_values_of_a_long_list_are_there(samples: dict[str, dict[str, Any]]) -> None:
    """Spark's own JSON leaves them out; `Conditions` of ours writes them."""
    many = [sample for sql, sample in samples.items() if sql.startswith(("i IN (1,2,3,4", "s IN (", "dt IN ("))]
    assert [len(list(predicate_of(sample).values)) for sample in many] == [12, 12, 11]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "nonsense", '[{"class": "X"}]', '[{"class":"X","num-children":3}]', "[1]"]
)
def test_what_is_no_expression_may_be_anything(text: str) -> None:
    predicate = from_catalyst(text, zones=python_zone)
    assert is_opaque(predicate)


def node(name: str, children: int, /, **fields: Any) -> dict[str, Any]:
    return {"class": f"org.apache.spark.sql.catalyst.expressions.{name}", "num-children": children, **fields}


INT = node("AttributeReference", 0, name="i", dataType="integer")
ONE = node("Literal", 0, value="1", dataType="integer")


def test_filters_that_a_join_implies_say_nothing() -> None:
    pruning = [node("DynamicPruningExpression", 1), node("InSubquery", 2), INT, node("ListQuery", 0)]
    assert from_catalyst(json.dumps(pruning), zones=python_zone) == TRUE


def test_long_chains_are_flat_and_deep_trees_are_cut() -> None:
    chain = [node("Or", 2)] * 3000 + [node("EqualTo", 2), INT, ONE] * 3001
    assert is_exact(from_catalyst(json.dumps(chain), zones=python_zone))

    deep = [node("Not", 1)] * 5000 + [node("EqualTo", 2), INT, ONE]
    assert not is_exact(from_catalyst(json.dumps(deep), zones=python_zone))

    turns = [node("And", 2), node("Or", 2)] * 3000 + [node("EqualTo", 2), INT, ONE] * 6001
    str(from_catalyst(json.dumps(turns), zones=python_zone))


def test_unsafe_functions_of_a_user_are_opaque() -> None:
    call = [node("EqualTo", 2), node("objects.StaticInvoke", 1, functionName="f", isDeterministic=False), INT, ONE]
    assert is_opaque(from_catalyst(json.dumps(call), zones=python_zone))
