"""Attacks by clients of a server with `--warehouse-only` and logins, over both protocols. docs/howto/serve.md has the threat model."""

from __future__ import annotations

import contextlib
import os
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from anabranch.server.logins import add_user
from serve.served import Client, ConnectClient, JdbcClient, Served, served

pytest.importorskip("grpc")
pytest.importorskip("pyhive")
pytestmark = [pytest.mark.spark, pytest.mark.long]

OUTSIDE = "ANABRANCH_PATH_OUTSIDE_WAREHOUSE"
REFUSED = "ANABRANCH_REFUSED_TO_CLIENTS"
SECRET = "of-the-environment"
VARIABLE = "ANABRANCH_TEST_SECRET"
PASSWORD = "of-ann"
PROTOCOLS = ["connect", "jdbc"]
HIVE = "org.apache.hadoop.hive.ql.io"
RELEASE = tuple(map(int, pyspark.__version__.split(".")[:2]))
FIRST_WITH_STREAMS_IN_SQL, FIRST_WITH_CHANGES = (4, 1), (4, 2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with links that lead out of it, as only an administrator can make, and a folder next to it with a file."""
    folder = tmp_path_factory.mktemp("attacked")
    (folder / "outside").mkdir()
    (folder / "outside/secret.csv").write_text(f"1,{SECRET}\n")
    (folder / "warehouse/linked").mkdir(parents=True)
    (folder / "warehouse/linked/file.csv").symlink_to(folder / "outside/secret.csv")
    (folder / "warehouse/linked/folder").symlink_to(folder / "outside")
    return folder


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Served]:
    users = folder / "users"
    add_user(str(users), "ann", PASSWORD)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv(VARIABLE, SECRET)
        with served(folder / "warehouse", "--warehouse-only", "--users", str(users)) as started:
            yield started


def login(server: Served, configuration: dict[str, str] | None = None) -> Any:
    from pyhive import hive

    address = {"host": "127.0.0.1", "port": server.jdbc_port, "auth": "CUSTOM"}
    return hive.connect(**address, username="ann", password=PASSWORD, configuration=configuration)


class Ann(JdbcClient):
    def __init__(self, server: Served) -> None:
        self.connection = login(server)
        self.cursor = self.connection.cursor()


@contextlib.contextmanager
def client(server: Served, protocol: str) -> Iterator[Client]:
    made = ConnectClient(server) if protocol == "connect" else Ann(server)
    try:
        yield made
    finally:
        made.close()


def not_refused(by: Client, attacks: dict[str, list[str]], folder: Path) -> list[str]:
    """The statements that did not raise the error of their condition."""
    passed = []
    for condition, statements in attacks.items():
        for text in statements:
            statement = text.replace("{w}", f"{folder}/warehouse").replace("{o}", f"{folder}/outside")
            try:
                passed.append(f"{statement}\n    {by.rows(statement)}"[:400])
            except Exception as error:
                if condition not in str(error):
                    passed.append(f"{statement}\n    {type(error).__name__}: {error}"[:600])
    return passed


FILES = {
    OUTSIDE: [
        # Hadoop turns these into `..`, or follows a link, after the name was checked.
        "SELECT * FROM csv.`{w}/.{./,q/}outside`",
        "SELECT * FROM csv.`{w}/{.,q}{.,q}/outside`",
        "SELECT * FROM csv.`{w}/[.]./outside`",
        "SELECT * FROM csv.`{w}/\\\\.\\\\./outside`",
        "SELECT * FROM csv.`{w}/.\\\\./outside`",
        "CREATE TABLE got USING csv OPTIONS (path '{w}/.{./,q/}outside')",
        "CREATE TEMPORARY VIEW got USING json OPTIONS (path '{w}/.{./,q/}outside')",
        "SELECT * FROM csv.`{w}/linked/folder`",
        "SELECT * FROM csv.`{w}/linked/file.csv`",
        "CREATE TABLE got USING csv LOCATION '{w}/linked'",
        "CREATE TABLE got (a STRING) USING csv OPTIONS (avroSchemaUrl '{o}/secret.csv')",
        "CREATE TABLE got (a STRING) STORED AS AVRO TBLPROPERTIES ('avro.schema.url' = 'file:{o}/secret.csv')",
    ],
    REFUSED: [
        f"CREATE TABLE got (a STRING) STORED AS INPUTFORMAT '{HIVE}.SymlinkTextInputFormat' OUTPUTFORMAT '{HIVE}.HiveIgnoreKeyTextOutputFormat'",
        f"CREATE TABLE got (a STRING) STORED AS INPUTFORMAT '{HIVE}.RCFileInputFormat' OUTPUTFORMAT 'org.example.Other'",
        f"CREATE TABLE got (a STRING) USING hive OPTIONS (inputFormat '{HIVE}.SymlinkTextInputFormat', outputFormat '{HIVE}.HiveIgnoreKeyTextOutputFormat', serde 'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe')",
        "CREATE TABLE got (a STRING) ROW FORMAT SERDE 'org.apache.hadoop.hive.serde2.thrift.ThriftDeserializer' STORED AS TEXTFILE",
        "ALTER TABLE plain SET SERDE 'org.example.Other'",
        "INSERT OVERWRITE DIRECTORY '{w}/made' ROW FORMAT SERDE 'org.example.Other' SELECT 1",
        "CREATE TABLE got (a STRING) USING parquet TBLPROPERTIES ('parquet.read.support.class' = 'org.example.Other')",
        "CREATE TABLE got (a STRING) USING parquet OPTIONS ('parquet.crypto.factory.class' 'org.example.Other')",
        "CREATE TABLE got (a STRING) USING csv OPTIONS (compression 'org.example.Other')",
        "CREATE TABLE got (a STRING) USING csv OPTIONS ('io.compression.codecs' 'org.example.Other')",
        "CREATE TABLE got (a STRING) STORED AS TEXTFILE TBLPROPERTIES ('storage_handler' = 'org.example.Other')",
        "CREATE TABLE got (a STRING) USING org.apache.spark.sql.execution.datasources.csv.CSVFileFormat",
        "CREATE TABLE got (a STRING) USING csv OPTIONS ('fs.kept.folders' '/')",
    ],
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_files_by_formats_patterns_and_links(server: Served, folder: Path, protocol: str) -> None:
    """Covers bug B79: input formats, patterns and links reached files after the check of their names."""
    with client(server, protocol) as by:
        by.rows(f"CREATE TABLE IF NOT EXISTS plain (a STRING) STORED AS TEXTFILE LOCATION '{folder}/warehouse/plain'")
        assert not_refused(by, FILES, folder) == []
        for text in (f"text.`{folder}/warehouse/linked`", f"text.`{folder}/warehouse/linke*`"):
            with pytest.raises(Exception, match=r"outside|OUTSIDE|FAILED") as raised:
                by.rows(f"SELECT * FROM {text}")
            assert SECRET not in str(raised.value)


SETTINGS = {
    REFUSED: [
        "SET spark.sql.sources.useV1SourceList = ",
        "SET spark.sql.analyzer.singlePassResolver.enabled = true",
        "SET spark.sql.variable.substitute = true",
        "SET spark.sql.streaming.stateStore.providerClass = org.example.Other",
        "SET spark.sql.parquet.output.committer.class = org.example.Other",
        "SET spark.sql.hive.metastore.jars.path = {o}",
        "SET spark.hadoop.fs.file.impl = org.apache.hadoop.fs.LocalFileSystem",
        "SET fs.file.impl = org.apache.hadoop.fs.LocalFileSystem",
        "SET fs.kept.folders = /",
        "SET io.compression.codecs = org.example.Other",
        "SET hive.server2.custom.authentication.class = org.example.Other",
        "SET spark.anabranch.user = bob",
        "RESET fs.file.impl",
        "RESET fs.kept.folders",
        "RESET spark.sql.variable.substitute",
        "RESET",
        f"SET mine = ${{env:{VARIABLE}}}",
        f"SET spark.sql.sources.default = ${{env:{VARIABLE}}}",
        f"SET spark.sql.session.timeZone = ${{env:{VARIABLE}}}",
    ]
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_settings_and_variables(server: Served, folder: Path, protocol: str) -> None:
    """Covers bugs B79 and B80: settings that bypass the rules, and variables that show the server's environment."""
    with client(server, protocol) as by:
        assert not_refused(by, SETTINGS, folder) == []
        by.rows("SET mine = 5")
        for variable in (f"env:{VARIABLE}", "system:user.home", "mine", "spark.app.name"):
            # The variable is not substituted.
            assert by.rows(f"SELECT '${{{variable}}}' AS v") == [(f"${{{variable}}}",)]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_files_by_functions_over_xml(server: Served, folder: Path, protocol: str) -> None:
    """Entities of a document cannot name a file, and the path of its schema is checked like others."""
    secret = f"{folder}/outside/secret.csv"
    document = f'<!DOCTYPE r [<!ENTITY x SYSTEM "file:{secret}">]><r><v>&x;</v></r>'
    with client(server, protocol) as by:
        for query in (f"xpath_string('{document}', 'r/v')", f"from_xml('{document}', 'v STRING')"):
            with contextlib.suppress(Exception):
                assert SECRET not in str(by.rows(f"SELECT {query} AS v"))
        validated = f"from_xml('<r><v>1</v></r>', 'v STRING', map('rowValidationXSDPath', '{secret}'))"
        with pytest.raises(Exception, match=OUTSIDE):
            by.rows(f"SELECT {validated} AS v")


def test_settings_that_come_with_a_connection(server: Served) -> None:
    """Covers bug B80: Hive substitutes variables in them, and can set properties of the JVM by them."""
    for key, value in {
        "set:hiveconf:mine": f"${{env:{VARIABLE}}}",
        "set:hivevar:mine": f"${{env:{VARIABLE}}}",
        "set:system:user.home": "/",
        "set:metaconf:hive.metastore.try.direct.sql": "true",
        "set:hiveconf:fs.defaultFS": "hdfs://elsewhere",
        "set:hiveconf:spark.anabranch.user": "bob",
        "set:hiveconf:spark.sql.analyzer.singlePassResolver.enabled": "true",
        "mine": "${system:user.home}",
    }.items():
        with pytest.raises(Exception, match=REFUSED):
            login(server, {key: value})
    with contextlib.closing(login(server, {"set:hivevar:mine": "7"})) as connection:
        cursor = connection.cursor()
        cursor.execute("SET mine")
        assert cursor.fetchall() == [("mine", "7")]


def test_artifacts(server: Served) -> None:
    """Covers bug B78: rows by their hash are the only artifacts that are accepted, also if a file system changes the name."""
    from pyspark.sql.connect import proto

    with client(server, "connect") as by:
        assert isinstance(by, ConnectClient)
        spark_client: Any = by.session.client

        def add(name: str, *, chunked: bool) -> Any:
            chunk = proto.AddArtifactsRequest.ArtifactChunk(data=b"x", crc=zlib.crc32(b"x"))
            requests: list[Any] = [proto.AddArtifactsRequest(session_id=spark_client._session_id) for _ in range(2)]
            for request in requests:
                request.user_context.user_id = spark_client._user_id or ""
            if chunked:
                begin = requests[0].begin_chunk
                begin.name, begin.total_bytes, begin.num_chunks = name, 2, 2
                begin.initial_chunk.CopyFrom(chunk)
                requests[1].chunk.CopyFrom(chunk)
            else:
                requests[0].batch.artifacts.append(proto.AddArtifactsRequest.SingleChunkArtifact(name=name, data=chunk))
                del requests[1]
            return spark_client._stub.AddArtifacts(iter(requests), metadata=spark_client._builder.metadata())

        digest = "0" * 64
        for chunked in (False, True):
            for name in (
                *("cache/../jars/evil.jar", "cache/x/../../jars/evil.jar", f"cache/{digest}/../../jars/evil.jar"),
                *("jars/evil.jar", "classes/Evil.class", "pyfiles/evil.py", "files/x", "archives/x.zip"),
                *(
                    "forward_to_fs/tmp/x",
                    "cache//x",
                    "cache/",
                    f"cache/{digest}.jar",
                    f"/cache/{digest}",
                    f"./cache/{digest}",
                ),
            ):
                with pytest.raises(Exception, match=REFUSED):
                    add(name, chunked=chunked)
            assert add(f"cache/{digest}", chunked=chunked).artifacts[0].is_crc_successful


def test_readers_and_writers_of_connect(server: Served, folder: Path) -> None:
    """Covers bugs B78 and B79: formats, codecs and options that name classes are refused before Spark resolves them."""
    warehouse, outside = folder / "warehouse", folder / "outside"
    before = sorted(os.listdir(outside))
    with client(server, "connect") as by:
        assert isinstance(by, ConnectClient)
        spark = by.session
        rows = spark.range(1).selectExpr("CAST(id AS STRING) AS v")
        for refused in (
            lambda: spark.read.format("jdbc").option("url", f"jdbc:derby:{outside}/db;create=true").load().collect(),
            lambda: spark.readStream.format("socket").option("host", "localhost").option("port", "1").load().schema,
            lambda: rows.write.option("compression", "org.example.Other").csv(f"{warehouse}/made"),
            lambda: rows.write.format("org.example.Other").save(f"{warehouse}/made"),
            lambda: rows.writeTo("made").using("org.example.Other").create(),
            lambda: spark.catalog.createTable("made", source="org.example.Other"),
            lambda: rows.write.option("parquet.write.support.class", "org.example.Other").parquet(f"{warehouse}/made"),
            lambda: spark.read.option("fs.kept.folders", "/").csv(f"{warehouse}/linked").collect(),
            lambda: spark.read.option("parquet.page.size", f"${{env.{VARIABLE}}}").parquet(f"{warehouse}/made").schema,
            lambda: spark.conf.set("mine", f"${{env:{VARIABLE}}}"),
            lambda: spark.conf.set("spark.anabranch.user", "bob"),
            lambda: spark.conf.unset("fs.file.impl"),
            lambda: spark.conf.unset("spark.sql.variable.substitute"),
        ):
            with pytest.raises(Exception, match=REFUSED):
                refused()
        for path in (f"{warehouse}/linked", f"{warehouse}/linke[d]", f"{warehouse}/*", f"{warehouse}/linked/*.csv"):
            with pytest.raises(Exception, match=r"OUTSIDE|FAILED_READ_FILE") as raised:
                spark.read.text(path).collect()
            assert SECRET not in str(raised.value)
    assert sorted(os.listdir(outside)) == before
    assert not (warehouse / "made").exists()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_clients_do_all_day(server: Served, folder: Path, protocol: str) -> None:
    """The lists of allowed formats, SerDes, patterns, properties and settings are long enough."""
    warehouse = folder / "warehouse"
    with client(server, protocol) as by:
        for number, (clause, answer) in enumerate(
            {
                "USING delta TBLPROPERTIES ('owner.team' = 'x')": (1, "a"),
                "USING parquet OPTIONS (compression 'zstd', 'parquet.bloom.filter.enabled' 'true')": (1, "a"),
                "USING csv OPTIONS (header 'true', sep '.', compression 'gzip')": (1, "a"),
                "STORED AS PARQUET": (1, "a"),
                "STORED AS ORC TBLPROPERTIES ('orc.compress' = 'zlib')": (1, "a"),
                "STORED AS AVRO": (1, "a"),
                "ROW FORMAT DELIMITED FIELDS TERMINATED BY '|' STORED AS TEXTFILE": (1, "a"),
            }.items()
        ):
            table = f"{protocol}_{number}"
            by.rows(f"CREATE TABLE {table} (id BIGINT, v STRING) {clause}")
            by.rows(f"INSERT INTO {table} VALUES (1, 'a')")
            assert by.rows(f"SELECT * FROM {table}") == [answer], clause
        by.rows(f"INSERT OVERWRITE DIRECTORY '{warehouse}/{protocol}_made' STORED AS TEXTFILE SELECT 7")
        # These list the warehouse; the metastore in it is no table.
        for pattern in (f"{protocol}_mad*", f"{{{protocol}_made,none}}", f"*/{protocol}_made", f"{protocol}_made"):
            name_in_warehouse = pattern.replace("*/", "")
            assert by.rows(f"SELECT * FROM text.`{warehouse}/{name_in_warehouse}`") == [("7",)]
        for setting in (
            *("spark.sql.shuffle.partitions = 3", "spark.sql.ansi.enabled = false", "TIME ZONE 'UTC'", "mine = x"),
            *("spark.sql.adaptive.enabled = false", "spark.databricks.delta.schema.autoMerge.enabled = true"),
        ):
            by.rows(f"SET {setting}")
        by.rows("RESET spark.sql.ansi.enabled")


def test_a_stream_goes_on_behind_its_checkpoint(server: Served, folder: Path) -> None:
    """A checkpoint restores the settings with which the stream began, among them names of Spark's classes."""
    warehouse = folder / "warehouse"
    with client(server, "connect") as by:
        assert isinstance(by, ConnectClient)
        by.rows("CREATE TABLE streamed USING delta AS SELECT 1L AS id")
        for count in (1, 2):
            counted = by.session.readStream.table("streamed").groupBy("id").count()
            writer = counted.writeStream.format("delta").outputMode("complete")
            query = writer.option("checkpointLocation", f"{warehouse}/progress").start(f"{warehouse}/counted")
            query.processAllAvailable()
            query.stop()
            assert by.session.read.format("delta").load(f"{warehouse}/counted").count() == count
            by.rows(f"INSERT INTO streamed VALUES ({count + 1})")


STREAMS = {
    OUTSIDE: [
        *("SELECT * FROM STREAM delta.`{o}/feed`", "SELECT * FROM STREAM delta.`{w}/linked/folder/feed`"),
        "SELECT * FROM STREAM kept WITH ('schemaTrackingLocation' = '{o}/columns')",
        "SELECT * FROM STREAM kept WITH ('schemaLocation' = '{w}/linked/folder/columns')",
    ],
    # A stream may note its columns outside its checkpoint by this setting.
    REFUSED: ["SET spark.databricks.delta.streaming.allowSchemaLocationOutsideCheckpointLocation = true"],
}
CHANGES = {
    OUTSIDE: [
        f"SELECT * FROM {stream}{table} CHANGES FROM VERSION 0"
        for stream in ("", "STREAM ")
        for table in ("delta.`{o}/feed`", "delta.`{w}/linked/folder/feed`", "delta.`{w}/../outside/feed`", "moved")
    ]
}


@pytest.mark.skipif(RELEASE < FIRST_WITH_STREAMS_IN_SQL, reason="the grammar has no word for streams")
def test_streams_of_changes(server: Served, folder: Path) -> None:
    """The files of the feed, and what a stream notes, are below the warehouse, as a path, an option or a name says it."""
    warehouse, outside = folder / "warehouse", folder / "outside"
    feed = "USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true') AS SELECT 1L AS id"
    with client(server, "connect") as by:
        assert isinstance(by, ConnectClient)
        spark: Any = by.session
        for table in ("kept", "moved"):
            by.rows(f"CREATE TABLE {table} {feed}")
            by.rows(f"UPDATE {table} SET id = 2")
        shutil.copytree(warehouse / "moved", outside / "feed")
        shutil.rmtree(warehouse / "moved")
        (warehouse / "moved").symlink_to(outside / "feed")
        before = sorted(outside.rglob("*"))
        assert not_refused(by, STREAMS, folder) == []
        into, elsewhere = f"{warehouse}/changes_of_kept", f"{outside}/columns"

        def reader(**options: Any) -> Any:
            return spark.readStream.options(startingVersion=1, **options)

        def started(rows: Any, checkpoints: Path = warehouse) -> Any:
            writer = rows.writeStream.format("delta").trigger(availableNow=True)
            return writer.option("checkpointLocation", f"{checkpoints}/progress_of_changes").start(into)

        refused = [lambda: started(reader(schemaTrackingLocation=elsewhere).table("kept"))]
        if RELEASE >= FIRST_WITH_CHANGES:
            assert not_refused(by, CHANGES, folder) == []
            refused += [
                lambda: started(reader().changes("kept"), outside),
                lambda: started(reader(schemaTrackingLocation=elsewhere).changes("kept")),
                lambda: started(reader(path=f"{outside}/feed").changes("kept")),
                lambda: reader().changes(f"delta.`{outside}/feed`").schema,
                lambda: spark.read.option("startingVersion", 0).changes("moved").collect(),
            ]
        for attempt in refused:
            with pytest.raises(Exception, match=OUTSIDE):
                attempt()
        assert sorted(outside.rglob("*")) == before
        for count in (2, 3) if RELEASE >= FIRST_WITH_CHANGES else ():
            assert started(reader().changes("kept")).awaitTermination(60)
            assert spark.read.format("delta").load(into).count() == count
            by.rows("DELETE FROM kept")


def test_the_history_names_who_logged_in(server: Served) -> None:
    """Covers bug B81: it named the user of the server, and every statement of a client with a login was refused."""
    with client(server, "jdbc") as by:
        by.rows("CREATE TABLE of_ann USING delta AS SELECT 1L AS id")
        by.rows("UPDATE of_ann SET id = 2")
        users = {row[3] for row in by.rows("DESCRIBE HISTORY of_ann")}
    assert users == {"ann"}
