"""INSERT whose query reads the table that it writes to: what may change meanwhile."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from pyspark.sql import SparkSession

from anabranch.exceptions import DeltaConcurrentModificationException
from anabranch.spark.engine import WriteRequest, WrittenFiles
from session_kinds import delta_session, in_this_process

pytestmark = pytest.mark.spark

ONE = "SELECT id + 100, word, part FROM {t} WHERE id = 1"
JOINED = "SELECT a.id + b.id + 98, a.word, a.part FROM {t} a JOIN {t} b ON a.word < b.word WHERE a.id = 1 AND b.id = 2"
OTHERS = "SELECT a.id + b.x, a.word, a.part FROM {t} a"
BY_ROWS = [
    (ONE, "UPDATE {t} SET word = 'new' WHERE id = 2", False),
    (ONE, "DELETE FROM {t} WHERE id = 2", False),
    (ONE, "UPDATE {t} SET word = 'new' WHERE id = 1", True),
    (ONE, "UPDATE {t} SET id = 1 WHERE id = 2", True),
    ("SELECT x.id + 100, x.word, 1 FROM {t} AS x WHERE x.id = 1 AND x.part = 1", "DELETE FROM {t} WHERE id = 2", False),
    (f"{OTHERS} JOIN {{u}} b ON b.x = 100 AND a.id = 1", "DELETE FROM {t} WHERE id = 2", False),
    (f"{OTHERS} JOIN {{u}} b ON b.x = 100 AND a.id = 1", "UPDATE {t} SET word = 'new' WHERE id = 1", True),
    (f"{OTHERS} LEFT JOIN {{u}} b ON b.x > a.id WHERE a.id = 1", "DELETE FROM {t} WHERE id = 2", False),
    (f"{OTHERS} LEFT JOIN {{u}} b ON b.x > a.id WHERE a.id = 1", "UPDATE {t} SET id = 1 WHERE id = 2", True),
    (
        f"{OTHERS}, VALUES (100), (200) AS b(x) WHERE a.id + b.x = 101 AND a.id < 2",
        "DELETE FROM {t} WHERE id = 2",
        False,
    ),
    (
        f"{OTHERS}, VALUES (100), (200) AS b(x) WHERE a.id + b.x = 101 AND a.id < 2",
        "DELETE FROM {t} WHERE id = 1",
        True,
    ),
    (
        "SELECT a.id + b.x, a.word, a.part FROM {u} b CROSS JOIN {t} a WHERE a.id = 1",
        "UPDATE {t} SET word = 'new' WHERE id = 2",
        False,
    ),
    ("SELECT max(id) + 100, 'a', 1 FROM {t} WHERE id = 1", "UPDATE {t} SET word = 'new' WHERE id = 2", False),
    ("SELECT max(id) + 100, 'a', 1 FROM {t} WHERE id = 1", "UPDATE {t} SET id = 1 WHERE id = 2", True),
    (f"{ONE} LIMIT 1", "DELETE FROM {t} WHERE id = 2", False),
    ("SELECT DISTINCT id + 100, word, part FROM {t} WHERE id = 1", "DELETE FROM {t} WHERE id = 2", False),
    (
        "SELECT max(a.id + b.x), 'a', 1 FROM {t} a JOIN {u} b WHERE a.id = 1",
        "UPDATE {t} SET word = 'new' WHERE id = 2",
        False,
    ),
]
"""Of the rows that pass a filter."""
BY_FILES = [
    (f"{ONE} AND id < (SELECT max(id) FROM {{t}})", "DELETE FROM {t} WHERE id = 2", True),
    # Rows that match nothing are made of columns of the table, too.
    (
        "SELECT coalesce(a.id, 0) + b.x, 'a', 1 FROM {u} b LEFT JOIN {t} a ON a.id > 5",
        "UPDATE {t} SET id = 7 WHERE id = 2",
        True,
    ),
]
BY_PLAN = [
    (f"{ONE} AND current_timestamp() > '2000-01-01'", "DELETE FROM {t} WHERE id = 2", False),
    (f"{OTHERS} JOIN {{v}} b WHERE a.id = 1", "DELETE FROM {t} WHERE id = 2", False),
    (JOINED, "DELETE FROM {t} WHERE id = 3", False),
    (JOINED, "DELETE FROM {t} WHERE id = 2", True),
]
"""Of rows too, as the plan shows."""


@pytest.mark.long
@in_this_process
@pytest.mark.parametrize(("query", "change", "conflicts"), [*BY_ROWS, *BY_FILES, *BY_PLAN])
def test_other_rows_of_the_same_file_do_not_matter(
    delta: SparkSession, name: str, monkeypatch: pytest.MonkeyPatch, query: str, change: str, conflicts: bool
) -> None:
    """Bug B14: where each row of the query comes of single rows."""
    others, view = f"{name}_others", f"{name}_view"
    if "{u}" in query or "{v}" in query:
        delta.sql(f"CREATE TABLE {others} USING delta AS SELECT 100 AS x")
        delta.table(others).createOrReplaceTempView(view)
    query = query.format(t=name, u=others, v=view)
    delta.sql(f"CREATE TABLE {name} (id INT, word STRING, part INT) USING delta")
    delta.sql(f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 'a', 1), (2, 'b', 1), (3, 'c', 1)")
    engine: Any = type(delta_session(delta).engine)
    write = engine.write

    def write_later(self: Any, request: WriteRequest) -> WrittenFiles:
        monkeypatch.setattr(engine, "write", write)
        written: WrittenFiles = write(self, request)
        delta.sql(change.format(t=name))
        return written

    monkeypatch.setattr(engine, "write", write_later)
    with pytest.raises(DeltaConcurrentModificationException) if conflicts else contextlib.nullcontext():
        delta.sql(f"INSERT INTO {name} {query}")
    added = [tuple(row) for row in delta.table(name).where("id > 100").collect()]
    assert added == ([] if conflicts else [(101, "a", 1)])
    delta.sql(f"DROP TABLE IF EXISTS {others}")
    delta.catalog.dropTempView(view)
