"""What transactions of several statements have committed, read by delta-rs, DuckDB and Polars, version by version."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import deltalake
import pytest
from pyspark.sql import SparkSession

from interop.arrow_rows import explain, rows_of
from interop.readers import READERS
from interop.transaction_tables import COLUMNS, FED, KINDS, OPERATIONS, TransactionTable, after_changes, write_table

pytestmark = [pytest.mark.spark, pytest.mark.long]


@pytest.fixture(scope="module")
def written(native: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], TransactionTable]:
    """The table of a kind, written once."""
    tables: dict[str, TransactionTable] = {}

    def table(kind: str) -> TransactionTable:
        if kind not in tables:
            tables[kind] = write_table(native, kind, str(tmp_path_factory.mktemp("transactions")))
        return tables[kind]

    return table


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reader", ["anabranch", *READERS])
def test_every_version_has_the_rows_of_its_statements(
    native: SparkSession, written: Callable[[str], TransactionTable], tmp_path: Path, reader: str, kind: str
) -> None:
    table = written(kind)
    if (reader, kind) == ("Polars", "mapping"):
        with pytest.raises(Exception, match="columnMapping"):
            READERS[reader](table.root)
        return
    # A copy that loses its last commit again and again, since not all readers can choose a version.
    copy = shutil.copytree(table.root, tmp_path / "copy")
    for version in reversed(range(len(table.rows))):
        if reader == "anabranch":
            rows = native.read.format("delta").option("versionAsOf", version).load(table.root).toArrow()
        else:
            rows = READERS[reader](str(copy))
        assert explain(rows_of(rows.select(COLUMNS), COLUMNS), table.rows[version]) == "", f"version {version}"
        for file in (copy / "_delta_log").glob(f"{version:020}*"):
            file.unlink()


@pytest.mark.parametrize("kind", KINDS)
def test_delta_rs_lists_the_transactions(written: Callable[[str], TransactionTable], kind: str) -> None:
    history = deltalake.DeltaTable(written(kind).root).history()
    assert tuple(entry["operation"] for entry in reversed(history)) == OPERATIONS


@pytest.mark.parametrize("kind", FED)
def test_the_feed_of_a_version_turns_the_rows_before_it_into_its_rows(
    native: SparkSession, written: Callable[[str], TransactionTable], kind: str
) -> None:
    table = written(kind)
    for version in range(1, len(table.rows)):
        query = f"SELECT * FROM table_changes_by_path('{table.root}', {version}, {version})"
        rows = after_changes(table.rows[version - 1], native.sql(query).toArrow())
        assert explain(rows, table.rows[version]) == "", f"version {version}"
