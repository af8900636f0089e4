"""Clients that are restricted to the warehouse: no statement of either protocol reaches a file outside it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from serve.served import ConnectClient, Served, client, connect_client, served

pytest.importorskip("grpc")
pytest.importorskip("pyhive")
pytestmark = [pytest.mark.spark, pytest.mark.long]

OUTSIDE = "ANABRANCH_PATH_OUTSIDE_WAREHOUSE"
REFUSED = "ANABRANCH_REFUSED_TO_CLIENTS"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The warehouse, and a folder next to it with files and a link to it."""
    folder = tmp_path_factory.mktemp("kept")
    warehouse, outside = folder / "warehouse", folder / "outside"
    warehouse.mkdir()
    (outside / "files").mkdir(parents=True)
    (outside / "files/secret.csv").write_text("1,secret\n")
    (warehouse / "link").symlink_to(outside)
    return warehouse, outside


@pytest.fixture(scope="module")
def server(folders: tuple[Path, Path]) -> Iterator[Served]:
    warehouse, _ = folders
    with served(warehouse, "--warehouse-only") as started:
        with client(started, "jdbc") as by:
            by.rows("CREATE TABLE kept (id BIGINT, v STRING) USING delta")
            by.rows("INSERT INTO kept VALUES (1, 'a')")
            by.rows("CREATE TABLE parts (id BIGINT, p STRING) USING parquet PARTITIONED BY (p)")
        yield started


STATEMENTS = {
    OUTSIDE: [
        "SELECT * FROM delta.`{o}/t`",
        "SELECT * FROM delta.`{w}/../outside/t`",
        "SELECT * FROM delta.`{w}/link/t`",
        "SELECT * FROM csv.`{o}/files`",
        "SELECT * FROM csv.`{w}/link/files`",
        "SELECT * FROM csv.`{w}/../outside/files`",
        "SELECT * FROM text.`{w}/{{x,../outside}}/files`",
        "SELECT * FROM csv.`file:{o}/files`",
        "SELECT * FROM binaryFile.`{w}/_metastore/service.properties`",
        "SELECT * FROM csv.`{w}`",
        "SELECT * FROM csv.`hdfs://elsewhere/files`",
        "CREATE TABLE other USING delta LOCATION '{o}/t'",
        "CREATE TABLE other (id BIGINT) USING delta LOCATION '{o}/t'",
        "CREATE TABLE other USING delta LOCATION '{o}/t' AS SELECT 1 AS id",
        "CREATE TABLE other (id BIGINT) USING csv LOCATION '{o}/files'",
        "CREATE TABLE other (id BIGINT) USING csv OPTIONS (path '{o}/files')",
        "CREATE TABLE other USING parquet LOCATION '{o}/t' AS SELECT 1 AS id",
        "CREATE TABLE other (id BIGINT) STORED AS PARQUET LOCATION '{o}/t'",
        "CREATE EXTERNAL TABLE other (line STRING) LOCATION '{o}/files'",
        "CREATE TABLE other LIKE kept LOCATION '{o}/t'",
        "CREATE TABLE other SHALLOW CLONE kept LOCATION '{o}/t'",
        "CREATE TABLE other SHALLOW CLONE delta.`{o}/t`",
        "CREATE TEMPORARY VIEW other USING csv OPTIONS (path '{o}/files')",
        "CREATE VIEW other AS SELECT * FROM csv.`{o}/files`",
        "CREATE DATABASE other LOCATION '{o}'",
        "ALTER TABLE kept SET LOCATION '{o}/t'",
        "ALTER TABLE parts SET LOCATION '{o}/t'",
        "ALTER TABLE parts ADD PARTITION (p = 'x') LOCATION '{o}/files'",
        "ALTER TABLE parts PARTITION (p = 'x') SET LOCATION '{o}/files'",
        "ALTER DATABASE default SET LOCATION '{o}'",
        "INSERT OVERWRITE DIRECTORY '{o}/made' USING csv SELECT 1",
        "INSERT OVERWRITE DIRECTORY USING parquet OPTIONS (path '{o}/made') SELECT 1",
        "INSERT OVERWRITE LOCAL DIRECTORY '{o}/made' STORED AS TEXTFILE SELECT 'x'",
        "LOAD DATA LOCAL INPATH '{o}/files' INTO TABLE parts PARTITION (p = 'x')",
        "INSERT INTO delta.`{o}/made` VALUES (1, 'x')",
        "DELETE FROM delta.`{o}/t`",
        "MERGE INTO kept USING delta.`{o}/t` s ON kept.id = s.id WHEN MATCHED THEN DELETE",
        "CONVERT TO DELTA parquet.`{o}/t`",
        "VACUUM delta.`{o}/t`",
        "VACUUM '{o}/t'",
        "OPTIMIZE '{o}/t'",
        "DESCRIBE HISTORY '{o}/t'",
        "DESCRIBE DETAIL '{o}/t'",
        "RESTORE TABLE delta.`{o}/t` TO VERSION AS OF 0",
        "SELECT * FROM table_changes_by_path('{o}/t', 0)",
        "EXPLAIN SELECT * FROM csv.`{o}/files`",
        "SELECT (SELECT max(_c0) FROM csv.`{o}/files`)",
        "WITH x AS (SELECT * FROM csv.`{o}/files`) SELECT * FROM x",
        "REFRESH '{o}/files'",
    ],
    REFUSED: [
        "ADD JAR '{o}/x.jar'",
        "ADD FILE '{o}/files/secret.csv'",
        "ADD ARCHIVE '{o}/x.zip'",
        "CREATE TEMPORARY FUNCTION run AS 'org.example.Run' USING JAR '{o}/x.jar'",
        "CREATE FUNCTION in_file AS 'org.apache.hadoop.hive.ql.udf.generic.GenericUDFInFile'",
        "SELECT reflect('java.lang.System', 'getProperty', 'user.home')",
        "SELECT try_reflect('java.lang.System', 'getProperty', 'user.home')",
        "SELECT java_method('java.lang.System', 'getProperty', 'user.home')",
        "SELECT TRANSFORM (id) USING 'cat {o}/files/secret.csv' AS (x STRING) FROM kept",
        "SET spark.hadoop.fs.file.impl = org.example.Other",
        "SET fs.defaultFS = hdfs://elsewhere",
        "SET spark.anabranch.allowedPathPrefixes = {o}",
        "SET spark.sql.streaming.checkpointLocation = {o}",
        "SET spark.sql.catalog.other = org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
        "CREATE TEMPORARY VIEW other USING jdbc OPTIONS (url 'jdbc:derby:{o}/db;create=true', dbtable 'x')",
        "CREATE TABLE other (id INT) USING org.example.Source",
    ],
}
CASES = [(condition, statement) for condition, statements in STATEMENTS.items() for statement in statements]


def files_of(folder: Path) -> list[str]:
    return sorted(os.path.join(where, name) for where, _, names in os.walk(folder) for name in names)


@pytest.mark.parametrize("protocol", ["connect", "jdbc"])
def test_statements_that_name_files_outside(server: Served, folders: tuple[Path, Path], protocol: str) -> None:
    warehouse, outside = folders
    before = files_of(outside)
    passed = []
    with client(server, protocol) as by:
        for condition, text in CASES:
            statement = text.format(o=outside, w=warehouse)
            try:
                rows = by.rows(statement)
            except Exception as error:
                if condition not in str(error):
                    passed.append((statement, f"{type(error).__name__}: {error}"[:300]))
            else:
                passed.append((statement, str(rows)[:300]))
        assert not passed, "\n".join(f"{statement}\n    {outcome}" for statement, outcome in passed)
        # None of them has changed a file or the session.
        assert by.rows("SELECT * FROM kept") == [(1, "a")]
    assert files_of(outside) == before


def test_what_is_in_the_warehouse_can_be_named(server: Served, folders: tuple[Path, Path]) -> None:
    warehouse, _ = folders
    folder = f"{warehouse}/by_path"
    with client(server, "jdbc") as by:
        by.rows(f"CREATE TABLE own (id BIGINT, v STRING) USING delta LOCATION '{folder}/t'")
        by.rows(f"INSERT INTO delta.`{folder}/t` SELECT * FROM kept")
        by.rows("UPDATE own SET v = 'b' WHERE id IN (SELECT id FROM kept)")
        by.rows("MERGE INTO own t USING kept s ON t.id = s.id + 1 WHEN NOT MATCHED THEN INSERT *")
        by.rows(f"OPTIMIZE delta.`{folder}/t`")
        assert by.rows(f"SELECT * FROM delta.`{folder}/t` VERSION AS OF 1") == [(1, "a")]
        assert sorted(by.rows("SELECT * FROM own")) == [(1, "a"), (1, "b")]
        by.rows(f"INSERT OVERWRITE DIRECTORY '{folder}/csv' USING csv SELECT 7")
        assert by.rows(f"SELECT * FROM csv.`{folder}/csv`") == [("7",)]
        by.rows(f"CREATE TABLE clone SHALLOW CLONE own LOCATION '{folder}/clone'")
        assert len(by.rows("SELECT * FROM clone")) == 2
        by.rows("SET spark.sql.shuffle.partitions = 3")
        by.rows("CREATE DATABASE db")
        by.rows("CREATE TABLE db.t USING delta AS SELECT 1 AS id")
        assert by.rows("SELECT * FROM db.t") == [(1,)]


def test_readers_writers_and_streams_of_connect(server: Served, folders: tuple[Path, Path]) -> None:
    warehouse, outside = folders
    before = files_of(outside)
    spark = connect_client(server)
    try:
        rows = spark.range(3)
        table, stream = f"{warehouse}/frames", spark.readStream.table("kept")
        rows.write.format("delta").save(table)
        assert spark.read.format("delta").load(table).count() == 3
        for refused in (
            lambda: spark.read.format("delta").load(f"{outside}/t").collect(),
            lambda: spark.read.csv(f"{outside}/files").collect(),
            lambda: spark.read.csv([table, f"{warehouse}/link/files"]).collect(),
            lambda: spark.read.option("path", f"{outside}/files").format("csv").load().collect(),
            lambda: spark.read.option("basePath", str(outside)).csv(table).collect(),
            lambda: spark.read.schema("a STRING").json(f"{outside}/files").collect(),
            lambda: rows.write.format("delta").save(f"{outside}/made"),
            lambda: rows.write.csv(f"{outside}/made"),
            lambda: rows.write.option("path", f"{outside}/made").saveAsTable("made"),
            lambda: rows.write.format("parquet").option("path", f"{outside}/made").saveAsTable("made"),
            lambda: rows.writeTo("made").using("delta").tableProperty("location", f"{outside}/made").create(),
            lambda: spark.catalog.createTable("made", path=f"{outside}/files", source="csv"),
            lambda: spark.catalog.refreshByPath(f"{outside}/files"),
            lambda: spark.readStream.format("delta").load(f"{outside}/t").writeStream.format("noop").start(),
            lambda: spark.readStream.schema("a STRING").csv(f"{outside}/files").writeStream.format("noop").start(),
            lambda: started(stream, warehouse).start(f"{outside}/made"),
            lambda: started(stream, warehouse, "csv").start(f"{outside}/made"),
            lambda: started(stream, outside).start(f"{warehouse}/streamed"),
            lambda: started(stream, outside).toTable("streamed"),
        ):
            with pytest.raises(Exception, match=OUTSIDE):
                refused()
        query = started(stream, warehouse).start(f"{warehouse}/streamed")
        query.processAllAvailable()
        query.stop()
        assert spark.read.format("delta").load(f"{warehouse}/streamed").count() == 1
    finally:
        spark.stop()
    assert files_of(outside) == before
    assert not (outside / "made").exists()


def started(stream: Any, checkpoints: Path, into: str = "delta") -> Any:
    return stream.writeStream.format(into).option("checkpointLocation", f"{checkpoints}/checkpoint")


def test_what_runs_code_of_connects_clients(server: Served, folders: tuple[Path, Path], tmp_path: Path) -> None:
    from pyspark.sql.connect.functions import udf

    file = tmp_path / "file.py"
    file.write_text("x = 1\n")
    with client(server, "connect") as by:
        assert isinstance(by, ConnectClient)
        spark = by.session
        for refused in (
            lambda: spark.range(1).select(udf(lambda value: value)("id")).collect(),
            lambda: spark.udf.register("mine", lambda value: value),
            lambda: spark.range(1).mapInPandas(lambda frames: frames, "id BIGINT").collect(),
            lambda: spark.addArtifact(str(file), pyfile=True),
            lambda: spark.copyFromLocalToFs(str(file), f"{folders[1]}/copied"),
            lambda: spark.udf.registerJavaFunction("java", "org.example.Run", "string"),
            lambda: spark.conf.set("spark.hadoop.fs.file.impl", "org.example.Other"),
            lambda: spark.read.option("fs.file.impl", "org.example.Other").csv(str(folders[0])).collect(),
        ):
            with pytest.raises(Exception, match=REFUSED):
                refused()
        assert by.rows("SELECT * FROM kept") == [(1, "a")]
        # Rows that a client sends are no code, also if there are many.
        many = spark.createDataFrame([(number, "x" * 100) for number in range(60_000)], "n INT, v STRING")
        assert many.count() == 60_000


def test_tables_of_a_client(server: Served, folders: tuple[Path, Path]) -> None:
    """`DeltaTable` works for tables below the warehouse."""
    from pyspark.sql.types import LongType

    from anabranch.tables import DeltaTable

    warehouse, _ = folders
    with client(server, "connect") as by:
        assert isinstance(by, ConnectClient)
        spark = by.session
        by.rows("CREATE TABLE changed (id BIGINT, v STRING) USING delta")
        by.rows("INSERT INTO changed VALUES (1, 'a'), (2, 'b'), (3, 'c')")
        table = DeltaTable.forName(spark, "changed").alias("t")
        table.delete(table.toDF().id == 3)
        table.update("id = 2", {"v": "'z'"})
        source = spark.createDataFrame([(1, "m"), (9, "n")], "id BIGINT, v STRING").alias("s")
        table.merge(source, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
        assert sorted(tuple(row) for row in table.toDF().collect()) == [(1, "m"), (2, "z"), (9, "n")]
        table.optimize().executeCompaction()
        table.vacuum()
        assert table.clone(f"{warehouse}/cloned", isShallow=True).toDF().count() == 3
        assert DeltaTable.isDeltaTable(spark, f"{warehouse}/cloned")
        DeltaTable.create(spark).location(f"{warehouse}/created").addColumn("id", LongType()).execute()
        assert DeltaTable.forPath(spark, f"{warehouse}/created").toDF().count() == 0
        by.rows("DROP TABLE changed")


def test_messages_about_tables_outside(server: Served, folders: tuple[Path, Path]) -> None:
    """Paths are refused in every message, also in fields that hold a name or a path."""
    from pyspark.sql.types import LongType

    from anabranch.connect_messages.message_classes import message
    from anabranch.connect_messages.message_sender import MessageRelation, MessageSender
    from anabranch.tables import DeltaTable

    warehouse, outside = folders
    before = files_of(outside)
    with client(server, "connect") as by:
        assert isinstance(by, ConnectClient)
        spark = by.session
        sender, kept = MessageSender(spark), DeltaTable.forName(spark, "kept")
        references = [
            *(
                message("DeltaTable", path=message("DeltaTable.Path", path=path))
                for path in ways_out(warehouse, outside)
            ),
            *(message("DeltaTable", table_or_view_name=path) for path in ways_out(warehouse, outside)),
            *(message("DeltaTable", table_or_view_name=f"delta.`{path}`") for path in ways_out(warehouse, outside)),
        ]
        for reference in references:
            for refused in (
                lambda table: sender.rows(message("Scan", table=table)),
                lambda table: sender.rows(message("DescribeHistory", table=table)),
                lambda table: sender.rows(message("DescribeDetail", table=table)),
                lambda table: sender.rows(message("RestoreTable", table=table, version=0)),
                lambda table: sender.rows(message("OptimizeTable", table=table)),
                lambda table: sender.run(message("VacuumTable", table=table)),
                lambda table: sender.run(message("Generate", table=table, mode="symlink_format_manifest")),
                lambda table: sender.run(message("CloneTable", table=table, target="other", is_shallow=True)),
                lambda table: sender.run(message("AddFeatureSupport", table=table, feature_name="v2Checkpoint")),
                lambda table: sender.run(message("UpgradeTableProtocol", table=table, reader_version=3)),
                lambda table: (
                    spark.range(3).join(sender.frame(MessageRelation(message("Scan", table=table)))).collect()
                ),
            ):
                with pytest.raises(Exception, match=OUTSIDE):
                    refused(reference)
        for path in ways_out(warehouse, outside):
            for named in (path, f"delta.`{path}`"):
                with pytest.raises(Exception, match=OUTSIDE):
                    kept.clone(named, isShallow=True)
            builder = DeltaTable.createOrReplace(spark).addColumn("id", LongType())
            rows = spark.read.csv(path).withColumnRenamed("_c0", "id")
            for attempt in (
                lambda path=path: DeltaTable.isDeltaTable(spark, path),
                lambda path=path: DeltaTable.convertToDelta(spark, f"parquet.`{path}`"),
                lambda builder=builder, path=path: builder.location(path).execute(),
                lambda path=path: (
                    DeltaTable.create(spark).tableName(f"delta.`{path}`").addColumn("id", LongType()).execute()
                ),
                lambda path=path: (
                    DeltaTable.create(spark).tableName("x").location(path).addColumn("id", LongType()).execute()
                ),
                lambda rows=rows: kept.merge(rows, "false").whenNotMatchedInsertAll().execute(),
                lambda path=path: kept.delete(f"id IN (SELECT _c0 FROM csv.`{path}`)"),
            ):
                with pytest.raises(Exception, match=OUTSIDE):
                    attempt()
        assert by.rows("SELECT * FROM kept") == [(1, "a")]
    assert files_of(outside) == before


def ways_out(warehouse: Path, outside: Path) -> list[str]:
    return [f"{outside}/files", f"{warehouse}/../outside/files", f"{warehouse}/link/files", f"file:{outside}/files"]


def test_code_in_messages_about_tables(server: Served, folders: tuple[Path, Path]) -> None:
    """Features that are refused in queries are refused in the plans and expressions of these messages."""
    from pyspark.sql.connect import proto
    from pyspark.sql.connect.functions import udf
    from pyspark.sql.types import LongType

    from anabranch.connect_messages.message_classes import extension_of, message
    from anabranch.connect_messages.message_sender import MessageSender
    from anabranch.tables import DeltaTable

    with client(server, "connect") as by:
        assert isinstance(by, ConnectClient)
        spark = by.session
        kept, sender = DeltaTable.forName(spark, "kept"), MessageSender(spark)
        called = udf(lambda value: value, LongType())("id")
        rows = spark.range(2)
        mapped = rows.mapInPandas(lambda frames: frames, "id BIGINT")

        def nested(levels: int) -> Any:
            relation = sender.relation(spark.range(1))
            for _ in range(levels):
                relation = proto.Relation(
                    extension=any_of("DeltaRelation", message("DeleteFromTable", target=relation))
                )
            return message("DeleteFromTable", target=relation)

        def any_of(family: str, content: Any) -> Any:
            url, value = extension_of(family, content)
            command: Any = proto.Command()
            command.extension.type_url, command.extension.value = url, value
            return command.extension

        def other_extension(url: str, value: bytes) -> None:
            command: Any = proto.Command()
            command.extension.type_url, command.extension.value = url, value
            spark.client.execute_command(command)  # type: ignore[attr-defined]

        for refused in (
            lambda: kept.delete(called == 1),
            lambda: kept.update(set={"id": called}),
            lambda: kept.update(called == 1, {"id": "1"}),
            lambda: kept.merge(mapped, "false").whenNotMatchedInsert(values={"id": "1"}).execute(),
            lambda: kept.merge(rows, called == 1).whenMatchedDelete().execute(),
            lambda: kept.merge(rows, "true").whenMatchedDelete(called == 1).execute(),
            lambda: kept.merge(rows, "false").whenNotMatchedInsert(values={"id": called}).execute(),
            lambda: kept.merge(rows, "false").whenNotMatchedBySourceUpdate(set={"id": called}).execute(),
            lambda: kept.delete("reflect('java.lang.System', 'getProperty', 'user.home') = ''"),
            lambda: DeltaTable.forPath(spark, f"{folders[0]}/x", {"fs.file.impl": "org.example.Other"}),
            lambda: DeltaTable.create(spark).tableName("x").property("fs.file.impl", "org.example.Other").execute(),
            lambda: sender.rows(nested(20)),
            lambda: other_extension("type.googleapis.com/org.example.Other", b""),
            lambda: other_extension("type.googleapis.com/delta.connect.DeltaCommand", b"\x0a\x05abc"),
        ):
            with pytest.raises(Exception, match=REFUSED):
                refused()
        assert by.rows("SELECT * FROM kept") == [(1, "a")]


def test_settings_that_come_with_a_connection(server: Served) -> None:
    """Settings of a JDBC connection apply before the first statement."""
    from pyhive import hive

    # Connecting runs a statement, USE.
    with pytest.raises(Exception, match=REFUSED):
        hive.connect("127.0.0.1", server.jdbc_port, configuration={"set:hiveconf:fs.defaultFS": "file:///"})
    with (
        contextlib.closing(
            hive.connect(
                "127.0.0.1", server.jdbc_port, configuration={"set:hiveconf:spark.sql.shuffle.partitions": "1"}
            )
        ) as connection,
        contextlib.closing(connection.cursor()) as cursor,
    ):
        cursor.execute("SELECT * FROM kept")
        assert cursor.fetchall() == [(1, "a")]
    # The settings that docs/howto/serve.md gives for Superset.
    brought = {"spark.anabranch.hiveListings": "true", "spark.sql.sources.default": "delta"}
    configuration = {f"set:hiveconf:{key}": value for key, value in brought.items()}
    with hive.connect("127.0.0.1", server.jdbc_port, configuration=configuration) as connection:
        cursor = connection.cursor()
        cursor.execute("SHOW TABLES")
        assert ("kept",) in cursor.fetchall()
