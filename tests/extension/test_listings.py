"""SHOW TABLES, SHOW VIEWS, SHOW PARTITIONS and DESCRIBE as Hive answers them, for clients that read them so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from anabranch.sessions import enable

pytestmark = pytest.mark.spark

SETTING = "spark.anabranch.hiveListings"
SCHEMA = "listed"


@pytest.fixture
def session(delta: SparkSession) -> Iterator[SparkSession]:
    """One of its own, whose schema has two tables and a view."""
    own = enable(delta.newSession())
    own.sql(f"CREATE SCHEMA {SCHEMA}")
    own.sql(f"CREATE TABLE {SCHEMA}.orders (id BIGINT) USING delta")
    own.sql(f"CREATE TABLE {SCHEMA}.items (id BIGINT) USING delta")
    own.sql(f"CREATE VIEW {SCHEMA}.large AS SELECT * FROM {SCHEMA}.orders")
    yield own
    own.sql(f"DROP SCHEMA {SCHEMA} CASCADE")


def test_names_alone_where_the_session_is_set_to_them(session: SparkSession) -> None:
    spark_says = session.sql(f"SHOW TABLES IN {SCHEMA}")
    assert spark_says.columns == ["namespace", "tableName", "isTemporary"]
    session.conf.set(SETTING, "true")
    assert session.sql(f"SHOW TABLES IN {SCHEMA}").columns == ["tableName"]
    assert sorted(session.sql(f"SHOW TABLES IN `{SCHEMA}`").collect()) == [("items",), ("large",), ("orders",)]
    assert session.sql(f"SHOW TABLES IN {SCHEMA} LIKE 'i*'").collect() == [("items",)]
    assert session.sql(f"SHOW VIEWS IN {SCHEMA}").collect() == [("large",)]
    session.sql(f"USE {SCHEMA}")
    assert len(session.sql("SHOW TABLES").collect()) == 3
    session.conf.set(SETTING, "false")
    assert session.sql("SHOW TABLES").columns == spark_says.columns
    session.sql("USE default")


def test_partitions_as_hive_writes_them(session: SparkSession) -> None:
    session.sql(
        f"CREATE TABLE {SCHEMA}.parts (id BIGINT, day DATE, kind STRING) USING delta PARTITIONED BY (day, kind)"
    )
    session.sql(f"INSERT INTO {SCHEMA}.parts VALUES (1, DATE'2026-01-02', 'a/b'), (2, DATE'2026-01-01', NULL)")
    statement = f"SHOW PARTITIONS {SCHEMA}.parts"
    assert session.sql(statement).columns == ["day", "kind"]
    session.conf.set(SETTING, "true")
    shown = session.sql(statement)
    assert shown.columns == ["partition"]
    assert shown.collect() == [("day=2026-01-01/kind=__HIVE_DEFAULT_PARTITION__",), ("day=2026-01-02/kind=a%2Fb",)]
    one = session.sql(f"{statement} PARTITION (day = '2026-01-02')")
    assert one.collect() == [("day=2026-01-02/kind=a%2Fb",)]


def test_clustering_columns_are_not_described_twice(session: SparkSession) -> None:
    """PyHive takes each row of DESCRIBE before the section on partitions for a column."""
    session.sql(f"CREATE TABLE {SCHEMA}.clustered (id BIGINT, day DATE) USING delta CLUSTER BY (day)")
    described = session.sql(f"DESCRIBE {SCHEMA}.clustered").collect()
    assert "# Clustering Information" in [row.col_name for row in described]
    session.conf.set(SETTING, "true")
    assert session.sql(f"DESCRIBE {SCHEMA}.clustered").collect() == [("id", "bigint", None), ("day", "date", None)]
    extended = [row.col_name for row in session.sql(f"DESCRIBE EXTENDED {SCHEMA}.clustered").collect()]
    assert "# Clustering Information" in extended


def test_other_patterns_are_answered_as_by_spark(session: SparkSession) -> None:
    session.conf.set(SETTING, "true")
    listed = {(entry.name, entry.tableType) for entry in session.catalog.listTables(SCHEMA)}
    assert listed == {("items", "MANAGED"), ("orders", "MANAGED"), ("large", "VIEW")}
    extended = session.sql(f"SHOW TABLE EXTENDED IN {SCHEMA} LIKE 'o*'")
    assert extended.columns == ["namespace", "tableName", "isTemporary", "information"]
    assert extended.count() == 1


@pytest.mark.parametrize("statement", ["SHOW TABLES", "SHOW VIEWS", f"SHOW PARTITIONS {SCHEMA}.orders"])
def test_an_invalid_word_is_an_error(session: SparkSession, statement: str) -> None:
    session.conf.set(SETTING, "yes")
    with pytest.raises(Exception, match=rf"Option {SETTING} = 'yes': it is true or false"):
        session.sql(statement)
