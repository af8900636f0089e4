"""Tables made, changed and described through the catalog."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import anabranch
from anabranch.errors.arguments import UnsupportedOperationError
from anabranch.errors.commits import ProtocolChangedException
from anabranch.errors.constraints import UntrustedExpressionError
from anabranch.tables import DeltaTable
from extension.interruptions import meanwhile

pytestmark = pytest.mark.spark


@pytest.fixture
def name(delta: SparkSession) -> Iterator[str]:
    """The name of a table that is not there yet."""
    made = f"defined_{uuid.uuid4().hex[:8]}"
    yield made
    delta.sql(f"DROP TABLE IF EXISTS {made}")


def test_a_table_that_another_writer_creates_meanwhile(delta: SparkSession, name: str, path: str) -> None:
    """IF NOT EXISTS is content with it, by name, by path and where the catalog does not know it yet."""
    other = anabranch.enable(delta.newSession())

    def creates(table: str, columns: str = "id BIGINT") -> Callable[[], object]:
        return lambda: other.sql(f"CREATE TABLE {table} ({columns}) USING delta")

    with meanwhile(delta, creates(name)):
        delta.sql(f"CREATE TABLE IF NOT EXISTS {name} (id BIGINT) USING delta")
    delta.sql(f"INSERT INTO {name} VALUES (1)")
    delta.sql(f"DROP TABLE {name}")
    with meanwhile(delta, creates(name, "other STRING")):
        delta.sql(f"CREATE TABLE IF NOT EXISTS {name} (id BIGINT) USING delta")
    assert delta.table(name).columns == ["other"]
    delta.sql(f"DROP TABLE {name}")
    with meanwhile(delta, creates(name)), pytest.raises(ProtocolChangedException):
        delta.sql(f"CREATE TABLE {name} (id BIGINT) USING delta")
    delta.sql(f"DROP TABLE {name}")

    with meanwhile(delta, creates(f"delta.`{path}`")):
        delta.sql(f"CREATE TABLE IF NOT EXISTS {name} (id BIGINT) USING delta LOCATION '{path}'")
    assert delta.table(name).columns == ["id"]
    assert len(list(Path(path, "_delta_log").glob("*.json"))) == 1
    with meanwhile(delta, creates(f"delta.`{path} 2`")):
        DeltaTable.createIfNotExists(delta).location(f"{path} 2").addColumn("id", "BIGINT").execute()
    with meanwhile(delta, creates(f"delta.`{path} 3`")):
        delta.sql(f"CREATE TABLE IF NOT EXISTS delta.`{path} 3` (id BIGINT) USING delta")


def test_create_table_like_of_another_format(delta: SparkSession, name: str) -> None:
    """It stays Spark's; delta-spark makes a Delta table of it. Other forms are in `tests/differential/programs/definitions.txt`."""
    delta.sql(f"CREATE TABLE {name} (a INT, p INT) USING delta PARTITIONED BY (p)")
    delta.sql(f"CREATE TABLE {name}_parquet LIKE {name} USING parquet")
    try:
        described = delta.sql(f"DESCRIBE EXTENDED {name}_parquet").where("col_name = 'Provider'").first()
        assert described.data_type == "parquet"
    finally:
        delta.sql(f"DROP TABLE {name}_parquet")


def test_a_table_by_path_has_no_name_to_change_or_drop(delta: SparkSession, path: str) -> None:
    delta.sql(f"CREATE TABLE delta.`{path}` (a INT) USING delta")
    for statement in ("DROP TABLE {}", "ALTER TABLE {} RENAME TO other"):
        with pytest.raises(UnsupportedOperationError, match="without a name"):
            delta.sql(statement.format(f"delta.`{path}`"))
    assert Path(path, "_delta_log").exists()


def test_a_default_collation_is_refused(delta: SparkSession, name: str) -> None:
    if delta.version < "4.1":
        pytest.skip("Spark 4.0 has no such statement")
    delta.sql(f"CREATE TABLE {name} (a STRING) USING delta")
    with pytest.raises(UnsupportedOperationError, match="COLLATION"):
        delta.sql(f"ALTER TABLE {name} DEFAULT COLLATION UTF8_LCASE")


@pytest.mark.parametrize("query", ["(a STRING) USING delta {}", "USING delta {} AS SELECT 'a' AS a"])
def test_a_table_with_a_default_collation_is_refused(delta: SparkSession, name: str, query: str) -> None:
    """It would hold for columns to come, too; columns may have one of their own."""
    with pytest.raises(UnsupportedOperationError, match="COLLATION"):
        delta.sql(f"CREATE TABLE {name} " + query.format("DEFAULT COLLATION UTF8_LCASE"))
    assert not delta.catalog.tableExists(name)
    delta.sql(f"CREATE TABLE {name} " + query.format("DEFAULT COLLATION UTF8_BINARY"))
    assert "collation" not in {row.key for row in delta.sql(f"SHOW TBLPROPERTIES {name}").collect()}


def test_options_of_a_writer_are_no_properties(delta: SparkSession, name: str) -> None:
    """Bug B39."""
    options = "OPTIONS ('overwriteSchema' = 'true', 'delta.appendOnly' = 'true')"
    delta.sql(f"CREATE TABLE {name} (a INT) USING delta {options}")
    properties = {row.key: row.value for row in delta.sql(f"SHOW TBLPROPERTIES {name}").collect()}
    assert properties["delta.appendOnly"] == "true"
    assert "overwriteSchema" not in properties


def test_a_declaration_over_a_table_with_varchar_says_what_is_true(delta: SparkSession, name: str, path: str) -> None:
    """Bug B39."""
    delta.sql(f"CREATE TABLE delta.`{path}` (a VARCHAR(4)) USING delta")
    delta.sql(f"CREATE TABLE {name} (a VARCHAR(4)) USING delta LOCATION '{path}'")
    assert delta.sql(f"DESCRIBE {name}").first().data_type == "varchar(4)"
    assert os.listdir(f"{path}/_delta_log").count("00000000000000000001.json") == 0


def test_unnamed_constraints_are_named_by_spark(delta: SparkSession, name: str) -> None:
    if delta.version < "4.1":
        pytest.skip("Spark 4.0 knows no constraints")
    delta.sql(f"CREATE TABLE {name} (a INT) USING delta")
    delta.sql(f"ALTER TABLE {name} ADD CHECK (a > 0)")
    with pytest.raises(Exception, match="violates"):
        delta.sql(f"INSERT INTO {name} VALUES (0)")


def test_a_constraint_has_no_subquery(delta: SparkSession, name: str) -> None:
    """No write could check it for its own rows alone."""
    delta.sql(f"CREATE TABLE {name} (a INT) USING delta")
    with pytest.raises(UntrustedExpressionError):
        delta.sql(f"ALTER TABLE {name} ADD CONSTRAINT c CHECK (a IN (SELECT 1))")
    assert delta.sql(f"DESCRIBE HISTORY {name}").count() == 1


def test_a_view_takes_no_constraint(delta: SparkSession, name: str) -> None:
    delta.sql(f"CREATE TABLE {name} (a INT) USING delta")
    delta.sql(f"CREATE OR REPLACE TEMP VIEW constrained AS SELECT * FROM {name}")
    with pytest.raises(Exception, match=r"(?i)view"):
        delta.sql("ALTER TABLE constrained ADD CONSTRAINT c CHECK (a > 0)")
