"""What anabranch writes, others read: delta-rs, DuckDB (Delta's Rust kernel) and Polars."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from interop.arrow_rows import explain, rows_of
from interop.readers import READERS
from interop.written_tables import KINDS, WrittenTable, write_table

pytestmark = pytest.mark.spark

REFUSALS: dict[tuple[str, str], str] = {
    # Reader version 2 with writer version 7, as delta-spark itself writes it; with vectors DuckDB reads mapped tables.
    ("DuckDB", "mapping by name"): "Writer features must be Writer-only",
    ("DuckDB", "mapping by id"): "Writer features must be Writer-only",
    ("Polars", "mapping by name"): "column mapping",
    ("Polars", "mapping by id"): "column mapping",
    ("Polars", "mapping and vectors"): "columnMapping",
    ("Polars", "raced rows and mapping"): "columnMapping",
    ("Polars", "mapping and partitions"): "columnMapping",
    ("Polars", "v2 checkpoints"): "v2Checkpoint",
    ("Polars", "odd folder ü #"): "No such file",
}
"""What a reader says of a table that it does not support."""
MISREAD = {("DuckDB", "mapping and partitions")}
"""Tables that a reader is known to get wrong: DuckDB shows null for every partition column of a mapped table."""


@pytest.fixture(scope="module")
def written(native: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], WrittenTable]:
    """The table of a kind, written once."""
    folder = tmp_path_factory.mktemp("written")
    tables: dict[str, WrittenTable] = {}

    def table(kind: str) -> WrittenTable:
        if kind not in tables:
            tables[kind] = write_table(native, kind, folder)
        return tables[kind]

    return table


def check(reader: str, kind: str, root: str, table: WrittenTable) -> None:
    refusal = REFUSALS.get((reader, kind))
    if refusal is not None:
        with pytest.raises(Exception, match=refusal):
            READERS[reader](root)
        return
    rows = READERS[reader](root)
    difference = explain(rows_of(rows, table.columns), table.rows)
    assert (difference != "") == ((reader, kind) in MISREAD), difference


@pytest.mark.parametrize("kind", KINDS)
def test_we_read_what_we_write(delta: SparkSession, written: Callable[[str], WrittenTable], kind: str) -> None:
    table = written(kind)
    rows = delta.read.format("delta").load(table.root).toArrow()
    assert tuple(rows.column_names) == table.columns
    assert explain(rows_of(rows), table.rows) == ""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reader", READERS)
def test_others_read_what_we_write(written: Callable[[str], WrittenTable], reader: str, kind: str) -> None:
    table = written(kind)
    check(reader, kind, table.root, table)


@pytest.mark.parametrize("kind", ["long history", "deletion vectors", "v2 checkpoints", "row tracking"])
@pytest.mark.parametrize("reader", [*READERS, "anabranch"])
def test_checkpoints_replace_the_commits_before_them(
    native: SparkSession, written: Callable[[str], WrittenTable], tmp_path: Path, reader: str, kind: str
) -> None:
    """Covers fault F38 in part: commits that a checkpoint covers are gone, as after a clean-up."""
    table, root = written(kind), str(tmp_path / "copy")
    shutil.copytree(table.root, root)
    log = Path(root, "_delta_log")
    checkpointed = max(
        int(match[1]) for file in log.iterdir() if (match := re.match(r"(\d{20})\.checkpoint", file.name))
    )
    assert checkpointed >= 10
    for file in log.iterdir():
        match = re.fullmatch(r"(\d{20})(\.json|\.crc|\.checkpoint.*)", file.name)
        if match and int(match[1]) < checkpointed:
            file.unlink()
    if reader == "anabranch":
        rows = native.read.format("delta").load(root).toArrow()
        assert explain(rows_of(rows, table.columns), table.rows) == ""
    else:
        check(reader, kind, root, table)
