"""`count(*)`, `min` and `max` of whole tables, answered by the log: when they are, and that the rows say the same."""

from __future__ import annotations

import datetime
import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch.errors.schema import SchemaChangedSinceAnalysisError
from anabranch.tables import DeltaTable

pytestmark = pytest.mark.spark

SETTING = "spark.databricks.delta.optimizeMetadataQuery.enabled"
MAKES = {
    "plain": "USING delta",
    "partitioned": "USING delta PARTITIONED BY (day, p)",
    "mapped": "USING delta PARTITIONED BY (p) TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
    "without vectors": "USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')",
}
COLUMNS = "b TINYINT, s SMALLINT, i INT, k BIGINT, day DATE, p INT, f DOUBLE, t STRING"
NAMES = ("b", "s", "i", "k", "day", "p", "f", "t")
ASKED = [(f"{function}_{name}", f"{function}({name})") for name in NAMES for function in ("min", "max")]


@pytest.fixture
def by_rows(delta: SparkSession) -> Iterator[Callable[[str], Any]]:
    """What a query answers without the log."""

    def answered(query: str) -> Any:
        delta.conf.set(SETTING, "false")
        frame = delta.sql(query)
        assert not is_by_log(frame)
        row = frame.first()
        delta.conf.unset(SETTING)
        return row

    yield answered
    delta.conf.unset(SETTING)


def is_by_log(frame: DataFrame) -> bool:
    """Whether the plan reads no file."""
    plan = frame._jdf.queryExecution().optimizedPlan().toString()
    return plan.startswith("LocalRelation")


@pytest.mark.parametrize(
    "made", ["mapped", *(pytest.param(made, marks=pytest.mark.long) for made in MAKES if made != "mapped")]
)
def test_the_log_says_what_the_rows_say(
    delta: SparkSession, path: str, by_rows: Callable[[str], Any], made: str
) -> None:
    """Over random statements: appends, changes, rows all hidden, columns all NULL, extreme values."""
    chance = random.Random(made)
    table = f"delta.`{path}`"
    delta.sql(f"CREATE TABLE {table} ({COLUMNS}) {MAKES[made]}")
    by_log = set()
    for number in range(6):
        totals = by_rows(
            f"SELECT count(*) AS n, {', '.join(f'{expression} AS {name}' for name, expression in ASKED)} FROM {table}"
        )
        for column in NAMES:
            frame = delta.sql(f"SELECT count(1), min({column}), max({column}) FROM {table}")
            if is_by_log(frame):
                by_log.add(column)
                assert frame.first() == (totals["n"], totals[f"min_{column}"], totals[f"max_{column}"]), (
                    number,
                    column,
                )
        if number % 3 == 2:
            delta.sql(f"DELETE FROM {table} WHERE i % {chance.randint(2, 4)} = 0")
            continue
        low = chance.choice([-128, 0, 90])
        null = chance.choice(["NULL", "id"])
        delta.range(low, low + chance.randint(0, 9)).createOrReplaceTempView("given")
        delta.sql(
            f"""INSERT INTO {table} SELECT cast({null} AS TINYINT), id, id, id * 72057594037927935,
                date_add('1969-12-30', cast({null} * 90 AS INT)), pmod(id, 2), id / 3, {null} FROM given"""
        )
    assert by_log == {"b", "s", "i", "k", "day", "p"}


def test_several_functions_at_once(delta: SparkSession, path: str) -> None:
    delta.range(5).selectExpr("id", "date'2020-02-29' AS day").write.format("delta").save(path)
    table = delta.read.format("delta").load(path)
    day = datetime.date(2020, 2, 29)
    frame = table.agg(F.count("*"), F.min("id").alias("least"), F.max("ID"), F.max("day"), F.count(F.lit(1)))
    assert is_by_log(frame)
    assert frame.first() == (5, 0, 4, day, 5)
    assert frame.columns == ["count(1)", "least", "max(ID)", "max(day)", "count(1)"]
    assert is_by_log(table.select("day").agg(F.max("day")))
    assert table.count() == 5
    nested = delta.sql(f"SELECT 1 WHERE (SELECT count(*) FROM delta.`{path}`) = 5")
    assert nested.count() == 1


def test_shown_as_text(delta: SparkSession, path: str, capsys: pytest.CaptureFixture[str]) -> None:
    delta.sql(f"CREATE TABLE delta.`{path}` (id INT, day DATE) USING delta")
    delta.sql(f"SELECT count(*), max(id), min(day) FROM delta.`{path}`").show()
    delta.sql(f"INSERT INTO delta.`{path}` VALUES (7, '2020-02-29')")
    delta.sql(f"SELECT count(*), max(id), min(day) FROM delta.`{path}`").show()
    shown = re.findall(r"\| +([01N].*)\|$", capsys.readouterr().out, re.MULTILINE)
    rows = [re.split(r" *\| *", line) for line in shown if line[0] in "01"]
    assert rows == [["0", "NULL", "NULL"], ["1", "7", "2020-02-29"]]


def test_a_frame_follows_its_table(delta: SparkSession, path: str) -> None:
    delta.range(2).write.format("delta").save(path)
    frame = delta.read.format("delta").load(path)
    old = delta.read.format("delta").option("versionAsOf", 0).load(path)
    assert frame.count() == 2
    delta.range(2, 5).write.format("delta").mode("append").save(path)
    assert (frame.count(), old.count()) == (5, 2)
    assert (frame.agg(F.max("id")).first()[0], old.agg(F.max("id")).first()[0]) == (4, 1)
    delta.sql(f"DELETE FROM delta.`{path}` WHERE id > 2")
    assert (frame.count(), frame.agg(F.max("id")).first()[0]) == (3, 2)
    delta.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    delta.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN id TO other")
    with pytest.raises(SchemaChangedSinceAnalysisError):
        frame.count()


def test_questions_for_the_rows(delta: SparkSession, path: str) -> None:
    table = f"delta.`{path}`"
    delta.sql(f"CREATE TABLE {table} (id INT, p INT, n STRUCT<x: INT>) USING delta PARTITIONED BY (p)")
    delta.sql(f"INSERT INTO {table} VALUES (1, 1, struct(1)), (2, 1, struct(2)), (2, 2, struct(3))")
    for query, answer in {
        f"SELECT count(*) FROM {table} WHERE id = 2": 2,
        f"SELECT max(id) FROM {table} WHERE p = 1": 2,
        f"SELECT count(DISTINCT id) FROM {table}": 2,
        f"SELECT count(*) FILTER (WHERE id = 1) FROM {table}": 1,
        f"SELECT count(id) FROM {table}": 3,
        f"SELECT count(*) FROM {table} GROUP BY p HAVING p = 1": 2,
        f"SELECT max(id + 1) FROM {table}": 3,
        f"SELECT max(n.x) FROM {table}": 3,
        f"SELECT sum(id) FROM {table}": 5,
        f"SELECT count(*) FROM (SELECT * FROM {table} LIMIT 2)": 2,
        f"SELECT max(c) FROM (SELECT id * 2 AS c FROM {table})": 4,
        f"SELECT min(_metadata.row_index) FROM {table}": 0,
        f"SELECT count(*) FROM {table} a JOIN {table} b USING (id)": 5,
    }.items():
        frame = delta.sql(query)
        assert not is_by_log(frame), query
        assert frame.first()[0] == answer, query
    folder = delta.read.format("delta").load(f"{path}/p=1")
    assert (folder.count(), folder.agg(F.max("id")).first()[0]) == (2, 2)
    feed = delta.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 0)
    delta.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    delta.sql(f"DELETE FROM {table} WHERE id = 2")
    assert feed.option("startingVersion", 3).load(path).count() == 2


def test_statistics_that_are_not_exact(delta: SparkSession, path: str) -> None:
    """None, none of a column, bounds that are wide, and what a writer filled in from a partition column."""
    delta.sql(f"CREATE TABLE delta.`{path}` (id INT) USING delta")
    delta.range(3).selectExpr("cast(id AS INT) AS id").coalesce(1).write.format("delta").mode("append").save(path)
    log = Path(path, "_delta_log", f"{1:020}.json")
    written = log.read_text()
    queries = {"count": f"SELECT count(*) FROM delta.`{path}`", "max": f"SELECT max(id) FROM delta.`{path}`"}
    for change, by_log in (
        (lambda stats: stats, {"count", "max"}),
        (lambda stats: None, set()),
        (lambda stats: {"numRecords": 3}, {"count"}),
        (lambda stats: {**stats, "maxValues": {}}, {"count"}),
        (lambda stats: {**stats, "tightBounds": False}, {"count"}),
        (lambda stats: {key: value for key, value in stats.items() if key != "numRecords"}, set()),
    ):
        lines = [json.loads(line) for line in written.splitlines()]
        for line in lines:
            if "add" in line:
                stats = change(json.loads(line["add"]["stats"]))
                line["add"]["stats"] = json.dumps(stats) if stats is not None else None
        log.write_text("\n".join(map(json.dumps, lines)))
        Path(path, "_delta_log", f".{log.name}.crc").unlink(missing_ok=True)
        fresh = delta.newSession()
        for name, query in queries.items():
            frame = fresh.sql(query)
            assert is_by_log(frame) == (name in by_log), (lines, name)
            assert frame.first() == ({"count": 3, "max": 2}[name],)


def test_a_writer_that_lies_is_believed_unless_the_session_does_not(
    delta: SparkSession, path: str, by_rows: Callable[[str], Any]
) -> None:
    """Covers fault F36: the log is believed, as in delta-spark."""
    delta.range(3).coalesce(1).write.format("delta").save(path)
    log = Path(path, "_delta_log", f"{0:020}.json")
    log.write_text(log.read_text().replace('\\"numRecords\\":3', '\\"numRecords\\":4'))
    query = f"SELECT count(*) FROM delta.`{path}`"
    assert delta.newSession().sql(query).first() == (4,)
    assert by_rows(query) == (3,)


def test_a_source_of_a_partition_column_that_has_no_bounds(delta: SparkSession, path: str) -> None:
    """The year says in which days a day can lie, and not which is the last."""
    DeltaTable.create(delta).location(path).addColumn("day", "DATE").addColumn(
        "year", "INT", generatedAlwaysAs="year(day)"
    ).partitionedBy("year").property("delta.dataSkippingNumIndexedCols", "0").execute()
    delta.sql(f"INSERT INTO delta.`{path}` (day) VALUES ('2020-02-29'), ('2021-03-01')")
    frame = delta.sql(f"SELECT max(day) FROM delta.`{path}`")
    assert not is_by_log(frame)
    assert frame.first() == (datetime.date(2021, 3, 1),)
    assert delta.sql(f"SELECT max(year), count(*) FROM delta.`{path}`").first() == (2021, 2)
