"""Clients of one server, over both protocols: statements, errors, sessions, conflicts, cancelling, metadata for BI tools."""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import shutil
import subprocess
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException, UnsupportedOperationException

import anabranch
from anabranch.errors.base import DeltaError
from anabranch.errors.constraints import CheckConstraintViolationError
from anabranch.errors.log import VersionNotFoundError
from anabranch.errors.tables import PathExistsError
from anabranch.table_transactions import TableTransaction, transact
from anabranch.tables import DeltaTable
from serve.served import (
    Client,
    ConnectClient,
    JdbcClient,
    Served,
    beeline,
    client,
    has_begun,
    release,
    served,
    until,
    waiting,
)

pytest.importorskip("grpc")
pytest.importorskip("pyhive")
pytestmark = [pytest.mark.spark, pytest.mark.long]

SESSIONS = int(os.environ.get("ANABRANCH_SERVE_SESSIONS", "12"))
LEFT_MAX = 10
"""The counts vary by this much without a leak."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("served") / "warehouse") as started:
        yield started


@pytest.fixture(params=["connect", "jdbc"])
def by(request: pytest.FixtureRequest, server: Served) -> Iterator[Client]:
    with client(server, request.param) as made:
        yield made


@pytest.fixture
def table(by: Client) -> Iterator[str]:
    """A table with rows 1 a, 2 b, 3 c."""
    name = f"t_{uuid.uuid4().hex[:8]}"
    by.rows(f"CREATE TABLE {name} (id BIGINT, v STRING) USING delta")
    by.rows(f"INSERT INTO {name} VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    yield name
    by.rows(f"DROP TABLE IF EXISTS {name}")


def sqlstate_of(error: BaseException) -> str:
    get = getattr(error, "getSqlState", None)
    return str(get() if get else error.args[0].status.sqlState)  # type: ignore[attr-defined]


def all_rows(by: Client, table: str) -> list[tuple[Any, ...]]:
    return by.rows(f"SELECT * FROM {table} ORDER BY id")


def test_statements(by: Client, table: str) -> None:
    assert by.rows(f"UPDATE {table} SET v = 'z' WHERE id = 1") == [(1,)]
    assert by.rows(f"DELETE FROM {table} WHERE id IN (SELECT max(id) FROM {table})") == [(1,)]
    merged = by.rows(
        f"MERGE INTO {table} t USING (SELECT explode(array(2, 5)) id, 'm' v) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert merged == [(2, 1, 0, 1)]
    assert all_rows(by, table) == [(1, "z"), (2, "m"), (5, "m")]
    assert by.rows(f"SELECT * FROM {table} VERSION AS OF 1 ORDER BY id") == [(1, "a"), (2, "b"), (3, "c")]
    by.rows(f"OPTIMIZE {table}")
    history = by.rows(f"DESCRIBE HISTORY {table}")
    assert [row[4] for row in history] == ["OPTIMIZE", "MERGE", "DELETE", "UPDATE", "WRITE", "CREATE TABLE"]
    assert by.rows(f"DESCRIBE DETAIL {table}")[0][0] == "delta"
    assert all_rows(by, table) == [(1, "z"), (2, "m"), (5, "m")]


def test_a_transaction_is_that_of_its_client(server: Served, by: Client, table: str) -> None:
    """Nothing of it is seen by others before the commit, and nothing is left of a client that has gone."""
    by.rows(f"BEGIN TRANSACTION ON {table}")
    by.rows(f"DELETE FROM {table} WHERE id = 1")
    by.rows(f"UPDATE {table} SET v = 'z' WHERE id = 2")
    # Not all rows, which would be read by the transaction.
    assert by.rows(f"SELECT * FROM {table} WHERE id < 3") == [(2, "z")]
    with client(server, "connect") as other:
        assert len(all_rows(other, table)) == 3
        other.rows(f"UPDATE {table} SET v = 'y' WHERE id = 3")
        assert by.rows("COMMIT") == [(3,)]
        assert all_rows(other, table) == all_rows(by, table) == [(2, "z"), (3, "y")]
    for protocol in ("connect", "jdbc"):
        with client(server, protocol) as leaving:
            leaving.rows("BEGIN TRANSACTION")
            leaving.rows(f"DELETE FROM {table}")
            assert all_rows(leaving, table) == []
    assert all_rows(by, table) == [(2, "z"), (3, "y")]
    history = by.rows(f"DESCRIBE HISTORY {table}")
    assert [row[4] for row in history] == ["TRANSACTION", "UPDATE", "WRITE", "CREATE TABLE"]


def test_a_transaction_of_python_by_connect(server: Served) -> None:
    table = f"t_{uuid.uuid4().hex[:8]}"
    with client(server, "connect") as owner, client(server, "jdbc") as other:
        assert isinstance(owner, ConnectClient)
        # For errors of our classes, after which the function is called again.
        anabranch.enable(owner.session)
        owner.rows(f"CREATE TABLE {table} USING delta AS SELECT id, 0 AS v FROM range(3)")
        calls = []

        def work(begun: TableTransaction) -> int:
            calls.append(begun)
            frame = owner.session.table(table).where("id = 1")
            owner.rows(f"UPDATE {table} SET v = v + 1 WHERE id = 1")
            DeltaTable.forName(owner.session, table).delete("id = 2")
            if len(calls) == 1:
                other.rows(f"UPDATE {table} SET v = 10 WHERE id = 1")
            return int(frame.collect()[0].v)

        assert transact(owner.session, table, work) == 11
        assert len(calls) == 2
        assert all_rows(other, table) == [(0, 0), (1, 11)]
        owner.rows(f"DROP TABLE {table}")


def test_types_arrive(by: Client, table: str) -> None:
    by.rows(
        f"CREATE OR REPLACE TABLE {table} USING delta AS SELECT 1 id, CAST(2.5 AS DECIMAL(10, 2)) d, DATE'2026-01-02' day, "
        "TIMESTAMP'2026-01-02 03:04:05' at, true yes, CAST(1.5 AS DOUBLE) f, CAST(NULL AS STRING) nothing"
    )
    assert by.rows(f"SELECT * FROM {table}") == [
        (
            1,
            Decimal("2.50"),
            # PyHive has no type for it.
            datetime.date(2026, 1, 2) if by.protocol == "connect" else "2026-01-02",
            datetime.datetime(2026, 1, 2, 3, 4, 5),
            True,
            1.5,
            None,
        )
    ]


ERRORS = [
    ("SELECT * FROM {t} VERSION AS OF 1000", "DELTA_VERSION_NOT_FOUND", "22003"),
    ("SELECT nope FROM {t}", "UNRESOLVED_COLUMN.WITH_SUGGESTION", "42703"),
    ("INSERT INTO {t} VALUES (-1, 'x')", "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", "23001"),
]


def test_errors_have_condition_and_sqlstate(by: Client, table: str) -> None:
    by.rows(f"ALTER TABLE {table} ADD CONSTRAINT positive CHECK (id > 0)")
    for statement, condition, sqlstate in ERRORS:
        with pytest.raises(Exception, match=re.escape(condition)) as raised:
            by.rows(statement.format(t=table))
        assert sqlstate_of(raised.value) == sqlstate
    assert len(all_rows(by, table)) == 3


def test_sessions_are_apart(by: Client, server: Served) -> None:
    """Views, settings and variables of one session are not visible in another, and end with it."""
    by.rows("CREATE TEMPORARY VIEW mine AS SELECT 1 AS one")
    by.rows("SET spark.sql.shuffle.partitions = 7")
    by.rows("DECLARE VARIABLE counted INT DEFAULT 5")
    with client(server, by.protocol) as other:
        for statement in ("SELECT * FROM mine", "SELECT counted"):
            with pytest.raises(Exception, match=r"TABLE_OR_VIEW_NOT_FOUND|UNRESOLVED_COLUMN"):
                other.rows(statement)
        assert other.rows("SET spark.sql.shuffle.partitions") == [("spark.sql.shuffle.partitions", "2")]
    assert by.rows("SELECT one + counted FROM mine") == [(6,)]


def test_readers_and_writers_of_a_client(server: Served, tmp_path: Any) -> None:
    """PySpark's own classes work in a client without anabranch."""
    path = str(tmp_path / "by path")
    with client(server, "connect") as by:
        assert isinstance(by, ConnectClient)
        spark = by.session
        spark.range(3).write.format("delta").save(path)
        spark.range(3, 5).write.format("delta").mode("append").save(path)
        assert spark.read.format("delta").load(path).count() == 5
        assert spark.read.format("delta").option("versionAsOf", 0).load(path).count() == 3
        spark.range(2).write.format("delta").mode("overwrite").saveAsTable("by_name")
        spark.table("by_name").writeTo("by_name").append()
        assert spark.table("by_name").count() == 4
        spark.sql("DROP TABLE by_name")
        target = str(tmp_path / "streamed")
        query = (
            spark.readStream.format("delta")
            .load(path)
            .writeStream.format("delta")
            .option("checkpointLocation", f"{target}/_checkpoint")
            .trigger(availableNow=True)
            .start(target)
        )
        assert query.awaitTermination(120)
        assert spark.read.format("delta").load(target).count() == 5


def test_save_as_table_of_a_client_overwrites_rows_and_no_definition(server: Served) -> None:
    """Writers work as in a session of the driver; `writeTo(…).createOrReplace()` replaces the table."""
    with client(server, "connect") as by:
        assert isinstance(by, ConnectClient)
        rows = by.session.range(4).selectExpr("id", "id % 2 AS part")
        rows.write.format("delta").partitionBy("part").saveAsTable("kept")
        by.rows("ALTER TABLE kept SET TBLPROPERTIES ('team' = 'mine')")
        fewer = rows.where("part = 1").selectExpr("id + 10 AS id", "part")
        fewer.write.format("delta").mode("overwrite").option("replaceWhere", "part = 1").saveAsTable("kept")
        assert sorted(by.rows("SELECT id FROM kept")) == [(0,), (2,), (11,), (13,)]
        fewer.write.format("delta").mode("overwrite").saveAsTable("kept")
        assert sorted(by.rows("SELECT id FROM kept")) == [(11,), (13,)]
        (detail,) = by.session.sql("DESCRIBE DETAIL kept").collect()
        assert (detail.partitionColumns, detail.properties["team"]) == (["part"], "mine")
        fewer.writeTo("kept").using("delta").createOrReplace()
        (detail,) = by.session.sql("DESCRIBE DETAIL kept").collect()
        assert (detail.partitionColumns, "team" in detail.properties) == ([], False)
        by.rows("DROP TABLE kept")


def test_enable_leaves_a_client_as_it_is(server: Served) -> None:
    """The server knows Delta already."""
    import anabranch

    with client(server, "connect") as by:
        assert isinstance(by, ConnectClient)
        assert anabranch.enable(by.session) is by.session
        by.rows("CREATE TABLE of_client USING delta AS SELECT 1L AS id")
        assert by.session.read.format("delta").table("of_client").count() == 1
        by.rows("DROP TABLE of_client")
        # For all clients of this process.
        anabranch.disable(by.session)


def test_a_client_that_is_enabled_raises_our_errors(server: Served, tmp_path: Any) -> None:
    """Reads, writes and statements raise our errors with their facts, until the client is disabled."""
    import anabranch

    path = str(tmp_path / "t")
    with client(server, "connect") as by:
        assert isinstance(by, ConnectClient)
        spark = by.session
        spark.range(3).write.format("delta").save(path)
        failing: list[tuple[type[DeltaError], Callable[[], Any]]] = [
            (PathExistsError, lambda: spark.range(1).write.format("delta").save(path)),
            (VersionNotFoundError, lambda: spark.read.format("delta").option("versionAsOf", 9).load(path).count()),
            (CheckConstraintViolationError, lambda: spark.sql(f"INSERT INTO delta.`{path}` VALUES (-1)")),
        ]
        by.rows(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT positive CHECK (id >= 0)")
        for is_enabled in (False, True, False):
            (anabranch.enable if is_enabled else anabranch.disable)(spark)
            for error, call in failing:
                with pytest.raises(PySparkException, match=error.condition) as raised:
                    call()
                assert isinstance(raised.value, error) is is_enabled
                assert raised.value.getSqlState() == error.sqlstate
        anabranch.enable(spark)
        with pytest.raises(VersionNotFoundError) as raised:
            spark.sql(f"SELECT * FROM delta.`{path}` VERSION AS OF 9").collect()
        assert raised.value.version == 9
        anabranch.disable(spark)


def test_a_plain_client_catches_what_it_catches_elsewhere(server: Served, tmp_path: Any) -> None:
    """Covers bug B83: all were UnsupportedOperationException, with a hundred lines of Java."""
    path = str(tmp_path / "t")
    with client(server, "connect") as by:
        assert isinstance(by, ConnectClient)
        spark = by.session
        rows = spark.range(3)
        rows.write.format("delta").save(path)
        more = rows.selectExpr("id", "1 AS more")
        for condition, ask in (
            ("DELTA_PATH_EXISTS", lambda: rows.write.format("delta").save(path)),
            ("DELTA_METADATA_MISMATCH", lambda: more.write.format("delta").mode("append").save(path)),
            (r"^\[[A-Z_.0-9]+\] ", lambda: spark.read.format("delta").option("versionAsOf", 99).load(path).collect()),
            (r"^\[[A-Z_.0-9]+\] ", lambda: spark.sql(f"SELECT * FROM delta.`{path}` VERSION AS OF 99").collect()),
            (r"^\[[A-Z_.0-9]+\] ", lambda: spark.read.format("delta").load(f"{path}/missing").collect()),
            (r"^\[[A-Z_.0-9]+\] ", lambda: spark.sql(f"ALTER TABLE delta.`{path}` DROP CONSTRAINT absent")),
            (r"^\[[A-Z_.0-9]+\] ", lambda: spark.sql(f"OPTIMIZE delta.`{path}` ZORDER BY (absent)")),
            (r"^\[[A-Z_.0-9]+\] ", lambda: spark.sql(f"DESCRIBE HISTORY delta.`{path}/missing`").collect()),
            (r"^\[[A-Z_.0-9]+\] ", lambda: spark.sql(f"CREATE TABLE made (id INT) USING delta LOCATION '{path}'")),
        ):
            with pytest.raises(AnalysisException, match=condition) as raised:
                ask()
            assert "\tat " not in str(raised.value)
            assert len(str(raised.value).splitlines()) < 10, str(raised.value)
        spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.appendOnly' = 'true')")
        with pytest.raises(UnsupportedOperationException, match="DELTA_CANNOT_MODIFY_APPEND_ONLY") as refused:
            spark.sql(f"DELETE FROM delta.`{path}`")
        assert "\tat " not in str(refused.value)


def test_the_error_of_delta_sparks_own_classes_names_what_to_use(server: Served) -> None:
    """delta-spark's package sends its own messages."""
    from google.protobuf.any_pb2 import Any as AnyMessage
    from pyspark.sql.connect import proto
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.plan import LogicalPlan

    class Sent(LogicalPlan):
        def plan(self, session: Any) -> Any:
            relation = self._create_proto_relation()
            relation.extension.CopyFrom(AnyMessage(type_url="type.googleapis.com/io.delta.connect.DeltaRelation"))
            return relation

    with client(server, "connect") as by:
        assert isinstance(by, ConnectClient)
        command = proto.Command()
        command.extension.CopyFrom(AnyMessage(type_url="type.googleapis.com/io.delta.connect.DeltaCommand"))
        for sends in (
            lambda: DataFrame(Sent(None), by.session).collect(),
            lambda: by.session.client.execute_command(command),
        ):
            with pytest.raises(Exception, match="ANABRANCH_DELTA_CONNECT_UNSUPPORTED") as raised:
                sends()
            assert sqlstate_of(raised.value) == "0A000"


def test_a_conflict_reaches_clients_of_both_protocols(
    by: Client, table: str, server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A MERGE with a slow source, while another client changes the same row."""
    from pyspark.errors.exceptions import connect

    deltas = [type(kind, (connect.SparkConnectGrpcException,), {}) for kind in ("Append", "Any")]
    for kind, name in zip(deltas, ("ConcurrentAppendException", "DeltaConcurrentModificationException"), strict=True):
        monkeypatch.setitem(connect.EXCEPTION_CLASS_MAPPING, f"io.delta.exceptions.{name}", kind)
    mark = f"conflict_{table}"
    failures: list[BaseException] = []

    def merge() -> None:
        try:
            by.rows(
                f"MERGE INTO {table} t USING {waiting(mark)} s ON t.id = length(s.v) - length(s.v) + 1 "
                "WHEN MATCHED THEN UPDATE SET v = 'mine'"
            )
        except Exception as error:
            failures.append(error)

    with client(server, "connect") as other:
        merging = threading.Thread(target=merge)
        merging.start()
        until(lambda: has_begun(other, mark))
        other.rows(f"UPDATE {table} SET v = 'theirs' WHERE id = 1")
        release(other, mark)
        merging.join()
        assert [row for row in all_rows(other, table) if row[0] == 1] == [(1, "theirs")]
    assert len(failures) == 1
    assert "DELTA_CONCURRENT" in str(failures[0])
    assert sqlstate_of(failures[0]) == "2D521"
    assert table in str(failures[0])
    if by.protocol == "connect":
        assert isinstance(failures[0], deltas[0]), "the class that delta-spark's client has for it"


def test_a_statement_is_cancelled_and_nothing_is_half_done(by: Client, table: str, server: Served) -> None:
    mark = f"cancel_{table}"
    update = f"MERGE INTO {table} t USING {waiting(mark)} s ON t.id <= 2 WHEN MATCHED THEN UPDATE SET v = 'q'"
    with client(server, "connect") as other:
        if isinstance(by, JdbcClient):
            by.cursor.execute(update, async_=True)
            until(lambda: has_begun(other, mark))
            by.cursor.cancel()
        else:
            assert isinstance(by, ConnectClient)
            with ThreadPoolExecutor(1) as pool:
                running = pool.submit(by.rows, update)
                until(lambda: has_begun(other, mark))
                by.cancel()
                with pytest.raises(Exception, match=r"CANCEL|cancel"):
                    running.result(30)
        assert all_rows(other, table) == [(1, "a"), (2, "b"), (3, "c")]
        assert other.rows(f"UPDATE {table} SET v = 'later' WHERE id = 1") == [(1,)]


def test_questions_of_bi_tools(server: Served, table_of_jdbc: tuple[JdbcClient, str]) -> None:
    """Catalogs, schemas, tables, columns and types, as drivers request them."""
    by, table = table_of_jdbc
    cursor = by.cursor

    def request(call: str, **facts: Any) -> list[tuple[Any, ...]]:
        from TCLIService import ttypes

        connection = by.connection
        message = getattr(ttypes, f"T{call}Req")(connection.sessionHandle, **facts)
        response = getattr(connection.client, call)(message)
        assert response.status.statusCode == ttypes.TStatusCode.SUCCESS_STATUS, response.status
        cursor._reset_state()
        cursor._operationHandle = response.operationHandle
        cursor._state = cursor._STATE_RUNNING
        return list(cursor.fetchall())

    assert ("default",) in {row[:1] for row in request("GetSchemas", schemaName="%")}
    tables = request("GetTables", schemaName="default", tableName=table, tableTypes=["TABLE"])
    assert [row[1:4] for row in tables] == [("default", table, "TABLE")]
    columns = request("GetColumns", schemaName="default", tableName=table, columnName="%")
    assert [(row[3], row[5]) for row in columns] == [("id", "BIGINT"), ("v", "STRING")]
    assert request("GetTableTypes")
    assert request("GetTypeInfo")
    assert request("GetCatalogs") == []
    assert table in {row[1] for row in by.rows("SHOW TABLES")}
    described = by.rows(f"DESCRIBE EXTENDED {table}")
    assert ("Provider", "delta") in {row[:2] for row in described}


def test_a_connection_can_request_lists_as_hives(server: Served, table_of_jdbc: tuple[JdbcClient, str]) -> None:
    """SQLAlchemy's dialect for Hive takes the first column of SHOW TABLES for the name."""
    from pyhive import hive

    by, table = table_of_jdbc
    assert ("default", table, False) in by.rows("SHOW TABLES IN `default`")
    settings = {"set:hiveconf:spark.anabranch.hiveListings": "true"}
    with hive.connect(host="127.0.0.1", port=server.jdbc_port, configuration=settings) as connection:
        cursor = connection.cursor()
        cursor.execute("SHOW TABLES IN `default`")
        assert (table,) in cursor.fetchall()
    assert ("default", table, False) in by.rows("SHOW TABLES IN `default`")


def test_beeline(server: Served, table_of_jdbc: tuple[JdbcClient, str]) -> None:
    """Rows, and an error with its SQLSTATE."""
    _, table = table_of_jdbc
    statements = [
        f"INSERT INTO {table} VALUES (7, 'seven')",
        f"UPDATE {table} SET v = concat(v, '!') WHERE id IN (SELECT max(id) FROM {table})",
        f"SELECT id, v FROM {table}",
        f"SELECT * FROM {table} VERSION AS OF 1000",
    ]
    outcome = beeline(str(server.ready["jdbc"]), *(part for statement in statements for part in ("-e", statement)))
    assert "7,seven!" in outcome.stdout.splitlines()
    assert "DELTA_VERSION_NOT_FOUND" in outcome.stderr
    assert "state=22003" in outcome.stderr


@pytest.fixture
def table_of_jdbc(server: Served) -> Iterator[tuple[JdbcClient, str]]:
    name = f"bi_{uuid.uuid4().hex[:8]}"
    with client(server, "jdbc") as by:
        assert isinstance(by, JdbcClient)
        by.rows(f"CREATE TABLE {name} (id BIGINT, v STRING) USING delta")
        yield by, name
        by.rows(f"DROP TABLE {name}")


def test_sixteen_clients_change_rows_of_one_table_beside_optimize(server: Served) -> None:
    """Writers of disjoint rows: no commit is refused, no change is lost."""
    clients, rounds = 16, 2
    with client(server, "connect") as owner:
        owner.rows("DROP TABLE IF EXISTS counters")
        owner.rows(
            "CREATE TABLE counters USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true') "
            f"AS SELECT id, 0L AS n FROM range(0, {clients}, 1, 2)"
        )

        def count(number: int) -> None:
            with client(server, ("connect", "jdbc")[number % 2]) as by:
                for _ in range(rounds):
                    assert by.rows(f"UPDATE counters SET n = n + 1 WHERE id = {number}") == [(1,)]

        done = threading.Event()

        def optimize() -> int:
            runs = 0
            while not done.is_set():
                owner.rows("OPTIMIZE counters")
                runs += 1
            return runs

        with ThreadPoolExecutor(clients + 1) as pool:
            optimizing = pool.submit(optimize)
            counting = [pool.submit(count, number) for number in range(clients)]
            try:
                for counter in counting:
                    counter.result(300)
            finally:
                done.set()
            assert optimizing.result(120) >= 1
        assert owner.rows("SELECT id, n FROM counters ORDER BY id") == [(number, rounds) for number in range(clients)]
        owner.rows("DROP TABLE counters")


def left_behind(server: Served) -> dict[str, int]:
    """Resources that sessions could leak: threads and descriptors of both processes, objects in the JVM's heap."""
    counts = {}
    for name, process in (("python", server.process.pid), ("jvm", server.jvm())):
        counts[f"threads of {name}"] = len(os.listdir(f"/proc/{process}/task"))
        counts[f"descriptors of {name}"] = len(os.listdir(f"/proc/{process}/fd"))
    jcmd = shutil.which("jcmd")
    if jcmd:
        # jcmd collects garbage before it counts.
        outcome = subprocess.run(
            [jcmd, str(server.jvm()), "GC.class_histogram"], capture_output=True, text=True, check=True
        )
        for name, kind in (
            ("sessions", r"org\.apache\.spark\.sql\.classic\.SparkSession"),
            ("calls", r"py4j\.ClientServerConnection"),
        ):
            counted = re.search(rf"(\d+) +\d+ +{kind}\b(?!\$)", outcome.stdout)
            counts[name] = int(counted[1]) if counted else 0
    return counts


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="counts by /proc")
def test_sessions_that_end_leave_nothing(server: Served) -> None:
    def use(count: int) -> None:
        for number in range(count):
            with client(server, ("connect", "jdbc")[number % 2]) as by:
                assert by.rows("SELECT count(*) FROM kept") == [(1,)]
                by.rows("UPDATE kept SET n = n + 1")

    with client(server, "connect") as owner:
        owner.rows("CREATE OR REPLACE TABLE kept USING delta AS SELECT 0L AS n")
    use(4)
    before = left_behind(server)
    use(SESSIONS)
    # Spark's idle threads end after a minute, and each holds the session that it was made for.
    with contextlib.suppress(AssertionError):
        until(lambda: not too_much(before, left_behind(server)), seconds=180)
    after = left_behind(server)
    print(before, after)
    assert not too_much(before, after)
    with client(server, "jdbc") as owner:
        assert owner.rows("SELECT n FROM kept") == [(4 + SESSIONS,)]
        owner.rows("DROP TABLE kept")


def too_much(before: dict[str, int], after: dict[str, int]) -> dict[str, tuple[int, int]]:
    return {name: (before[name], after[name]) for name in before if after[name] > before[name] + LEFT_MAX}
