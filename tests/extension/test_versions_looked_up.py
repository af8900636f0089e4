"""On an object store a statement begins with the version of its table that Spark has looked up for it.

The tables are on a local disk, and only the beginning of a statement takes it for an object store.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from anabranch.callbacks.dml_handler import DmlHandler
from anabranch.commands.dml import statement
from anabranch.exceptions import ConcurrentAppendException
from anabranch.storage.local.local_store import LocalStore

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def _on_an_object_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statement, "is_local", lambda _: False)


@pytest.fixture
def table(delta: SparkSession, path: str) -> str:
    """One that deltalake can write to."""
    name = f"delta.`{path}`"
    delta.sql(
        f"CREATE TABLE {name} (id INT, n BIGINT) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')"
    )
    delta.sql(f"INSERT INTO {name} SELECT id, id * 10 FROM range(0, 3, 1, 1)")
    return name


@pytest.fixture
def listings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders that have been listed, one element for each time."""
    seen: list[str] = []
    right = LocalStore.list_from

    def counted(store: LocalStore, directory: str, *arguments: Any, **keywords: Any) -> Any:
        seen.append(directory)
        return right(store, directory, *arguments, **keywords)

    monkeypatch.setattr(LocalStore, "list_from", counted)
    return seen


@pytest.fixture
def append_elsewhere(path: str) -> Callable[[int, int], None]:
    """Appends a row as another process would, of which this one learns only by listing the log."""

    def append(row_id: int, n: int) -> None:
        rows = {"id": pa.array([row_id], pa.int32()), "n": pa.array([n], pa.int64())}
        write_deltalake(path, pa.table(rows), mode="append")

    return append


def rows(delta: SparkSession, table: str) -> list[Any]:
    return sorted(tuple(row) for row in delta.sql(f"SELECT id, n FROM {table}").collect())


@pytest.mark.parametrize(
    "changing",
    [
        "DELETE FROM {t} WHERE id = 1",
        "UPDATE {t} SET n = 7 WHERE id = 1",
        "MERGE INTO {t} t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
        "INSERT INTO {t} VALUES (5, 50)",
        "INSERT INTO {t} (id) VALUES (5)",
        "INSERT INTO {t} SELECT id, id FROM range(5, 7)",
        "INSERT OVERWRITE {t} SELECT 5, 50",
    ],
)
def test_the_log_is_listed_once(delta: SparkSession, table: str, listings: list[str], changing: str) -> None:
    """Behind the commit it is not listed here: the files are on a local disk, and every version in between is known."""
    delta.sql(changing.format(t=table))
    assert len(listings) == 1


def test_a_statement_of_an_older_frame_begins_with_the_newest_version(
    delta: SparkSession, table: str, append_elsewhere: Callable[[int, int], None]
) -> None:
    delta.table(table).createOrReplaceTempView("older")
    try:
        append_elsewhere(9, 90)
        delta.sql("UPDATE older SET n = 7 WHERE id = 9")
        append_elsewhere(9, 90)
        delta.sql("DELETE FROM older WHERE n = 90")
    finally:
        delta.catalog.dropTempView("older")
    assert rows(delta, table) == [(0, 0), (1, 10), (2, 20), (9, 7)]


@pytest.fixture
def late_append(monkeypatch: pytest.MonkeyPatch, append_elsewhere: Callable[[int, int], None]) -> None:
    """Another process appends (1, 11) when the next statement has looked up its table, and has not begun."""
    right = DmlHandler._target

    def late(*arguments: Any) -> Any:
        append_elsewhere(1, 11)
        return right(*arguments)

    monkeypatch.setattr(DmlHandler, "_target", late)


@pytest.mark.usefixtures("late_append")
def test_what_others_commit_after_the_look_up_counts_as_a_winner(delta: SparkSession, table: str) -> None:
    """An append of deltalake, which does not say that it is blind, and so is no commit to be ordered before."""
    with pytest.raises(ConcurrentAppendException):
        delta.sql(f"UPDATE {table} SET n = 7 WHERE id = 1")
    assert rows(delta, table) == [(0, 0), (1, 10), (1, 11), (2, 20)]


@pytest.mark.usefixtures("late_append")
def test_on_a_local_disk_the_log_is_listed_again(
    delta: SparkSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That takes less time than it leaves to others for a conflict."""
    monkeypatch.setattr(statement, "is_local", lambda _: True)
    delta.sql(f"UPDATE {table} SET n = 7 WHERE id = 1")
    assert rows(delta, table) == [(0, 0), (1, 7), (1, 7), (2, 20)]


@pytest.mark.usefixtures("late_append")
@pytest.mark.parametrize(
    "changing",
    [
        "UPDATE {t} SET n = (SELECT max(n) FROM {t}) WHERE id = 0",
        "MERGE INTO {t} t USING (SELECT 0 AS id, max(n) AS n FROM {t}) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *",
    ],
)
def test_a_statement_that_reads_its_table_begins_with_what_it_reads(
    delta: SparkSession,
    table: str,
    changing: str,
) -> None:
    """It reads the append, so it must not be ordered before it."""
    delta.sql(changing.format(t=table))
    assert rows(delta, table) == [(0, 20), (1, 10), (1, 11), (2, 20)]
    info = delta.sql(f"DESCRIBE HISTORY {table}").collect()[0]
    assert (info.version, info.readVersion) == (3, 2)
