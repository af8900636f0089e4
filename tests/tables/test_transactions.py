"""Several statements on one table as one commit: what they see, what they commit, and what conflicts with them."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from anabranch import transact, transaction
from anabranch.errors.base import DeltaError
from anabranch.errors.commits import StatementInTransactionError, TransactionStateError
from anabranch.exceptions import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    DeltaConcurrentModificationException,
)
from anabranch.spark.gateway.jvm_sessions import identity
from anabranch.spark.session.delta_session import SESSIONS_KEPT_MAX, DeltaSession
from anabranch.tables import DeltaTable
from session_kinds import classic

pytestmark = [pytest.mark.spark, classic]

PARTS = {
    "vectors": ("'delta.enableDeletionVectors' = 'true'", ""),
    "copies": ("'delta.enableDeletionVectors' = 'false'", ""),
    "partitions": ("'delta.enableDeletionVectors' = 'true'", "PARTITIONED BY (part)"),
    "clusters": ("'delta.enableDeletionVectors' = 'true'", "CLUSTER BY (id)"),
    "mapping": ("'delta.columnMapping.mode' = 'name', 'delta.enableDeletionVectors' = 'true'", ""),
}


@pytest.fixture
def other(delta: SparkSession) -> SparkSession:
    """Another session of the same application."""
    return delta.newSession()


@pytest.fixture(autouse=True)
def ended(delta: SparkSession) -> Iterator[None]:
    """A test that fails leaves no transaction open."""
    yield
    with contextlib.suppress(TransactionStateError):
        delta.sql("ROLLBACK")


@contextlib.contextmanager
def failing(
    error: type[BaseException] | tuple[type[BaseException], ...],
    spark: SparkSession,
    path: str,
    *,
    match: str | None = None,
) -> Iterator[None]:
    """A transaction that must end with this exception, in its block or at its commit."""
    with pytest.raises(error, match=match), transaction(spark, path):
        yield


def made(spark: SparkSession, path: str, kind: str = "vectors", *properties: str, rows: int = 10) -> str:
    """A table with ids from 0, `v` ten times the id, and `part` its last bit."""
    table, (first, layout) = f"delta.`{path}`", PARTS[kind]
    settings = ", ".join([first, *properties])
    spark.sql(
        f"CREATE TABLE {table} (id BIGINT, v BIGINT, part BIGINT) USING delta {layout} TBLPROPERTIES ({settings})"
    )
    spark.range(0, rows, 1, 1).selectExpr("id", "id * 10 AS v", "id % 2 AS part").write.insertInto(table)
    return table


def values(spark: SparkSession, table: str) -> dict[int, int]:
    return {row.id: row.v for row in spark.table(table).collect()}


def history(spark: SparkSession, table: str) -> list[Any]:
    return spark.sql(f"DESCRIBE HISTORY {table}").orderBy("version").collect()


@pytest.mark.parametrize("kind", PARTS)
def test_statements_see_those_before_and_become_one_commit(
    delta: SparkSession, other: SparkSession, path: str, kind: str
) -> None:
    table = made(delta, path, kind)
    before, older = values(other, table), delta.read.format("delta").load(path)
    with transaction(delta, path) as tx:
        delta.sql(f"INSERT INTO {table} VALUES (100, 1, 0), (101, 1, 1)")
        delta.sql(f"DELETE FROM {table} WHERE id = 3")
        assert older.count() == 11
        delta.sql(f"UPDATE {table} SET v = -1 WHERE id >= 9")
        delta.sql(
            f"MERGE INTO {table} t USING (SELECT 5L AS id UNION ALL SELECT 200L) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET v = 55 WHEN NOT MATCHED THEN INSERT (id, v, part) VALUES (s.id, 7, 0)"
        )
        DeltaTable.forPath(delta, path).delete("id = 0 OR id = 100")
        delta.range(300, 301).selectExpr("id", "0L AS v", "0L AS part").write.format("delta").mode("append").save(path)
        inside = values(delta, table)
        assert values(other, table) == before
        assert tx.version is None
    expected = before | {9: -1, 5: 55, 101: -1, 200: 7, 300: 0}
    for gone in (0, 3):
        del expected[gone]
    assert inside == expected
    assert values(other, table) == values(delta, table) == expected
    (*_, last) = history(delta, table)
    assert (last.version, last.operation) == (tx.version, "TRANSACTION")
    statements = [word for word in ("WRITE", "DELETE", "UPDATE", "MERGE") if word in str(last.operationParameters)]
    assert statements == ["WRITE", "DELETE", "UPDATE", "MERGE"]
    metrics = last.operationMetrics
    assert (metrics["numStatements"], metrics["numInsertedRows"], metrics["numUpdatedRows"]) == ("6", "4", "4")
    assert metrics["numDeletedRows"] == "3"


def test_files_that_are_born_and_die_inside_are_in_no_commit(delta: SparkSession, path: str) -> None:
    table = made(delta, path)
    with transaction(delta, path) as tx:
        delta.sql(f"INSERT INTO {table} VALUES (100, 1, 0)")
        delta.sql(f"DELETE FROM {table} WHERE id = 100")
    assert tx.version is None
    with transaction(delta, path) as tx:
        delta.sql(f"INSERT INTO {table} VALUES (100, 1, 0), (101, 1, 0)")
        delta.sql(f"DELETE FROM {table} WHERE id = 100")
        delta.sql(f"UPDATE {table} SET v = 2 WHERE id = 101")
    assert tx.version == 2
    actions = (Path(path) / "_delta_log" / f"{2:020}.json").read_text().splitlines()
    assert sum('"add"' in line for line in actions) == 1
    assert sum('"remove"' in line for line in actions) == 0
    assert values(delta, table)[101] == 2


@pytest.mark.parametrize("how", ["an exception", "ROLLBACK"])
def test_a_transaction_that_is_rolled_back_leaves_no_version(
    delta: SparkSession, other: SparkSession, path: str, how: str
) -> None:
    table = made(delta, path)
    before = values(delta, table)
    if how == "ROLLBACK":
        delta.sql("BEGIN TRANSACTION")
        delta.sql(f"DELETE FROM {table}")
        assert values(delta, table) == {}
        delta.sql("ROLLBACK")
    else:
        with failing(ZeroDivisionError, delta, path):
            delta.sql(f"DELETE FROM {table}")
            raise ZeroDivisionError
    assert values(delta, table) == values(other, table) == before
    assert len(history(delta, table)) == 2


def test_a_failed_statement_leaves_the_transaction_as_it_was(delta: SparkSession, path: str) -> None:
    table = made(delta, path)
    delta.sql(f"ALTER TABLE {table} ADD CONSTRAINT positive CHECK (v >= 0)")
    with transaction(delta, path):
        delta.sql(f"UPDATE {table} SET v = 7 WHERE id = 1")
        with pytest.raises(DeltaError, match="CONSTRAINT"):
            delta.sql(f"UPDATE {table} SET v = -7")
        delta.sql(f"DELETE FROM {table} WHERE id > 1")
    assert values(delta, table) == {0: 0, 1: 7}


SERIALIZABLE = "'delta.isolationLevel' = 'Serializable'"
READS = {
    "a point": "SELECT v FROM {t} WHERE id = 4",
    "a range": "SELECT sum(v) FROM {t} WHERE id BETWEEN 3 AND 5",
    "a subquery": "SELECT 1 WHERE EXISTS (SELECT 1 FROM {t} WHERE id = 4)",
    "a join": "SELECT * FROM {t} a JOIN VALUES (4L), (40L) b(k) ON a.id = b.k",
    "the first row": "SELECT v FROM {t} WHERE id >= 4 AND id <= 6 ORDER BY id LIMIT 1",
    "a statement that finds nothing": "DELETE FROM {t} WHERE id = 4 AND v = 7",
}


@pytest.mark.parametrize("read", READS)
def test_what_queries_read_is_judged_by_rows(delta: SparkSession, other: SparkSession, path: str, read: str) -> None:
    table = made(delta, path, "vectors", SERIALIZABLE)
    query = READS[read].format(t=table)
    # Another row of the same file.
    with transaction(delta, path) as tx:
        delta.sql(query).collect()
        delta.sql(f"INSERT INTO {table} VALUES (100, 1, 0)")
        other.sql(f"UPDATE {table} SET v = 1 WHERE id = 9")
    assert tx.version == 3
    for change in (f"UPDATE {table} SET v = 7 WHERE id = 4", f"INSERT INTO {table} VALUES (4, 7, 0)"):
        with failing(DeltaConcurrentModificationException, delta, path):
            delta.sql(query).collect()
            delta.sql(f"INSERT INTO {table} VALUES (200, 1, 0)")
            other.sql(change)
        assert 200 not in values(delta, table)
        delta.sql(f"RESTORE TABLE {table} TO VERSION AS OF 3")


def test_a_count_from_the_log_is_a_read_of_all_rows(delta: SparkSession, other: SparkSession, path: str) -> None:
    table = made(delta, path, "vectors", SERIALIZABLE)
    with failing(DeltaConcurrentModificationException, delta, path):
        assert delta.sql(f"SELECT count(*) AS n FROM {table}").collect()[0].n == 10
        delta.sql(f"INSERT INTO {table} VALUES (100, 10, 0)")
        other.sql(f"DELETE FROM {table} WHERE id = 1")


def test_write_skew_is_caught(delta: SparkSession, other: SparkSession, path: str) -> None:
    """Each of two transactions reads the row that the other changes."""
    table = made(delta, path, "vectors", SERIALIZABLE)
    with failing(ConcurrentAppendException, delta, path, match="a query of the transaction"):
        assert delta.sql(f"SELECT v FROM {table} WHERE id = 1").collect()[0].v == 10
        delta.sql(f"UPDATE {table} SET v = 0 WHERE id = 2")
        with transaction(other, path):
            assert other.sql(f"SELECT v FROM {table} WHERE id = 2").collect()[0].v == 20
            other.sql(f"UPDATE {table} SET v = 0 WHERE id = 1")
    assert (values(delta, table)[1], values(delta, table)[2]) == (0, 20)


def test_transactions_on_different_rows_of_one_file_both_land(
    delta: SparkSession, other: SparkSession, path: str
) -> None:
    table = made(delta, path)
    with transaction(delta, path) as first:
        delta.sql(f"UPDATE {table} SET v = v + 1 WHERE id = 1")
        with transaction(other, path) as second:
            other.sql(f"UPDATE {table} SET v = v + 1 WHERE id = 2")
            other.sql(f"DELETE FROM {table} WHERE id = 3")
        other.sql(f"OPTIMIZE {table}")
        delta.sql(f"DELETE FROM {table} WHERE id = 4")
        delta.sql(f"UPDATE {table} SET v = v + 1 WHERE id = 1")
    assert first.version is not None
    assert second.version is not None
    assert first.version > second.version
    assert values(delta, table) == {0: 0, 1: 12, 2: 21, 5: 50, 6: 60, 7: 70, 8: 80, 9: 90}


def test_a_lost_update_of_either_statement_is_a_conflict(delta: SparkSession, other: SparkSession, path: str) -> None:
    table = made(delta, path)
    conflicts = (ConcurrentAppendException, ConcurrentDeleteReadException, ConcurrentDeleteDeleteException)
    for row in (1, 2):
        number = f"conflicts with statement {row} of the transaction, UPDATE"
        with failing(conflicts, delta, path, match=number):
            delta.sql(f"UPDATE {table} SET v = v + 1 WHERE id = 1")
            delta.sql(f"UPDATE {table} SET v = v + 1 WHERE id = 2")
            other.sql(f"UPDATE {table} SET v = 500 WHERE id = {row}")
        assert values(delta, table)[row] == 500


def test_transact_runs_the_whole_block_again(delta: SparkSession, other: SparkSession, path: str) -> None:
    table = made(delta, path)
    calls = []

    def work(tx: object) -> int:
        calls.append(tx)
        delta.sql(f"UPDATE {table} SET v = v + 1 WHERE id = 1")
        if len(calls) < 3:
            other.sql(f"UPDATE {table} SET v = v + 100 WHERE id = 1")
        return int(delta.sql(f"SELECT v FROM {table} WHERE id = 1").collect()[0].v)

    assert transact(delta, path, work) == 211
    assert len(calls) == 3
    assert values(delta, table)[1] == 211


def test_cached_frames_and_views_are_those_of_the_transaction(
    delta: SparkSession, other: SparkSession, path: str
) -> None:
    table = made(delta, path)
    before, inside = delta.table(table).where("id < 8").cache(), None
    delta.table(table).createOrReplaceTempView("in_transaction")
    try:
        assert before.count() == 8
        with transaction(delta, path):
            delta.sql(f"DELETE FROM {table} WHERE id = 1")
            assert (before.count(), delta.table("in_transaction").count()) == (7, 9)
            assert other.table(table).where("id < 8").count() == 8
            inside = delta.table(table).where("id < 6").cache()
            assert inside.count() == 5
            delta.sql(f"DELETE FROM {table} WHERE id = 2")
            assert (inside.count(), other.table(table).where("id < 6").count()) == (4, 6)
            other.sql(f"INSERT INTO {table} VALUES (0, 7, 0)")
            assert (delta.table(table).count(), other.table(table).count()) == (8, 11)
        assert (inside.count(), before.count(), other.table(table).where("id < 6").count()) == (5, 7, 5)
    finally:
        for frame in (before, inside):
            if isinstance(frame, DataFrame):
                frame.unpersist()
        delta.catalog.dropTempView("in_transaction")


@pytest.mark.parametrize("kind", ["vectors", "copies"])
@pytest.mark.parametrize("changes_own", [False, True])
def test_the_feed_has_the_net_changes(delta: SparkSession, path: str, kind: str, changes_own: bool) -> None:
    table = made(delta, path, kind, "'delta.enableChangeDataFeed' = 'true'")
    with transaction(delta, path) as tx:
        delta.sql(f"INSERT INTO {table} VALUES (100, 1, 0)")
        delta.sql(f"UPDATE {table} SET v = -1 WHERE id = 2")
        delta.sql(f"DELETE FROM {table} WHERE id = 3")
        if changes_own:
            delta.sql(f"UPDATE {table} SET v = -5 WHERE id IN (2, 100)")
            delta.sql(f"DELETE FROM {table} WHERE id = 100")
    feed = delta.sql(f"SELECT id, v, _change_type FROM table_changes_by_path('{path}', {tx.version}, {tx.version})")
    rows = {tuple(row) for row in feed.collect()}
    if changes_own:
        assert rows == {(2, 20, "delete"), (2, -5, "insert"), (3, 30, "delete")}
    elif kind == "vectors":
        images = {(2, 20, "update_preimage"), (2, -1, "update_postimage")}
        assert rows == {*images, (3, 30, "delete"), (100, 1, "insert")}
    else:
        # The statements copied rows that an earlier one had written, so only values show what has changed.
        assert rows == {(2, 20, "delete"), (2, -1, "insert"), (3, 30, "delete"), (100, 1, "insert")}
    assert feed.count() == len(rows)


def test_numbers_ids_and_columns_of_the_table(delta: SparkSession, path: str, name: str) -> None:
    delta.sql(
        f"CREATE TABLE {name} (k BIGINT GENERATED ALWAYS AS IDENTITY, id INT) USING delta TBLPROPERTIES "
        "('delta.enableRowTracking' = 'true', 'delta.enableDeletionVectors' = 'true')"
    )
    delta.sql(f"INSERT INTO {name} (id) VALUES (1), (2)")
    ids = dict(delta.sql(f"SELECT id, _metadata.row_id FROM {name}").collect())
    with transaction(delta, name):
        delta.sql(f"INSERT INTO {name} (id) VALUES (3)")
        delta.sql(f"INSERT INTO {name} (id) VALUES (4)")
        delta.sql(f"UPDATE {name} SET id = id * 10 WHERE id IN (2, 4)")
    rows = delta.sql(f"SELECT k, id, _metadata.row_id AS row FROM {name}").collect()
    assert {row.id for row in rows} == {1, 20, 3, 40}
    assert len({row.k for row in rows}) == len({row.row for row in rows}) == 4
    assert {row.id: row.row for row in rows}[20] == ids[2]
    frame = delta.createDataFrame([(9, "x")], "id int, extra string")
    with transaction(delta, name):
        frame.write.format("delta").option("mergeSchema", "true").mode("append").saveAsTable(name)
        delta.sql(f"UPDATE {name} SET extra = 'y' WHERE id = 1")
        later = frame.withColumnRenamed("extra", "later").write.format("delta").option("mergeSchema", "true")
        with pytest.raises(StatementInTransactionError, match="only the first statement"):
            later.mode("append").saveAsTable(name)
    assert delta.sql(f"SELECT extra FROM {name} WHERE id IN (1, 9) ORDER BY id").collect() == [("y",), ("x",)]


REFUSED = {
    "OPTIMIZE": "OPTIMIZE {t}",
    "REORG": "REORG TABLE {t} APPLY (PURGE)",
    "VACUUM": "VACUUM {t}",
    "RESTORE": "RESTORE TABLE {t} TO VERSION AS OF 0",
    "SET TBLPROPERTIES": "ALTER TABLE {t} SET TBLPROPERTIES ('a' = 'b')",
    "ADD COLUMNS": "ALTER TABLE {t} ADD COLUMN z INT",
    "ADD CONSTRAINT": "ALTER TABLE {t} ADD CONSTRAINT c CHECK (id >= 0)",
    "GENERATE": "GENERATE symlink_format_manifest FOR TABLE {t}",
    "CREATE TABLE": "CREATE TABLE {new} (a INT) USING delta",
    "CREATE TABLE AS SELECT": "CREATE TABLE {new} USING delta AS SELECT 1 AS a",
    "CREATE OR REPLACE TABLE": "CREATE OR REPLACE TABLE {named} (a INT) USING delta",
    "DROP TABLE": "DROP TABLE {named}",
    "RENAME TO": "ALTER TABLE {named} RENAME TO {new}",
    "CLONE": "CREATE TABLE {new} SHALLOW CLONE {t}",
    "DELETE": "DELETE FROM {named}",
    "WRITE": "INSERT INTO {named} VALUES (1)",
}


@pytest.mark.parametrize("operation", REFUSED)
def test_other_statements_are_refused_before_they_write(
    delta: SparkSession, path: str, name: str, operation: str
) -> None:
    table, new = made(delta, path), f"{name}_new"
    delta.sql(f"CREATE TABLE {name} USING delta AS SELECT 1 AS a")
    with transaction(delta, path):
        delta.sql(f"DELETE FROM {table} WHERE id = 1")
        # Its log has another version each time something is written.
        logs = {table: len(history(delta, table)), name: len(history(delta, name))}
        with pytest.raises(StatementInTransactionError) as refused:
            delta.sql(REFUSED[operation].format(t=table, named=name, new=new))
        assert operation.partition(" ")[0] in str(refused.value)
        assert {log: len(history(delta, log)) for log in logs} == logs
        assert not delta.catalog.tableExists(new)
        assert delta.table(table).count() == 9
    assert (delta.table(table).count(), delta.table(name).count()) == (9, 1)


def test_other_tables_are_read_at_their_first_version(delta: SparkSession, other: SparkSession, tmp_path: Path) -> None:
    table, second = made(delta, f"{tmp_path}/t"), made(delta, f"{tmp_path}/u")
    with transaction(delta, f"{tmp_path}/t"):
        assert delta.table(second).count() == 10
        other.sql(f"DELETE FROM {second} WHERE id < 5")
        delta.sql(f"DELETE FROM {table} WHERE id IN (SELECT id FROM {second} WHERE id < 8)")
        assert delta.table(second).count() == 10
    assert values(delta, table) == {8: 80, 9: 90}
    assert delta.table(second).count() == 5


def test_a_transaction_is_kept_while_other_sessions_come_and_go(delta: SparkSession, path: str) -> None:
    """Otherwise its next statement would be committed on its own."""
    table, spark = made(delta, path), delta.newSession()
    spark.sql("BEGIN TRANSACTION")
    spark.sql(f"DELETE FROM {table} WHERE id = 1")
    vars(spark).pop("_anabranch_delta_session", None)
    for _ in range(2 * SESSIONS_KEPT_MAX):
        DeltaSession.of(delta.newSession())
    gc.collect()
    spark.sql(f"DELETE FROM {table} WHERE id = 2")
    assert (spark.table(table).count(), delta.table(table).count()) == (8, 10)
    # As for a client that has gone.
    assert DeltaSession.release([identity(spark)]) == 1
    with pytest.raises(TransactionStateError, match="no transaction"):
        spark.sql("COMMIT")
    assert delta.table(table).count() == 10


def test_savepoints(delta: SparkSession, path: str) -> None:
    table = made(delta, path)
    with transaction(delta, path) as tx:
        delta.sql(f"DELETE FROM {table} WHERE id = 1")
        tx.savepoint("First")
        delta.sql(f"DELETE FROM {table}")
        tx.rollback_to("first")
    assert delta.table(table).count() == 9


def test_a_transaction_runs_the_jobs_of_its_statements(delta: SparkSession, path: str) -> None:
    context: Any = delta.sparkContext

    def jobs_of(*statements: str) -> int:
        # Not those that Spark lists: of many it forgets the oldest.
        scheduler = context._jsc.sc().dagScheduler()
        before = scheduler.numTotalJobs()
        for statement in statements:
            delta.sql(statement)
        return int(scheduler.numTotalJobs()) - before

    table = made(delta, path)
    statements = [
        f"INSERT INTO {table} VALUES (100, 1, 0)",
        f"DELETE FROM {table} WHERE id = 3",
        f"UPDATE {table} SET v = 7 WHERE id = 4",
    ]
    outside = jobs_of(*statements)
    delta.sql(f"RESTORE TABLE {table} TO VERSION AS OF 1")
    assert jobs_of("BEGIN TRANSACTION", *statements) == outside
    assert jobs_of("COMMIT") == 0


def test_a_batch_of_several_statements_is_exactly_once(delta: SparkSession, path: str, tmp_path: Path) -> None:
    """Each batch of a stream is written by two statements, and a batch that comes again by none."""
    table = made(delta, path, rows=0)
    source = str(tmp_path / "source")
    delta.range(3).write.format("delta").save(source)
    settings = ("spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion")

    def write(batch: DataFrame, number: int) -> None:
        spark = batch.sparkSession
        for _ in range(2):
            before = delta.table(table).count()
            spark.conf.set(settings[0], "twice")
            spark.conf.set(settings[1], str(number))
            with transaction(spark, path):
                batch.createOrReplaceTempView("batch")
                spark.sql(f"INSERT INTO {table} SELECT id, 1L, 0L FROM batch")
                spark.sql(f"INSERT INTO {table} SELECT id + 100, 1L, 0L FROM batch")
                assert delta.table(table).count() == before

    for _ in range(2):
        query = delta.readStream.format("delta").load(source).writeStream.foreachBatch(write)
        query.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(
            availableNow=True
        ).start().awaitTermination()
        if delta.table(table).count() == 6:
            delta.range(3, 4).write.format("delta").mode("append").save(source)
    assert sorted(values(delta, table)) == [0, 1, 2, 3, 100, 101, 102, 103]
    assert [entry.operation for entry in history(delta, table)][-2:] == ["TRANSACTION", "TRANSACTION"]


FAILS = {
    "a constraint": "UPDATE {t} SET v = -7 WHERE id = 1",
    "a cast": "UPDATE {t} SET v = CAST(concat('x', id) AS BIGINT) WHERE id = 1",
    "a job": "DELETE FROM {t} WHERE id = 1 AND raise_error('no') IS NULL",
    "a merge": "MERGE INTO {t} t USING (SELECT 1L AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = -7",
}


@pytest.mark.parametrize("what", FAILS)
def test_a_statement_that_fails_changes_nothing_and_has_read(
    delta: SparkSession, other: SparkSession, path: str, what: str
) -> None:
    """That it failed depends on the rows that it read, and the program knows it. Rows of its own depend on none."""
    table = made(delta, path, "vectors", SERIALIZABLE)
    delta.sql(f"ALTER TABLE {table} ADD CONSTRAINT positive CHECK (v >= 0)")
    failed = (DeltaError, PySparkException)
    with transaction(delta, path):
        delta.sql(f"UPDATE {table} SET v = 7 WHERE id = 2")
        whole = DeltaSession.of(delta).transaction
        assert whole is not None
        assert whole.target is not None
        before = whole.target.snapshot, whole.target.net, whole.target.statements
        with pytest.raises(failed):
            delta.sql(FAILS[what].format(t=table))
        assert (whole.target.snapshot, whole.target.net, whole.target.statements) == before
    assert values(delta, table) == {row: row * 10 for row in range(10)} | {2: 7}
    with failing(DeltaConcurrentModificationException, delta, path, match="a statement that failed"):
        delta.sql(f"INSERT INTO {table} VALUES (100, 1, 0)")
        with pytest.raises(failed):
            delta.sql(FAILS[what].format(t=table))
        other.sql(f"DELETE FROM {table} WHERE id = 1")
    with transaction(delta, path):
        with pytest.raises(DeltaError, match="CONSTRAINT"):
            delta.sql(f"INSERT INTO {table} VALUES (200, -1, 0)")
        delta.sql(f"INSERT INTO {table} VALUES (201, 1, 0)")
        other.sql(f"UPDATE {table} SET v = 1 WHERE id = 9")
    assert {9: 1, 201: 1}.items() <= values(delta, table).items()


def test_a_write_that_only_rearranges_rows_is_refused(delta: SparkSession, path: str) -> None:
    """Changes of its rows by other statements would appear in the feed and in streams as new rows."""
    table = made(delta, path)
    with transaction(delta, path):
        delta.sql(f"DELETE FROM {table} WHERE id = 1")
        writer = delta.table(table).write.format("delta").mode("overwrite").option("dataChange", "false")
        with pytest.raises(StatementInTransactionError, match="dataChange=false"):
            writer.save(path)
    assert delta.table(table).count() == 9
