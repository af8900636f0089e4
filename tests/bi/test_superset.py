"""Apache Superset on `anabranch serve`: lists, rows, charts, and errors, as its users meet them.

By `scripts/test_bi.sh`, which makes an environment for Superset. It is set up as docs/howto/serve.md says.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bi.superset_server import PROGRAMS, Answer, Superset, superset_served
from serve.served import Client, Served, client, served

pytest.importorskip("pyhive")
pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.skipif(PROGRAMS is None, reason="ANABRANCH_SUPERSET names no folder of Superset's; make test-bi does"),
]

HOWTO = Path(__file__).parents[2] / "docs" / "howto" / "serve.md"
SCHEMA = "shop"
MADE = [
    f"CREATE SCHEMA {SCHEMA}",
    f"CREATE TABLE {SCHEMA}.orders (id BIGINT, item STRING, amount INT, price DECIMAL(10, 2), at TIMESTAMP, day DATE,"
    " paid BOOLEAN, tags ARRAY<STRING>) USING delta",
    f"INSERT INTO {SCHEMA}.orders VALUES"
    " (1, 'tea', 3, 2.50, TIMESTAMP'2026-01-05 10:00:00', DATE'2026-01-05', true, array('a', 'b')),"
    " (2, 'jam', 4, 1.25, TIMESTAMP'2026-01-11 23:30:00', DATE'2026-01-11', false, NULL),"
    " (3, 'tea', 5, 2.50, TIMESTAMP'2026-01-12 00:30:00', DATE'2026-01-12', NULL, array())",
    f"ALTER TABLE {SCHEMA}.orders ADD CONSTRAINT positive CHECK (amount > 0)",
    f"CREATE TABLE {SCHEMA}.parts (id BIGINT, day DATE) USING delta PARTITIONED BY (day)",
    f"INSERT INTO {SCHEMA}.parts VALUES (1, DATE'2026-01-01'), (2, DATE'2026-01-02')",
    f"CREATE TABLE {SCHEMA}.clustered (id BIGINT, day DATE) USING delta CLUSTER BY (day)",
    f"CREATE VIEW {SCHEMA}.large_orders AS SELECT * FROM {SCHEMA}.orders WHERE amount > 3",
]
TOTAL = {"expressionType": "SIMPLE", "column": {"column_name": "amount"}, "aggregate": "SUM", "label": "total"}
WORTH = {"expressionType": "SQL", "sqlExpression": "SUM(amount * price)", "label": "worth"}

Run = Callable[[str], Answer]


def block(language: str) -> str:
    """The first of that language in the how-to's section on Superset."""
    section = HOWTO.read_text(encoding="utf-8").partition("### Superset\n")[2].partition("\n#")[0]
    match = re.search(rf"```{language}\n(.*?)```", section, re.DOTALL)
    assert match is not None, f"{HOWTO} has no block of {language} on Superset"
    return match[1]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("lake") / "warehouse") as started:
        with client(started, "jdbc") as by:
            for statement in MADE:
                by.run(statement)
        yield started


@pytest.fixture(scope="module")
def superset(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Superset]:
    with superset_served(tmp_path_factory.mktemp("superset"), block("py")) as user:
        yield user


@pytest.fixture(scope="module")
def database(server: Served, superset: Superset) -> int:
    """The lake, as Superset has it."""
    named = {
        "database_name": "lake",
        "sqlalchemy_uri": f"hive://127.0.0.1:{server.jdbc_port}/default",
        "extra": json.dumps({"engine_params": json.loads(block("json"))}),
    }
    assert superset.post("/database/test_connection/", named).json() == {"message": "OK"}
    made = superset.post("/database/", {**named, "expose_in_sqllab": True, "allow_dml": True})
    return int(made.json()["id"])


@pytest.fixture(scope="module")
def orders(superset: Superset, database: int) -> int:
    """The table as a dataset."""
    made = superset.post("/dataset/", {"database": database, "schema": SCHEMA, "table_name": "orders"})
    return int(made.json()["id"])


@pytest.fixture
def run(superset: Superset, database: int) -> Run:
    """A statement in SQL Lab."""

    def execute(statement: str) -> Answer:
        return superset.post("/sqllab/execute/", {"database_id": database, "schema": SCHEMA, "sql": statement})

    return execute


@pytest.fixture
def by(server: Served) -> Iterator[Client]:
    """Another client, by the other protocol."""
    with client(server, "connect") as other:
        yield other


def query_of(**changes: Any) -> dict[str, Any]:
    return {"metrics": [TOTAL, WORTH], "columns": ["item"], "orderby": [["item", True]], "row_limit": 100, **changes}


def chart_request(dataset: int, query: dict[str, Any]) -> dict[str, Any]:
    return {"datasource": {"id": dataset, "type": "table"}, "queries": [query], "result_format": "json"}


def rows(answer: Answer) -> list[tuple[Any, ...]]:
    """The rows of a chart's data."""
    (result,) = answer.json()["result"]
    return [tuple(row[name] for name in result["colnames"]) for row in result["data"]]


def made_chart(superset: Superset, dataset: int) -> str:
    """The path of the data of a chart that is kept: what was sold of each item, and for how much."""
    chart = {
        "slice_name": "sold",
        "viz_type": "echarts_timeseries_bar",
        "datasource_id": dataset,
        "datasource_type": "table",
        "params": json.dumps({"viz_type": "echarts_timeseries_bar", "x_axis": "item", "metrics": [TOTAL, WORTH]}),
        "query_context": json.dumps({**chart_request(dataset, query_of()), "result_type": "full"}),
    }
    return f"/chart/{superset.post('/chart/', chart).json()['id']}/data/"


def test_schemas_and_tables_are_listed(superset: Superset, database: int) -> None:
    assert {"default", SCHEMA} <= set(superset.get(f"/database/{database}/schemas/").json()["result"])
    listed = superset.get(f"/database/{database}/tables/", q=f"(schema_name:{SCHEMA})").json()["result"]
    assert sorted((table["value"], table["type"]) for table in listed) == [
        ("clustered", "table"),
        ("large_orders", "view"),
        ("orders", "table"),
        ("parts", "table"),
    ]


def test_columns_are_described(superset: Superset, database: int) -> None:
    def described(table: str) -> list[tuple[str, str]]:
        path = f"/database/{database}/table_metadata/"
        columns = superset.get(path, name=table, schema=SCHEMA).json()["columns"]
        return [(column["name"], column["type"]) for column in columns]

    plain = [("id", "BIGINT"), ("item", "VARCHAR"), ("amount", "INTEGER"), ("price", "DECIMAL"), ("at", "TIMESTAMP")]
    assert described("orders")[:6] == [*plain, ("day", "DATE")]
    assert described("large_orders") == described("orders")
    assert described("parts") == described("clustered") == [("id", "BIGINT"), ("day", "DATE")]


def test_the_latest_partition_is_shown(superset: Superset, database: int) -> None:
    path = f"/database/{database}/table_metadata/extra/"
    shown = superset.get(path, name="parts", schema=SCHEMA).json()["partitions"]
    assert (shown["cols"], shown["latest"]) == (["day"], {"day": "2026-01-02"})


def test_rows_are_read(run: Run) -> None:
    output = run("SELECT * FROM orders ORDER BY id").json()
    assert [tuple(row.values()) for row in output["data"]] == [
        (1, "tea", 3, 2.5, "2026-01-05T10:00:00", "2026-01-05", True, '["a","b"]'),
        (2, "jam", 4, 1.25, "2026-01-11T23:30:00", "2026-01-11", False, None),
        (3, "tea", 5, 2.5, "2026-01-12T00:30:00", "2026-01-12", None, "[]"),
    ]
    types = [column["type"] for column in output["columns"]]
    assert types[:6] == ["BIGINT_TYPE", "STRING_TYPE", "INT_TYPE", "DECIMAL_TYPE", "TIMESTAMP_TYPE", "DATE_TYPE"]


def test_earlier_versions_and_the_history_are_read(run: Run) -> None:
    counted = "SELECT count(*) AS n FROM orders VERSION AS OF"
    assert [run(f"{counted} {version}").json()["data"] for version in (0, 1)] == [[{"n": 0}], [{"n": 3}]]
    operations = {row["version"]: row["operation"] for row in run("DESCRIBE HISTORY orders").json()["data"]}
    assert operations[2] == "ADD CONSTRAINT"


def test_a_chart_shows_what_other_clients_have_changed(superset: Superset, orders: int, by: Client) -> None:
    chart = made_chart(superset, orders)
    before = [("jam", 4, 5.0), ("tea", 8, 20.0)]
    assert rows(superset.get(chart)) == before
    by.run(
        f"MERGE INTO {SCHEMA}.orders t USING (SELECT 2 AS id, 40 AS amount UNION ALL SELECT 9, 1) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET amount = s.amount "
        "WHEN NOT MATCHED THEN INSERT (id, item, amount, price) VALUES (s.id, 'oil', s.amount, 8)"
    )
    assert rows(superset.get(chart)) == [("jam", 40, 50.0), ("oil", 1, 8.0), ("tea", 8, 20.0)]
    by.run(f"UPDATE {SCHEMA}.orders SET amount = 4 WHERE id = 2")
    by.run(f"DELETE FROM {SCHEMA}.orders WHERE item = 'oil'")
    assert rows(superset.get(chart)) == before


@pytest.mark.parametrize(
    ("grain", "expected"),
    [
        ("P1D", {"2026-01-05": 3, "2026-01-11": 4, "2026-01-12": 5}),
        ("P1W", {"2026-01-05": 7, "2026-01-12": 5}),
        ("P1M", {"2026-01-01": 12}),
    ],
)
def test_a_chart_over_time(superset: Superset, orders: int, grain: str, expected: dict[str, int]) -> None:
    axis = {
        "columnType": "BASE_AXIS",
        "timeGrain": grain,
        "sqlExpression": "at",
        "label": "at",
        "expressionType": "SQL",
    }
    january = {"col": "at", "op": "TEMPORAL_RANGE", "val": "2026-01-01 : 2026-02-01"}
    query = query_of(columns=[axis], metrics=[TOTAL], orderby=[], filters=[january], granularity="at")
    points = rows(superset.post("/chart/data", chart_request(orders, query)))
    days = {datetime.datetime.fromtimestamp(at / 1000, datetime.UTC).date().isoformat(): total for at, total in points}
    assert days == expected


def test_charts_of_a_dashboard_are_requested_at_the_same_time(superset: Superset, orders: int) -> None:
    def chart(item: str) -> list[tuple[Any, ...]]:
        only = [{"col": "item", "op": "==", "val": item}]
        return rows(superset.post("/chart/data", chart_request(orders, query_of(filters=only))))

    with ThreadPoolExecutor(4) as threads:
        charts = list(threads.map(chart, ["tea", "jam"] * 4))
    assert charts == [[("tea", 8, 20.0)], [("jam", 4, 5.0)]] * 4


def test_errors_reach_the_user_with_condition_and_sqlstate(run: Run, by: Client) -> None:
    missing = run("SELECT * FROM nothing")
    assert missing.status >= 400
    assert "[TABLE_OR_VIEW_NOT_FOUND]" in missing.text
    violating = run("INSERT INTO orders (id, item, amount) VALUES (10, 'air', -1)")
    assert violating.status >= 400
    assert "[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES]" in violating.text
    assert "SQLSTATE: 23001" in violating.text
    assert "positive" in violating.text
    assert by.rows(f"SELECT count(*) FROM {SCHEMA}.orders WHERE amount < 0") == [(0,)]


def test_a_chart_of_a_table_that_is_gone_says_so(superset: Superset, database: int, by: Client) -> None:
    by.run(f"CREATE TABLE {SCHEMA}.brief USING delta AS SELECT 'tea' AS item, 1 AS amount, 2 AS price")
    made = superset.post("/dataset/", {"database": database, "schema": SCHEMA, "table_name": "brief"})
    request = chart_request(int(made.json()["id"]), query_of())
    assert rows(superset.post("/chart/data", request)) == [("tea", 1, 2)]
    by.run(f"DROP TABLE {SCHEMA}.brief")
    gone = superset.post("/chart/data", request)
    assert gone.status >= 400
    assert "[TABLE_OR_VIEW_NOT_FOUND]" in gone.text


def test_statements_of_ours_run_in_its_sql_lab(run: Run) -> None:
    """It writes `USING delta` as Hive's `STORED AS DELTA`, so new tables are Delta tables by a setting."""
    run("CREATE TABLE worked AS SELECT 1 AS id, 'a' AS v UNION ALL SELECT 2, 'b'").json()
    merged = run(
        "MERGE INTO worked t USING (SELECT 2 AS id, 'z' AS v UNION ALL SELECT 3, 'c') s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)"
    )
    assert merged.json()["data"] == [
        {"num_affected_rows": 2, "num_updated_rows": 1, "num_deleted_rows": 0, "num_inserted_rows": 1}
    ]
    run("DELETE FROM worked WHERE id = 1").json()
    run("OPTIMIZE worked").json()
    remaining = run("SELECT id, v FROM worked ORDER BY id").json()["data"]
    assert remaining == [{"id": 2, "v": "z"}, {"id": 3, "v": "c"}]
