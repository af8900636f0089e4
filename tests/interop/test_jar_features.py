"""Tables with each feature, made by the delta-spark jar and here: each goes on with what the other wrote, and both read equal rows."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from interop.arrow_rows import Rows, explain, rows_of
from interop.feature_tables import TABLES, FeatureTable
from interop.jar import JARS, Jar

pytestmark = [
    pytest.mark.jar,
    pytest.mark.spark,
    pytest.mark.skipif(JARS not in os.environ, reason="needs the delta-spark jar: run `make test-jar`"),
]


def run_here(native: SparkSession, statements: list[str]) -> None:
    for statement in statements:
        native.sql(statement)


def read_by_both(jar: Jar, native: SparkSession, root: str, table: FeatureTable) -> Rows:
    """The rows, which both read alike."""
    query = f"SELECT {table.columns} FROM delta.`{root}`"
    theirs, ours = jar.rows(query), native.sql(query).toArrow()
    assert ours.column_names == theirs.column_names
    assert explain(rows_of(ours), rows_of(theirs)) == ""
    return rows_of(ours)


@pytest.mark.parametrize("kind", TABLES)
def test_features_of_its_tables(jar: Jar, native: SparkSession, tmp_path: Path, kind: str) -> None:
    root, table = str(tmp_path / "t"), TABLES[kind]
    jar.run(*table.sql(root))
    before = read_by_both(jar, native, root, table)
    run_here(native, table.sql(root, table.change, table.append))
    after = read_by_both(jar, native, root, table)
    assert before != after
    jar.run(*table.sql(root, table.append.replace("100", "300")))
    assert len(list((read_by_both(jar, native, root, table) - after).elements())) == 1


@pytest.mark.parametrize("kind", TABLES)
def test_features_of_our_tables(jar: Jar, native: SparkSession, tmp_path: Path, kind: str) -> None:
    root, table = str(tmp_path / "t"), TABLES[kind]
    run_here(native, table.sql(root))
    before = read_by_both(jar, native, root, table)
    jar.run(*table.sql(root, table.change, table.append))
    after = read_by_both(jar, native, root, table)
    assert before != after
    run_here(native, table.sql(root, table.append.replace("100", "300")))
    assert len(list((read_by_both(jar, native, root, table) - after).elements())) == 1
