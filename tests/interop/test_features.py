"""Tables with each feature, made here and by delta-rs: each reads what the other wrote, and goes on with it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import duckdb_ext
import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, Schema
from pyspark.sql import SparkSession

from anabranch.errors.base import DeltaError
from interop.arrow_rows import Rows, explain, rows_of
from interop.feature_tables import READS_REFUSED, TABLES, WRITES_REFUSED
from interop.readers import READERS, read_by_delta_rs, read_by_duckdb

pytestmark = pytest.mark.spark

GENERATED = {"twice", "day"}


@pytest.fixture(scope="module")
def made(native: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a table, made once."""
    folder, roots = tmp_path_factory.mktemp("features"), dict[str, Path]()

    def root_of(kind: str) -> Path:
        if kind not in roots:
            roots[kind] = folder / f"t{len(roots)}"
            for statement in TABLES[kind].sql(str(roots[kind])):
                native.sql(statement)
        return roots[kind]

    return root_of


def here(native: SparkSession, root: Path, columns: str = "*") -> Rows:
    return rows_of(native.sql(f"SELECT {columns} FROM delta.`{root}`").toArrow())


def protocol(root: Path) -> dict[str, Any]:
    commits = sorted(file for file in (root / "_delta_log").glob("*.json") if file.stem.isdigit())
    actions = [json.loads(line) for file in commits for line in file.read_text().splitlines()]
    latest: dict[str, Any] = [action["protocol"] for action in actions if "protocol" in action][-1]
    return latest


IMPLIED = {1: set(), 2: {"appendOnly", "invariants"}, 3: {"appendOnly", "invariants", "checkConstraints"}}
"""By writer versions that do not name their features."""


@pytest.mark.parametrize("kind", TABLES)
def test_the_table_has_the_feature(made: Callable[[str], Path], kind: str) -> None:
    written = protocol(made(kind))
    assert set(TABLES[kind].features) <= {
        *written.get("writerFeatures", ()),
        *IMPLIED.get(written["minWriterVersion"], ()),
    }


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("reader", READERS)
def test_others_read_it(native: SparkSession, made: Callable[[str], Path], reader: str, kind: str) -> None:
    root = made(kind)
    refusal = READS_REFUSED.get((reader, kind))
    if refusal is not None:
        with pytest.raises(Exception, match=refusal.says):
            READERS[reader](str(root))
        return
    assert_equal_rows(native, root, READERS[reader](str(root)), TABLES[kind].compared)


def assert_equal_rows(native: SparkSession, root: Path, theirs: pa.Table, columns: str) -> None:
    if columns != "*":
        theirs = theirs.select(columns.split(", "))
    assert explain(rows_of(theirs), here(native, root, columns)) == ""


@pytest.mark.long
@pytest.mark.parametrize("kind", TABLES)
def test_delta_rs_and_we_write_in_turn(
    native: SparkSession, made: Callable[[str], Path], tmp_path: Path, kind: str
) -> None:
    root, table = tmp_path / "t", TABLES[kind]
    shutil.copytree(made(kind), root)
    before = here(native, root, table.columns)
    refusal = WRITES_REFUSED.get(("delta-rs", kind))
    if refusal is None:
        append_by_delta_rs(root, id_=200)
        [added] = (here(native, root, table.columns) - before).elements()
        assert 200 in added
    else:
        with pytest.raises(Exception, match=refusal.says):
            append_by_delta_rs(root, id_=200)
    for statement in table.sql(str(root), table.change, table.append):
        native.sql(statement)
    assert native.sql(f"SELECT * FROM delta.`{root}` WHERE id IN (100, 200)").count() == (2 if refusal is None else 1)
    if refusal is None:
        if kind != "append-only":
            DeltaTable(str(root)).delete("id = 200")
        # A NULL variant among others is what delta-rs reads at one time and not at another.
        if kind != "VARIANT":
            assert_equal_rows(native, root, read_by_delta_rs(str(root)), table.compared)


def append_by_delta_rs(root: Path, *, id_: int) -> None:
    """A row as one that is there, with another id; columns that are computed are left to delta-rs."""
    schema = pa.schema(DeltaTable(str(root)).schema())
    stored = [field for field in schema if field.name not in GENERATED]
    values = [pa.array([id_ if field.name == "id" else None]).cast(field.type) for field in stored]
    names = [field.name for field in stored]
    mode = "merge" if len(stored) < len(schema) else None
    deltalake.write_deltalake(str(root), pa.table(values, names=names), mode="append", schema_mode=mode)


ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "word": ["a", "b", None]})
AT = pa.array([datetime(2024, 2, 29, 12, 34, 56, 1), None, datetime(1969, 12, 31, 23, 59, 59)], pa.timestamp("us"))
INVARIANT = json.dumps({"expression": {"expression": "id > 0"}})


def by_delta_rs(
    root: Path, *, fields: tuple[Field, ...] = (), rows: pa.Table = ROWS, configuration: dict[str, str] | None = None
) -> DeltaTable:
    if fields:
        schema = Schema([*fields])
        DeltaTable.create(str(root), schema=schema, configuration=configuration)
        deltalake.write_deltalake(str(root), rows, mode="append", schema_mode="merge")
    else:
        deltalake.write_deltalake(str(root), rows, configuration=configuration)
    return DeltaTable(str(root))


def with_constraint(root: Path) -> None:
    by_delta_rs(root).alter.add_constraint({"positive": "id > 0"})


def with_rows_deleted(root: Path) -> None:
    table = by_delta_rs(root, configuration={"delta.enableDeletionVectors": "true"})
    table.delete("id = 3")


ID, WORD = Field("id", "long"), Field("word", "string")
BY_DELTA_RS: dict[str, tuple[Callable[[Path], object], str | None]] = {
    "appendOnly": (lambda root: by_delta_rs(root, configuration={"delta.appendOnly": "true"}), None),
    "NOT NULL": (lambda root: by_delta_rs(root, fields=(Field("id", "long", nullable=False), WORD)), "NULL, 'x'"),
    "invariants": (
        lambda root: by_delta_rs(root, fields=(Field("id", "long", metadata={"delta.invariants": INVARIANT}), WORD)),
        "-1, 'x'",
    ),
    "checkConstraints": (with_constraint, "-1, 'x'"),
    "generatedColumns": (
        lambda root: by_delta_rs(
            root, fields=(ID, WORD, Field("twice", "long", metadata={"delta.generationExpression": "id * 2"}))
        ),
        "7, 'x', 15",
    ),
    "timestampNtz": (lambda root: by_delta_rs(root, rows=ROWS.append_column("at", AT)), None),
    "deletionVectors": (with_rows_deleted, None),
    "changeDataFeed": (lambda root: by_delta_rs(root, configuration={"delta.enableChangeDataFeed": "true"}), None),
}
"""Tables that delta-rs makes, and a row that would break their rule."""


@pytest.mark.long
@pytest.mark.parametrize("kind", BY_DELTA_RS)
def test_we_go_on_with_tables_of_delta_rs(native: SparkSession, tmp_path: Path, kind: str) -> None:
    make, broken = BY_DELTA_RS[kind]
    root = tmp_path / "t"
    make(root)
    assert_equal_rows(native, root, read_by_delta_rs(str(root)), "*")
    if broken is not None:
        with pytest.raises(DeltaError):
            native.sql(f"INSERT INTO delta.`{root}` VALUES ({broken})")
    native.sql(f"INSERT INTO delta.`{root}` (id, word) VALUES (10, 'ours'), (11, 'too')")
    if kind not in {"appendOnly", "changeDataFeed"}:
        native.sql(f"DELETE FROM delta.`{root}` WHERE id = 1")
        native.sql(f"UPDATE delta.`{root}` SET word = 'changed' WHERE id = 10")
    deltalake.write_deltalake(str(root), ROWS.slice(1, 1), mode="append", schema_mode="merge")
    for read in (read_by_delta_rs, read_by_duckdb):
        rows = read(str(root))
        assert_equal_rows(native, root, rows, "*")
    assert {10, 11} <= set(rows["id"].to_pylist())


def test_rows_that_duckdb_inserts(native: SparkSession, tmp_path: Path) -> None:
    """Its add actions begin with a slash, which makes of a name in the table one outside: refused, nothing is read."""
    root = tmp_path / "t"
    native.sql("SELECT 1L AS id, 'a' AS word").write.format("delta").option(
        "delta.enableDeletionVectors", "false"
    ).save(str(root))
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    connection.execute(f"LOAD '{next(Path(duckdb_ext.__path__[0]).rglob('delta.duckdb_extension'))}'")
    connection.execute(f"ATTACH '{root}' AS t (TYPE delta)")
    connection.execute("INSERT INTO t VALUES (2, 'duck')")
    with pytest.raises(DeltaError, match="duckdb-"):
        here(native, root)
