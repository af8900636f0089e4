"""AutoCDC: flows that apply the changes of a source to a Delta table, as SCD 1 and SCD 2, on `anabranch serve`."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from serve.pipeline_project import FIRST_WITH_AUTO_CDC, FIRST_WITH_SCD2, RELEASE, Project
from serve.served import Client, Served, client, served

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.skipif(RELEASE < FIRST_WITH_AUTO_CDC, reason="PySpark has no AutoCDC"),
]
SCD2 = pytest.mark.skipif(RELEASE < FIRST_WITH_SCD2, reason="this PySpark has only SCD 1")
DEFINITIONS = """
from pyspark import pipelines as dp

dp.create_streaming_table("customers", format="delta")
dp.create_auto_cdc_flow(
    target="customers",
    source="changes",
    keys=["id"],
    sequence_by="seq",
    apply_as_deletes="op = 'D'",
    except_column_list=["op", "seq"],
    stored_as_scd_type={scd_type},
    {more}
)
"""
MORE = {
    1: "",
    2: 'track_history_column_list=["name"],',
}
"""SCD 2 allows a new column in the source only if the columns whose history it tracks are named."""

OTHERS_KEY = 100
"""The key whose rows another writer updates."""

FIRST = f"""
INSERT INTO changes VALUES (1, 'Ada', 'U', 1), (2, 'Bea', 'U', 1), (3, 'Cy', 'U', 1), (1, 'Ann', 'U', 3),
    (2, NULL, 'D', 3), (3, 'Cy', 'U', 1), ({OTHERS_KEY}, 'Zoe', 'U', 1)
"""
SECOND = """
INSERT INTO changes VALUES (1, 'Amy', 'U', 2, 'Rome'), (2, 'Ben', 'U', 2, NULL), (2, 'Bob', 'U', 4, 'Oslo'),
    (3, 'Cy', 'U', 1, NULL), (4, 'Di', 'U', 1, 'Lima'), (4, NULL, 'D', 2, NULL)
"""
"""Key 1 gets an event between two others, key 2 one before its delete and one after it, key 4 only a delete at last."""

RowsOfKeys = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Expected:
    """The rows of the target after each batch. SCD 2 has the sequence numbers between which a row is valid."""

    columns: str
    first: RowsOfKeys
    second: RowsOfKeys


TARGETS = {
    1: Expected(columns="id, name", first=[(1, "Ann"), (3, "Cy")], second=[(1, "Ann"), (2, "Bob"), (3, "Cy")]),
    2: Expected(
        columns="id, name, __START_AT, __END_AT",
        first=[(1, "Ada", 1, 3), (1, "Ann", 3, None), (2, "Bea", 1, 3), (3, "Cy", 1, None)],
        second=[
            *[(1, "Ada", 1, 2), (1, "Amy", 2, 3), (1, "Ann", 3, None)],
            *[(2, "Bea", 1, 2), (2, "Ben", 2, 3), (2, "Bob", 4, None)],
            *[(3, "Cy", 1, None), (4, "Di", 1, 2)],
        ],
    ),
}


def target_rows(by: Client, expected: Expected, version: str = "") -> RowsOfKeys:
    return by.rows(f"SELECT {expected.columns} FROM customers{version} WHERE id < {OTHERS_KEY} ORDER BY ALL")


def versions(by: Client, operation: str) -> list[int]:
    """The versions of the target that an operation wrote, oldest first."""
    return sorted(int(row[0]) for row in by.rows("DESCRIBE HISTORY customers") if row[4] == operation)


@contextlib.contextmanager
def another_writer(server: Served) -> Iterator[None]:
    """Another client that updates rows of the target and never rests. A conflict is a failure."""
    failures: list[BaseException] = []
    stopped = threading.Event()

    def update() -> None:
        try:
            with client(server, "connect") as by:
                for number in itertools.count():
                    if stopped.is_set():
                        return
                    by.run(f"UPDATE customers SET name = '{number}' WHERE id = {OTHERS_KEY}")
        except BaseException as failure:
            failures.append(failure)

    writer = threading.Thread(target=update)
    writer.start()
    try:
        yield
    finally:
        stopped.set()
        writer.join()
    assert not failures, failures


@pytest.mark.parametrize("scd_type", [1, pytest.param(2, marks=SCD2)])
def test_changes_become_rows(tmp_path: Path, scd_type: int) -> None:
    """Late and repeated events, deletes, a second run with a new column beside another writer, and a full refresh.

    Every run goes on from the checkpoint of the one before."""
    expected = TARGETS[scd_type]
    project = Project(tmp_path / "shop")
    project.define(customers=DEFINITIONS.format(scd_type=scd_type, more=MORE[scd_type]))
    with served(tmp_path / "warehouse") as server, client(server, "connect") as by:
        by.run("CREATE TABLE changes (id INT, name STRING, op STRING, seq INT) USING delta")
        by.run(FIRST)
        project.run(SPARK_REMOTE=server.connect_url)
        assert target_rows(by, expected) == expected.first
        (first,) = versions(by, "MERGE")

        by.run("ALTER TABLE changes ADD COLUMNS (city STRING)")
        by.run(SECOND)
        with another_writer(server):
            project.run(SPARK_REMOTE=server.connect_url)
        assert target_rows(by, expected) == expected.second
        assert by.rows("SELECT city FROM customers WHERE name = 'Bob'") == [("Oslo",)]
        # One commit has the whole batch, with updates of the other writer before and after it.
        (_, second) = versions(by, "MERGE")
        assert target_rows(by, expected, f"@v{second - 1}") == expected.first
        assert target_rows(by, expected, f"@v{second}") == expected.second
        assert any(first < version < second for version in versions(by, "UPDATE"))
        assert all(name.isdigit() for (name,) in by.rows(f"SELECT name FROM customers WHERE id = {OTHERS_KEY}"))

        # All events come once more, in a run of its own, and then twice in one batch.
        by.run("INSERT INTO changes SELECT * FROM changes")
        project.run(SPARK_REMOTE=server.connect_url)
        assert target_rows(by, expected) == expected.second
        project.run("--full-refresh", "customers", SPARK_REMOTE=server.connect_url)
        assert target_rows(by, expected) == expected.second
        assert by.rows(f"SELECT name FROM customers WHERE id = {OTHERS_KEY}") == [("Zoe",)]
