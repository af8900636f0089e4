"""Tables of the delta-spark jar read equal here, ours read equal there, and both write to one table."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from anabranch.commands.dml.delete import prepare_delete
from anabranch.commands.dml.update import prepare_update
from anabranch.commands.optimize.optimize_command import optimize
from anabranch.commands.table_access import table_at
from anabranch.errors.base import DeltaError
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.storage.local.local_store import LocalStore
from interop.arrow_rows import explain, rows_of
from interop.jar import JARS, Jar
from interop.jar_tables import READABLE, REFUSED_WRITES, SMALL, VARIANT
from interop.written_tables import KINDS, write_table
from processes.changing import WRITERS, Changers, make
from tables.statements import delete

pytestmark = [
    pytest.mark.jar,
    pytest.mark.spark,
    pytest.mark.skipif(JARS not in os.environ, reason="needs the delta-spark jar: run `make test-jar`"),
]


@pytest.fixture(scope="module")
def made(jar: Jar, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """The folder of a table that the jar made, once."""
    folder, roots = tmp_path_factory.mktemp("jar"), dict[str, str]()

    def root_of(kind: str) -> str:
        if kind not in roots:
            root = str(folder / kind)
            statements = VARIANT if kind == "variant" else READABLE[kind]
            jar.run(*(statement.format(t=f"delta.`{root}`") for statement in statements))
            roots[kind] = root
        return roots[kind]

    return root_of


def by_jar(jar: Jar, root: str, version: int | None = None, columns: str = "*") -> pa.Table:
    travel = "" if version is None else f" VERSION AS OF {version}"
    return jar.rows(f"SELECT {columns} FROM delta.`{root}`{travel}")


def here(native: SparkSession, root: str, version: int | None = None) -> pa.Table:
    reader = native.read.format("delta")
    return (reader if version is None else reader.option("versionAsOf", version)).load(root).toArrow()


def versions(root: str) -> list[int]:
    return sorted(int(file.stem) for file in Path(root, "_delta_log").glob("*.json") if file.stem.isdigit())


@pytest.mark.parametrize("kind", READABLE)
def test_its_tables_read_equal_here(jar: Jar, native: SparkSession, made: Callable[[str], str], kind: str) -> None:
    """The newest version and those right before it."""
    root = made(kind)
    theirs = by_jar(jar, root)
    ours = here(native, root)
    assert ours.column_names == theirs.column_names
    assert explain(rows_of(ours), rows_of(theirs)) == ""
    for version in versions(root)[-4:-1]:
        ours, theirs = here(native, root, version), by_jar(jar, root, version)
        assert ours.column_names == theirs.column_names
        assert explain(rows_of(ours), rows_of(theirs)) == "", version


def test_its_variants_read_equal_here(jar: Jar, native: SparkSession, made: Callable[[str], str]) -> None:
    root = made("variant")
    columns = ["id", "to_json(v) AS v", "schema_of_variant(v) AS kind"]
    ours = native.read.format("delta").load(root).selectExpr(*columns).toArrow()
    assert explain(rows_of(ours), rows_of(by_jar(jar, root, columns=", ".join(columns)))) == ""


@pytest.mark.parametrize("kind", KINDS)
def test_our_tables_read_equal_there(jar: Jar, native: SparkSession, tmp_path: Path, kind: str) -> None:
    table = write_table(native, kind, tmp_path)
    theirs = by_jar(jar, table.root)
    assert explain(rows_of(theirs, table.columns), table.rows) == ""
    for version in versions(table.root)[-4:-1]:
        theirs = by_jar(jar, table.root, version)
        assert explain(rows_of(here(native, table.root, version)), rows_of(theirs)) == "", version


BOTH_WRITE = [
    "plain",
    "vectors",
    "vectors, partitioned",
    "v2 checkpoints",
    "multi-part checkpoints",
    "in-commit timestamps",
    "row tracking",
    "clustering",
    "change data feed",
    "dropped feature",
]


@pytest.mark.parametrize("kind", BOTH_WRITE)
def test_both_append_in_turn(jar: Jar, native: SparkSession, tmp_path: Path, kind: str) -> None:
    """Twelve commits, so that each reads a checkpoint that the other wrote."""
    root = str(tmp_path / "t")
    jar.run(*(statement.format(t=f"delta.`{root}`") for statement in READABLE[kind]))
    expected = rows_of(by_jar(jar, root))
    first = versions(root)[-1]
    for turn in range(12):
        query = SMALL.format(start=1000 + 10 * turn, end=1010 + 10 * turn)
        frame = native.sql(query)
        if turn % 2:
            jar.run(f"INSERT INTO delta.`{root}` {query}")
        else:
            frame.write.format("delta").mode("append").save(root)
        expected += rows_of(frame.toArrow())
    jar.run(f"DELETE FROM delta.`{root}` WHERE id = 1000", f"OPTIMIZE delta.`{root}`")
    gone = rows_of(native.sql(SMALL.format(start=1000, end=1001)).toArrow())
    expected -= gone
    assert versions(root)[-1] >= first + 13
    assert explain(rows_of(by_jar(jar, root)), expected) == ""
    assert explain(rows_of(here(native, root)), expected) == ""


@pytest.mark.parametrize("partitioned", [False, True], ids=["one file", "partitions"])
def test_both_change_rows_in_turn(jar: Jar, native: SparkSession, tmp_path: Path, partitioned: bool) -> None:
    """Each goes on from the vectors of the other, and ours lose races against it."""
    root = str(tmp_path / "t")
    by = "PARTITIONED BY (part) " if partitioned else ""
    jar.run(
        f"CREATE TABLE delta.`{root}` USING delta {by}TBLPROPERTIES ('delta.enableDeletionVectors' = 'true') AS "
        "SELECT /*+ COALESCE(1) */ id, id * 2 AS n, id % 2 AS part FROM range(100)"
    )
    table = table_at(DeltaSession.of(native), root)
    delete(table, "id IN (1, 2)")
    ours = [prepare_update(table, {"n": "-1"}, "id IN (5, 6)"), prepare_delete(table, "n = 40")]
    jar.run(
        f"DELETE FROM delta.`{root}` WHERE id = 3",
        f"UPDATE delta.`{root}` SET n = -2 WHERE id = 7",
        f"OPTIMIZE delta.`{root}`",
        f"MERGE INTO delta.`{root}` t USING (SELECT 8 AS id UNION ALL SELECT 200) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET n = -3 WHEN NOT MATCHED THEN INSERT (id, n, part) VALUES (s.id, 0, 0)",
    )
    for statement in ours:
        with statement:
            statement.commit()
    optimize(table)
    jar.run(f"UPDATE delta.`{root}` SET n = -4 WHERE id = 9")
    changed = {5: -1, 6: -1, 7: -2, 8: -3, 9: -4, 200: 0}
    expected = {id_: id_ * 2 for id_ in range(100) if id_ not in (1, 2, 3, 20)} | changed
    for output in (by_jar(jar, root), here(native, root)):
        rows = output.to_pylist()
        assert {row["id"]: row["n"] for row in rows} == expected
        assert len(rows) == len(expected)


def test_what_eight_processes_changed(jar: Jar, native: SparkSession, tmp_path: Path) -> None:
    """Covers race 90 for the jar: every version reads equal."""
    path = str(tmp_path / "t")
    table = make(native, path, WRITERS * 100, 10)
    changers = Changers(tmp_path)
    try:
        changers.begin("shift_own_rows", path, count=2)
        while table.history(1).collect()[0].version < WRITERS * 2:
            table.optimize().executeCompaction()
        answers = changers.end()
    finally:
        changers.stop()
    assert [answer["conflicts"] for answer in answers] == [[]] * WRITERS
    for version in versions(path):
        assert explain(rows_of(by_jar(jar, path, version)), rows_of(here(native, path, version))) == ""


@pytest.mark.parametrize("kind", ["row tracking"])
def test_row_ids_of_both_are_unique(jar: Jar, native: SparkSession, tmp_path: Path, kind: str) -> None:
    """The jar takes its ids from the mark that we moved."""
    root = str(tmp_path / "t")
    jar.run(*(statement.format(t=f"delta.`{root}`") for statement in READABLE[kind]))
    native.sql(SMALL.format(start=500, end=520)).write.format("delta").mode("append").save(root)
    jar.run(f"INSERT INTO delta.`{root}` {SMALL.format(start=600, end=620)}")
    counted = jar.rows(f"SELECT count(*) AS n, count(DISTINCT _metadata.row_id) AS ids FROM delta.`{root}`")
    [row] = counted.to_pylist()
    assert row["n"] == row["ids"] > 40


@pytest.mark.parametrize("kind", REFUSED_WRITES)
def test_writes_that_break_a_rule_are_refused(jar: Jar, native: SparkSession, tmp_path: Path, kind: str) -> None:
    query, named = REFUSED_WRITES[kind]
    root = str(tmp_path / "t")
    jar.run(*(statement.format(t=f"delta.`{root}`") for statement in READABLE[kind]))
    before = [(file.path, file.size_bytes) for file in sorted(LocalStore(root).list_tree(), key=lambda f: f.path)]
    with pytest.raises(DeltaError, match=named):
        native.sql(query).write.format("delta").mode("append").save(root)
    after = [(file.path, file.size_bytes) for file in sorted(LocalStore(root).list_tree(), key=lambda f: f.path)]
    assert after == before
