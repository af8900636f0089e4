"""A table much like `lineitem` of TPC-H."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

FILES = 16
LINEITEM = (
    "id DIV 4 AS l_orderkey",
    "CAST(IF(id % 4 = 3, 4, id % 4) AS INT) AS l_linenumber",
    "pmod(hash(id), 200000) AS l_partkey",
    "pmod(hash(id, 1), 10000) AS l_suppkey",
    "CAST(id % 50 AS DECIMAL(12,2)) AS l_quantity",
    "CAST(pmod(hash(id, 2), 9000000) / 100 AS DECIMAL(12,2)) AS l_extendedprice",
    "CAST(id % 11 / 100 AS DECIMAL(12,2)) AS l_discount",
    "CAST(id % 9 / 100 AS DECIMAL(12,2)) AS l_tax",
    "substr('ANR', CAST(id % 3 + 1 AS INT), 1) AS l_returnflag",
    "IF(id % 2 = 0, 'O', 'F') AS l_linestatus",
    "date_add(DATE'1992-01-01', CAST(pmod(hash(id, 3), 2500) AS INT)) AS l_shipdate",
    "date_add(DATE'1992-02-01', CAST(pmod(hash(id, 4), 2500) AS INT)) AS l_commitdate",
    "date_add(DATE'1992-03-01', CAST(pmod(hash(id, 5), 2500) AS INT)) AS l_receiptdate",
    "IF(id % 4 = 0, 'DELIVER IN PERSON', 'COLLECT COD') AS l_shipinstruct",
    "element_at(array('AIR', 'MAIL', 'RAIL', 'SHIP', 'TRUCK'), CAST(id % 5 + 1 AS INT)) AS l_shipmode",
    "concat('comment ', hex(hash(id, 6)), ' of ', id % 1000) AS l_comment",
)
"""The columns, made of a number `id` for each row."""


def make_lineitem(spark: SparkSession, path: Path, rows: int) -> None:
    """A Delta table with so many rows."""
    spark.range(0, rows, 1, FILES).selectExpr(*LINEITEM).write.format("delta").save(str(path))
