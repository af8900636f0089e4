"""Tables that anabranch writes for others to read, and the rows that must be in them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from anabranch.commands.dml.delete import prepare_delete
from anabranch.commands.dml.update import prepare_update
from anabranch.commands.optimize.optimize_command import optimize
from anabranch.commands.table_access import table_at
from anabranch.schema.paths import quote
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.tables import DeltaTable
from interop.arrow_rows import Rows, rows_of
from tables.statements import delete, update

ODD_TEXTS = ["a b", "x=y", "50%", "%20", "ü/ß", "'quoted\"", "{a,b}*?", "#?", "a:b\\c", "tab\there", "日本", "+", "~"]

ALL_TYPES = """
  SELECT 1 AS row_number, true AS flag, CAST(-128 AS TINYINT) AS tiny, CAST(32767 AS SMALLINT) AS small,
    -2147483648 AS whole, 9223372036854775807 AS big, CAST('NaN' AS FLOAT) AS narrow, CAST('-Infinity' AS DOUBLE) AS wide,
    CAST(-999.99 AS DECIMAL(5, 2)) AS money, CAST('9999999999999999999999999999.9999999999' AS DECIMAL(38, 10)) AS exact,
    CAST(0 AS DECIMAL(18, 18)) AS fraction, 'ü\U0001f600 "quoted" \\\\ \\n' AS words, X'00FF10' AS bytes,
    DATE'0001-01-01' AS day, TIMESTAMP'0001-01-01 00:00:00.000001' AS moment,
    TIMESTAMP_NTZ'1582-10-15 00:00:00' AS wall_clock,
    named_struct('a', 1, 'b', IF(true, named_struct('c', IF(true, array(1.5D, NULL), NULL)), NULL)) AS record,
    array('x', NULL, '') AS list, map('k', 1L, 'n', NULL) AS pairs,
    array(map('deep', named_struct('d', DATE'1969-12-31'))) AS deep
  UNION ALL SELECT 2, false, 127Y, -32768S, 2147483647, -9223372036854775808, CAST(-0.0 AS FLOAT), 1e-300,
    CAST(0.01 AS DECIMAL(5, 2)), CAST(-1 AS DECIMAL(38, 10)), CAST('0.123456789012345678' AS DECIMAL(18, 18)), '', X'',
    DATE'9999-12-31', TIMESTAMP'9999-12-31 23:59:59.999999', TIMESTAMP_NTZ'9999-12-31 23:59:59.999999',
    named_struct('a', NULL, 'b', named_struct('c', CAST(array() AS ARRAY<DOUBLE>))), CAST(array() AS ARRAY<STRING>),
    CAST(map() AS MAP<STRING, BIGINT>), CAST(array() AS ARRAY<MAP<STRING, STRUCT<d: DATE>>>)
  UNION ALL SELECT 3, NULL, NULL, NULL, NULL, NULL, CAST(1.1 AS FLOAT), 0.1D, NULL, NULL, NULL, 'plain', NULL,
    DATE'1969-12-31', TIMESTAMP'1969-12-31 23:59:59.999999', TIMESTAMP_NTZ'1969-07-20 20:17:40',
    named_struct('a', 3, 'b', NULL), NULL, NULL, array(NULL, map())
  UNION ALL SELECT 4, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
    NULL, NULL, NULL
"""

PARTITION_TYPES = """
  SELECT id, CAST(id AS TINYINT) AS tiny, CAST(-id AS SMALLINT) AS small, CAST(id AS INT) AS whole, id * 1000000000000 AS big,
    CAST(id / 8 AS FLOAT) AS narrow, id / 3 AS wide, CAST(-id / 4 AS DECIMAL(10, 2)) AS money,
    DATE'1969-12-30' + CAST(id AS INT) AS day, TIMESTAMP'1969-12-31 23:59:58.5' + MAKE_DT_INTERVAL(0, 0, 0, id) AS moment,
    TIMESTAMP_NTZ'2024-02-29 12:34:56.000001' + MAKE_DT_INTERVAL(id) AS wall_clock, id % 2 = 0 AS flag
  FROM range(4)
  UNION ALL SELECT 99, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
"""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WrittenTable:
    root: str
    rows: Rows
    columns: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Writer:
    """Writes to one table, with what makes the table what it is."""

    spark: SparkSession
    root: str
    properties: Mapping[str, str]

    def append(self, frame: DataFrame, *partition_by: str, mode: str = "append", **options: str) -> None:
        writer = frame.write.format("delta").mode(mode).options(**{**self.properties, **options})
        # Spark reads what it is given here as the name of a column, so odd names are in backticks.
        (writer.partitionBy(*map(quote, partition_by)) if partition_by else writer).save(self.root)


def all_types(writer: Writer) -> DataFrame:
    frame = writer.spark.sql(ALL_TYPES)
    writer.append(frame)
    return frame


def odd_partitions(writer: Writer) -> DataFrame:
    frame = writer.spark.createDataFrame([*enumerate(ODD_TEXTS), (99, None)], "id long, part string")
    writer.append(frame, "part")
    return frame


def typed_partitions(writer: Writer) -> DataFrame:
    frame = writer.spark.sql(PARTITION_TYPES)
    writer.append(frame, *frame.columns[1:])
    return frame


def long_history(writer: Writer) -> DataFrame:
    """35 commits: three checkpoints, overwrites and new columns in between, and a tail behind the last."""
    kept: list[int] = []
    for number in range(35):
        frame = writer.spark.range(number * 10, number * 10 + 10, 1, 1).selectExpr("id", f"'v{number}' AS word")
        if number >= 12:
            fields = "'n', id" if number < 23 else "'n', id, 'm', CAST(id AS STRING)"
            frame = frame.selectExpr("*", f"named_struct({fields}) AS added")
        overwrites = number in {7, 17}
        writer.append(frame, mode="overwrite" if overwrites else "append", mergeSchema="true")
        kept = [number] if overwrites else [*kept, number]
    return writer.spark.range(kept[0] * 10, 350).selectExpr(
        "id",
        "concat('v', id DIV 10) AS word",
        "named_struct('n', id, 'm', IF(id < 230, NULL, CAST(id AS STRING))) AS added",
    )


def odd_names(writer: Writer) -> DataFrame:
    """Names that files could not use; a column that comes later."""
    return _odd_names(writer)


def odd_names_partitioned(writer: Writer) -> DataFrame:
    return _odd_names(writer, "part=")


def _odd_names(writer: Writer, *partition_by: str) -> DataFrame:
    first = writer.spark.sql(
        "SELECT 1 AS `a b`, named_struct('x,y', 2, 'z', 'q') AS `s;t`, 'p' AS `part=`, array(1) AS `l{}`"
    )
    writer.append(first, *partition_by)
    writer.append(first)
    second = first.selectExpr("*", "map('k', named_struct('in(ner', 5L)) AS `new\tone`")
    writer.append(second, mergeSchema="true")
    return first.unionByName(first).unionByName(second, allowMissingColumns=True)


def several_commits(writer: Writer) -> DataFrame:
    """12 commits, so that there is a checkpoint of each kind."""
    for number in range(12):
        frame = writer.spark.range(number * 5, number * 5 + 5, 1, 1).selectExpr("id", "CAST(id % 3 AS STRING) AS part")
        writer.append(frame, "part")
    return writer.spark.range(60).selectExpr("id", "CAST(id % 3 AS STRING) AS part")


def raced(writer: Writer) -> DataFrame:
    """Rows changed by statements that lost races: merged vectors, in the log and in files, and marks moved along."""
    return _raced(writer)


def raced_in_partitions(writer: Writer) -> DataFrame:
    return _raced(writer, "part")


def _raced(writer: Writer, *partition_by: str) -> DataFrame:
    spark = writer.spark
    frame = spark.range(0, 3000, 1, 2).selectExpr("id", "id * 2 AS n", "CAST(id % 2 AS STRING) AS part")
    writer.append(frame, *partition_by)
    table = table_at(DeltaSession.of(spark), writer.root)
    ours = [
        prepare_delete(table, "id % 3 = 0 AND id > 50"),
        prepare_update(table, {"n": "-id"}, "id IN (5, 2000, 2999)"),
        prepare_delete(table, "id = 7"),
    ]
    update(table, {"n": "0"}, "id IN (1, 4, 1000)")
    optimize(table)
    delete(table, "id = 8")
    for statement in ours:
        with statement:
            statement.commit()
    source = spark.createDataFrame([(10, 1), (-1, 2)], "id long, n long")
    merge = DeltaTable.forPath(spark, writer.root).alias("t").merge(source.alias("s"), "t.id = s.id")
    merge.whenMatchedUpdate(set={"n": "s.n"}).whenNotMatchedInsert(
        values={"id": "s.id", "n": "s.n", "part": "'0'"}
    ).execute()
    changed = "CASE WHEN id IN (1, 4, 1000) THEN 0 WHEN id IN (5, 2000, 2999) THEN -id WHEN id = 10 THEN 1 ELSE n END"
    kept = frame.where("NOT (id % 3 = 0 AND id > 50) AND id NOT IN (7, 8)").selectExpr("id", f"{changed} AS n", "part")
    return kept.union(spark.createDataFrame([(-1, 2, "0")], kept.schema))


PLAIN = {"delta.enableDeletionVectors": "false"}

KINDS: dict[str, tuple[Callable[[Writer], DataFrame], Mapping[str, str]]] = {
    "all types": (all_types, PLAIN),
    "odd partitions": (odd_partitions, PLAIN),
    "typed partitions": (typed_partitions, PLAIN),
    "long history": (long_history, {**PLAIN, "delta.checkpointInterval": "10"}),
    "mapping by name": (odd_names, {**PLAIN, "delta.columnMapping.mode": "name"}),
    "mapping by id": (odd_names, {**PLAIN, "delta.columnMapping.mode": "id"}),
    "mapping and vectors": (odd_names, {"delta.columnMapping.mode": "name"}),
    "mapping and partitions": (odd_names_partitioned, {"delta.columnMapping.mode": "name"}),
    "odd folder ü #": (several_commits, PLAIN),
    "deletion vectors": (several_commits, {}),
    "raced rows": (raced, {}),
    "raced rows in partitions": (raced_in_partitions, {"delta.checkpointInterval": "4"}),
    "raced rows and mapping": (raced, {"delta.columnMapping.mode": "name"}),
    "v2 checkpoints": (several_commits, {**PLAIN, "delta.checkpointPolicy": "v2"}),
    "in-commit timestamps": (several_commits, {**PLAIN, "delta.enableInCommitTimestamps": "true"}),
    "row tracking": (several_commits, {**PLAIN, "delta.enableRowTracking": "true"}),
}


def write_table(spark: SparkSession, kind: str, folder: Path) -> WrittenTable:
    make, properties = KINDS[kind]
    # Polars finds no files below a folder with a space in its name.
    root = str(folder / (kind if "odd folder" in kind else kind.replace(" ", "_")))
    expected = make(Writer(spark, root, properties)).toArrow()
    return WrittenTable(root=root, rows=rows_of(expected), columns=tuple(expected.column_names))
