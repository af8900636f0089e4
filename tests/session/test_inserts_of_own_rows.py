"""INSERT whose query reads the table that it writes to: what may change meanwhile."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from pyspark.sql import SparkSession

from anabranch.exceptions import DeltaConcurrentModificationException
from anabranch.spark.engine import WriteRequest, WrittenFiles
from anabranch.spark.extension.install import is_installed
from anabranch.spark.session.delta_session import DeltaSession

pytestmark = pytest.mark.spark

ONE = "SELECT id + 100, word, part FROM {t} WHERE id = 1"
JOINED = "SELECT a.id + b.id + 98, a.word, a.part FROM {t} a JOIN {t} b ON a.word < b.word WHERE a.id = 1 AND b.id = 2"
BY_ROWS = [
    (ONE, "UPDATE {t} SET word = 'new' WHERE id = 2", False),
    (ONE, "DELETE FROM {t} WHERE id = 2", False),
    (ONE, "UPDATE {t} SET word = 'new' WHERE id = 1", True),
    (ONE, "UPDATE {t} SET id = 1 WHERE id = 2", True),
    ("SELECT x.id + 100, x.word, 1 FROM {t} AS x WHERE x.id = 1 AND x.part = 1", "DELETE FROM {t} WHERE id = 2", False),
]
"""Of single rows of the table, on every engine."""
BY_FILES = [
    ("SELECT max(id) + 100, 'a', 1 FROM {t} WHERE id = 1", "UPDATE {t} SET word = 'new' WHERE id = 2", True),
    (f"{ONE} LIMIT 1", "DELETE FROM {t} WHERE id = 2", True),
    ("SELECT DISTINCT id + 100, word, part FROM {t} WHERE id = 1", "DELETE FROM {t} WHERE id = 2", True),
    (f"{ONE} AND id < (SELECT max(id) FROM {{t}})", "DELETE FROM {t} WHERE id = 2", True),
]
BY_PLAN = [
    (
        "SELECT t.id + u.x, t.word, t.part FROM {t} t JOIN VALUES (100) u(x) WHERE t.id = 1",
        "UPDATE {t} SET word = 'new' WHERE id = 2",
        False,
    ),
    (f"{ONE} AND current_timestamp() > '2000-01-01'", "DELETE FROM {t} WHERE id = 2", False),
    (JOINED, "DELETE FROM {t} WHERE id = 3", False),
    (JOINED, "DELETE FROM {t} WHERE id = 2", True),
]
"""Of rows too, where Spark shows its plan; elsewhere files decide."""


@pytest.mark.parametrize(("query", "change", "conflicts"), [*BY_ROWS, *BY_FILES, *BY_PLAN])
def test_other_rows_of_the_same_file_do_not_matter(
    delta: SparkSession, name: str, monkeypatch: pytest.MonkeyPatch, query: str, change: str, conflicts: bool
) -> None:
    """Bug B14: where each row of the query comes of single rows."""
    conflicts = conflicts or ((query, change, conflicts) in BY_PLAN and not is_installed(delta))
    delta.sql(f"CREATE TABLE {name} (id INT, word STRING, part INT) USING delta")
    delta.sql(f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ * FROM VALUES (1, 'a', 1), (2, 'b', 1), (3, 'c', 1)")
    engine: Any = type(DeltaSession.of(delta).engine)
    write = engine.write

    def write_later(self: Any, request: WriteRequest) -> WrittenFiles:
        monkeypatch.setattr(engine, "write", write)
        written: WrittenFiles = write(self, request)
        delta.sql(change.replace("{t}", name))
        return written

    monkeypatch.setattr(engine, "write", write_later)
    with pytest.raises(DeltaConcurrentModificationException) if conflicts else contextlib.nullcontext():
        delta.sql(f"INSERT INTO {name} {query.replace('{t}', name)}")
    added = [tuple(row) for row in delta.table(name).where("id > 100").collect()]
    assert added == ([] if conflicts else [(101, "a", 1)])
