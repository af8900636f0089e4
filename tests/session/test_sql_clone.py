"""SHALLOW CLONE by SQL."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from anabranch.errors.log import VersionNotFoundError
from anabranch.errors.tables import (
    CloneSourceError,
    CloneTargetError,
    DeepCloneError,
    NotADeltaTableError,
    TableAlreadyExistsError,
)
from session.documented import statement

pytestmark = pytest.mark.spark

RESULT = {
    "source_table_size": 0,
    "source_num_of_files": 1,
    "num_removed_files": 0,
    "num_copied_files": 0,
    "removed_files_size": 0,
    "copied_files_size": 0,
}


@statement(
    "{CREATE TABLE [IF NOT EXISTS] | [CREATE OR] REPLACE TABLE} t SHALLOW CLONE s [{VERSION | TIMESTAMP} AS OF x] "
    "[TBLPROPERTIES (…)] [LOCATION '…']"
)
def test_clone(delta: SparkSession, name: str, path: str) -> None:
    """Creates a table that begins with the files of another one, which are not copied. The source may also be a
    parquet.`folder`."""
    delta.sql(f"CREATE TABLE delta.`{path}` (id INT) USING delta")
    delta.sql(f"INSERT INTO delta.`{path}` VALUES (1)")
    delta.sql(f"INSERT INTO delta.`{path}` VALUES (2)")
    source = f"delta.`{path}`"
    result = delta.sql(f"CREATE TABLE {name} SHALLOW CLONE {source} VERSION AS OF 1 TBLPROPERTIES ('a' = 'b')").first()
    assert {**result.asDict(), "source_table_size": 0} == RESULT
    assert delta.table(name).collect() == [(1,)]
    assert delta.sql(f"SHOW TBLPROPERTIES {name} ('a')").first().value == "b"

    assert delta.sql(f"CREATE TABLE IF NOT EXISTS {name} SHALLOW CLONE {source}").collect() == []
    with pytest.raises(TableAlreadyExistsError):
        delta.sql(f"CREATE TABLE {name} SHALLOW CLONE {source}")
    named = delta.sql(f"CREATE TABLE {name}_3 SHALLOW CLONE {name}")
    assert named.first().source_num_of_files == 1
    parameters = delta.sql(f"DESCRIBE HISTORY {name}_3").first().operationParameters
    assert parameters["source"] == f"spark_catalog.default.{name}"
    delta.sql(f"DROP TABLE {name}_3")
    result = delta.sql(f"CREATE OR REPLACE TABLE {name} SHALLOW CLONE {source}").first()
    assert (result.source_num_of_files, result.num_removed_files) == (2, 0)
    assert sorted(delta.table(name).collect()) == [(1,), (2,)]

    elsewhere = f"{path} 2"
    when = "TIMESTAMP AS OF date_add(current_date(), -1000)"
    for statement_, error in [
        (f"CREATE TABLE delta.`{elsewhere}` DEEP CLONE {source}", DeepCloneError),
        (f"CREATE TABLE delta.`{elsewhere}` CLONE {source}", DeepCloneError),
        (f"REPLACE TABLE delta.`{elsewhere}` SHALLOW CLONE {source}", NotADeltaTableError),
        (f"CREATE TABLE delta.`{elsewhere}` SHALLOW CLONE {source} VERSION AS OF 9", VersionNotFoundError),
        (f"CREATE TABLE {name}_2 SHALLOW CLONE {source} LOCATION 'x/y'", CloneTargetError),
        (f"CREATE TABLE {name}_2 SHALLOW CLONE {source} COMMENT 'x'", CloneTargetError),
        (f"CREATE TABLE {name}_2 SHALLOW CLONE {name}_3", NotADeltaTableError),
        (f"CREATE TABLE {name}_2 SHALLOW CLONE csv.`{path}`", CloneSourceError),
        (f"CREATE TABLE {name}_2 SHALLOW CLONE parquet.`{path}` {when}", CloneSourceError),
    ]:
        with pytest.raises(error):
            delta.sql(statement_)
