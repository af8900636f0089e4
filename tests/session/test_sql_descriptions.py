"""Looking at tables, and keeping them in shape."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from anabranch.errors.arguments import InvalidArgumentError
from anabranch.errors.maintenance import ShowPartitionsColumnError
from anabranch.errors.schema import ColumnNotFoundError
from anabranch.errors.tables import NotADeltaTableError
from anabranch.tables import DeltaTable
from session.documented import statement

pytestmark = pytest.mark.spark

SCHEMA = """(id BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 3 INCREMENT BY 2) COMMENT 'it''s \\\\ key', `a b` CHAR(3),
  s STRUCT<`x y`: INT NOT NULL COMMENT 'c', z: ARRAY<MAP<STRING, DECIMAL(5, 2)>>>, n INT NOT NULL DEFAULT 1 + 1,
  double INT GENERATED ALWAYS AS (n * 2), part DATE, CONSTRAINT positive CHECK (n > 0))
  USING delta PARTITIONED BY (part) COMMENT 'a ''table'''
  TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported', 'delta.columnMapping.mode' = 'name', 'k' = 'v')"""


@pytest.fixture
def table(delta: SparkSession, path: str) -> str:
    name = f"delta.`{path}`"
    delta.sql(f"CREATE TABLE {name} {SCHEMA}")
    return name


@statement("DESCRIBE HISTORY t [LIMIT n]")
def test_describe_history(delta: SparkSession, table: str, path: str) -> None:
    """Returns one row for each commit, newest first, as `DeltaTable.history` does. The folder can also be written as a
    string."""
    delta.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('a' = 'b')")
    history = delta.sql(f"DESCRIBE HISTORY {table}")
    assert history.collect() == DeltaTable.forPath(delta, path).history().collect()
    assert [row.operation for row in history.collect()] == ["SET TBLPROPERTIES", "CREATE TABLE"]
    assert [row.version for row in delta.sql(f"DESC HISTORY '{path}' LIMIT 1").collect()] == [1]
    assert delta.sql(f"DESC HISTORY '{path}' LIMIT 0").collect() == []


@statement("DESCRIBE DETAIL t")
def test_describe_detail(delta: SparkSession, table: str, path: str) -> None:
    """Returns one row about the table, as `DeltaTable.detail` does. The folder can also be written as a string."""
    assert delta.sql(f"DESCRIBE DETAIL {table}").collect() == DeltaTable.forPath(delta, path).detail().collect()
    assert delta.sql(f"DESCRIBE DETAIL '{path}'").first().partitionColumns == ["part"]
    with pytest.raises(NotADeltaTableError):
        delta.sql(f"DESCRIBE DETAIL '{path}/nothing'")


def test_describe_detail_of_a_folder_that_is_not_delta(delta: SparkSession, path: str) -> None:
    """Covers bug B110: scripts run it for every folder. Tables and views are in `tests/differential/programs/describing.txt`."""
    delta.range(1).write.json(path)
    detail = delta.sql(f"DESCRIBE DETAIL '{path}'").first()
    assert (detail.format, detail.location, detail.properties) == (None, f"file:{path}", {})


@statement("DESCRIBE [TABLE] [EXTENDED] t [column]")
def test_describe_table(delta: SparkSession, table: str) -> None:
    """Returns the columns with type and comment, and the partition columns. `EXTENDED` adds location and properties.
    With a column, it returns only that column."""
    plain = [tuple(row) for row in delta.sql(f"DESCRIBE {table}").collect()]
    assert plain[0] == ("id", "bigint", "it's \\ key")
    assert plain[1] == ("a b", "char(3)", None)
    assert plain[-3:] == [
        ("# Partition Information", "", ""),
        ("# col_name", "data_type", "comment"),
        ("part", "date", None),
    ]
    extended = {row.col_name: row.data_type for row in delta.sql(f"DESCRIBE TABLE EXTENDED {table}").collect()}
    assert (extended["Provider"], extended["Comment"]) == ("delta", "a 'table'")
    assert "k=v" in extended["Table Properties"]
    assert delta.sql(f"DESCRIBE {table} id").collect() == [
        ("col_name", "id"),
        ("data_type", "bigint"),
        ("comment", "it's \\ key"),
    ]
    with pytest.raises((ColumnNotFoundError, AnalysisException), match="nope"):
        delta.sql(f"DESCRIBE {table} nope")


@statement("SHOW TBLPROPERTIES t [(key)]")
def test_show_properties(delta: SparkSession, table: str) -> None:
    """Returns the properties, including the versions and features of the protocol."""
    properties = {row.key: row.value for row in delta.sql(f"SHOW TBLPROPERTIES {table}").collect()}
    assert (properties["k"], properties["delta.minWriterVersion"]) == ("v", "7")
    assert properties["delta.feature.deletionVectors"] == "supported"
    assert delta.sql(f"SHOW TBLPROPERTIES {table} ('k')").collect() == [("k", "v")]
    assert "does not have property" in delta.sql(f"SHOW TBLPROPERTIES {table} (nope)").first().value


@statement("SHOW COLUMNS IN t")
def test_show_columns(delta: SparkSession, table: str, name: str) -> None:
    """Returns the names of the columns."""
    columns = [row.col_name for row in delta.sql(f"SHOW COLUMNS IN {table}").collect()]
    assert columns == ["id", "a b", "s", "n", "double", "part"]
    delta.sql(f"CREATE TABLE {name} USING delta AS SELECT 1 AS id")
    assert delta.sql(f"SHOW COLUMNS FROM {name} IN default").collect() == [("id",)]


@statement("SHOW PARTITIONS t [PARTITION (p = value)]")
def test_show_partitions(delta: SparkSession, path: str) -> None:
    """Returns each combination of values that the partition columns have."""
    table = f"delta.`{path}`"
    query = "SELECT id, id % 2 AS p, CAST(NULL AS STRING) AS q FROM range(4)"
    delta.sql(f"CREATE TABLE {table} USING delta PARTITIONED BY (p, q) AS {query}")
    assert sorted(delta.sql(f"SHOW PARTITIONS {table}").collect()) == [(0, None), (1, None)]
    assert delta.sql(f"SHOW PARTITIONS {table} PARTITION (p = 1)").collect() == [(1, None)]
    with pytest.raises(ShowPartitionsColumnError, match="id"):
        delta.sql(f"SHOW PARTITIONS {table} PARTITION (id = 1)")


@statement("SHOW CREATE TABLE t")
def test_show_create_table(delta: SparkSession, table: str, path: str) -> None:
    """Returns a statement that creates such a table, with the clauses of its columns, partitioning, constraints and
    properties."""
    made = delta.sql(f"SHOW CREATE TABLE {table}").first().createtab_stmt
    assert "START WITH 3 INCREMENT BY 2" in made
    assert "CHAR(3)" in made.upper()
    delta.sql(made.replace(path, f"{path} 2"))
    again = delta.sql(f"SHOW CREATE TABLE delta.`{path} 2`").first().createtab_stmt
    assert again == made.replace(path, f"{path} 2")
    schemas = [
        [(f.name, f.dataType.simpleString(), f.nullable) for f in delta.read.format("delta").load(where).schema]
        for where in (path, f"{path} 2")
    ]
    assert schemas[0] == schemas[1]


@statement("OPTIMIZE t [WHERE partition condition] [ZORDER BY (columns)]")
def test_optimize(delta: SparkSession, path: str) -> None:
    """Combines small files, or orders rows by columns. Returns `path` and `metrics`."""
    table = f"delta.`{path}`"
    delta.sql(f"CREATE TABLE {table} (id INT, word STRING, part INT) USING delta PARTITIONED BY (part)")
    for part in (1, 1, 2, 2):
        delta.sql(f"INSERT INTO {table} VALUES ({part}, 'a', {part})")
    result = delta.sql(f"OPTIMIZE {table} WHERE part = :p", {"p": 1})
    assert result.columns == ["path", "metrics"]
    assert (result.first().metrics.numFilesRemoved, result.first().metrics.numFilesAdded) == (2, 1)
    assert delta.sql(f"OPTIMIZE '{path}' ZORDER BY (id, word)").first().metrics.numFilesAdded == 2
    assert delta.sql(f"SELECT count(*) FROM {table}").first() == (4,)


@statement("REORG TABLE t [WHERE partition condition] APPLY (PURGE)")
def test_reorg(delta: SparkSession, path: str) -> None:
    """Rewrites files that contain deleted rows without these rows. Returns `path` and `metrics`."""
    table = f"delta.`{path}`"
    delta.sql(f"CREATE TABLE {table} USING delta AS SELECT id FROM range(0, 9, 1, 1)")
    delta.sql(f"DELETE FROM {table} WHERE id = 3")
    result = delta.sql(f"REORG TABLE {table} APPLY (PURGE)").first()
    assert (result.metrics.numFilesRemoved, result.metrics.deletionVectorStats.numDeletionVectorsRemoved) == (1, 1)
    assert delta.sql(f"SELECT count(*) FROM {table}").first() == (8,)


@statement("DESCRIBE [TABLE] EXTENDED t AS JSON")
def test_describe_as_json(delta: SparkSession, table: str) -> None:
    """Returns one row with one JSON object: columns with their types as objects, location, properties, partitioning."""
    described = json.loads(delta.sql(f"DESCRIBE EXTENDED {table} AS JSON").first().json_metadata)
    columns = {column["name"]: column for column in described["columns"]}
    assert (described["provider"], described["partition_columns"], described["comment"]) == (
        "delta",
        ["part"],
        "a 'table'",
    )
    assert columns["id"] == {"name": "id", "type": {"name": "bigint"}, "nullable": True, "comment": "it's \\ key"}
    assert (columns["n"]["default"], columns["a b"]["type"]) == ("1 + 1", {"name": "char", "length": 3})
    assert columns["s"]["type"]["fields"][1]["type"]["element_type"]["value_type"] == {
        "name": "decimal",
        "precision": 5,
        "scale": 2,
    }
    with pytest.raises((InvalidArgumentError, AnalysisException), match="EXTENDED"):
        delta.sql(f"DESCRIBE {table} AS JSON")


def test_plain_sessions_find_registered_tables(native: SparkSession, name: str) -> None:
    """Without anabranch, the catalog still lists the tables, their locations and their columns."""
    native.sql(f"CREATE TABLE {name} (id BIGINT, word STRING) USING delta")
    native.sql(f"ALTER TABLE {name} ADD COLUMN more DATE")
    plain = native.newSession()
    assert (name, False) in [(row.tableName, row.isTemporary) for row in plain.sql("SHOW TABLES").collect()]
    information = plain.sql(f"SHOW TABLE EXTENDED LIKE '{name}'").first().information
    assert "Provider: delta" in information
    assert DeltaTable.forName(native, name).detail().first().location in information
    assert [line.split()[1] for line in information.splitlines() if line.startswith(" |--")] == [
        "id:",
        "word:",
        "more:",
    ]


TYPES = st.recursive(
    st.sampled_from(
        ["INT", "BIGINT", "STRING", "CHAR(3)", "VARCHAR(9)", "DECIMAL(7, 3)", "DATE", "TIMESTAMP", "BINARY", "BOOLEAN"]
    ),
    lambda kinds: st.one_of(
        kinds.map(lambda kind: f"ARRAY<{kind}>"),
        kinds.map(lambda kind: f"MAP<STRING, {kind}>"),
        st.lists(kinds, min_size=1, max_size=2).map(
            lambda kinds: (
                "STRUCT<" + ", ".join(f"`f {i}`: {kind} COMMENT 'it\\'s'" for i, kind in enumerate(kinds)) + ">"
            )
        ),
    ),
    max_leaves=3,
)
WORDS = st.text(st.sampled_from("aZ_ é'\"\\`;-{}$.,()%\n"), min_size=1, max_size=8)


@settings(
    max_examples=4,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_what_show_create_table_prints_makes_such_a_table(
    native: SparkSession, tmp_path: Path, data: st.DataObject
) -> None:
    """It holds for all names, types, comments, clauses and properties."""
    # A constraint on a column of this name is refused: Spark would put a variable there.
    plain = WORDS.filter(lambda word: "${" not in word)
    names = data.draw(st.lists(plain, min_size=2, max_size=4, unique_by=str.lower))
    columns = []
    for name in names:
        comment = data.draw(st.one_of(st.just(""), WORDS.map(lambda text: f" COMMENT {literal(text)}")))
        null = data.draw(st.sampled_from(["", " NOT NULL"]))
        columns.append(f"`{name.replace('`', '``')}` {data.draw(TYPES)}{null}{comment}")
    first = "`" + names[0].replace("`", "``") + "`"
    default = data.draw(st.sampled_from(["1", "length('a')", "-2"]))
    columns[0] = f"{first} INT DEFAULT {default}"
    columns.append(f"CONSTRAINT {first} CHECK ({first} > 0)")
    pairs = "'delta.columnMapping.mode' = 'name', 'delta.feature.allowColumnDefaults' = 'supported'"
    pairs += f", {literal(data.draw(WORDS))} = {literal(data.draw(WORDS))}"
    where = [f"delta.`{tmp_path}/{uuid.uuid4().hex}`" for _ in range(2)]
    native.sql(
        f"CREATE TABLE {where[0]} ({', '.join(columns)}) USING delta PARTITIONED BY ({first}) "
        f"COMMENT {literal(data.draw(WORDS))} TBLPROPERTIES ({pairs})"
    )
    printed = native.sql(f"SHOW CREATE TABLE {where[0]}").first().createtab_stmt
    native.sql(printed.replace(where[0], where[1]))
    facts = [described(native, table) for table in where]
    assert facts[0] == facts[1]


def described(spark: SparkSession, table: str) -> list[object]:
    described = json.loads(spark.sql(f"DESCRIBE EXTENDED {table} AS JSON").first().json_metadata)
    own = ("table_name", "location")
    return [(key, value) for key, value in described.items() if key not in own]


def literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
