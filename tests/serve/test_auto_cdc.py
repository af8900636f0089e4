"""AutoCDC: flows that apply the changes of a source to a Delta table, as SCD 1 and SCD 2."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from serve.pipeline_project import FIRST_WITH_AUTO_CDC, FIRST_WITH_SCD2, RELEASE
from serve.pipeline_runners import PipelineRunner

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.skipif(RELEASE < FIRST_WITH_AUTO_CDC, reason="PySpark has no AutoCDC"),
]
TARGETS = {1: "customers"} if RELEASE < FIRST_WITH_SCD2 else {1: "customers", 2: "history"}
"""Target tables, by type of SCD."""

DEFINITION = """
from pyspark import pipelines as dp

dp.create_streaming_table("{target}", format="delta")
dp.create_auto_cdc_flow(
    target="{target}",
    source="{changes}",
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
INSERT INTO {{changes}} VALUES (1, 'Ada', 'U', 1), (2, 'Bea', 'U', 1), (3, 'Cy', 'U', 1), (1, 'Ann', 'U', 3),
    (2, NULL, 'D', 3), (3, 'Cy', 'U', 1), ({OTHERS_KEY}, 'Zoe', 'U', 1)
"""
SECOND = """
INSERT INTO {changes} VALUES (1, 'Amy', 'U', 2, 'Rome'), (2, 'Ben', 'U', 2, NULL), (2, 'Bob', 'U', 4, 'Oslo'),
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


EXPECTED = {
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


def target_rows(runner: PipelineRunner, scd_type: int, version: str = "") -> RowsOfKeys:
    columns, table = EXPECTED[scd_type].columns, runner.name(TARGETS[scd_type])
    return runner.by.rows(f"SELECT {columns} FROM {table}{version} WHERE id < {OTHERS_KEY} ORDER BY ALL")


def versions(runner: PipelineRunner, target: str, operation: str) -> list[int]:
    """The versions of a target that an operation wrote, oldest first."""
    history = runner.by.rows(f"DESCRIBE HISTORY {runner.name(target)}")
    return sorted(int(row[0]) for row in history if row[4] == operation)


def names_of_others(runner: PipelineRunner, target: str) -> set[str]:
    rows = runner.by.rows(f"SELECT name FROM {runner.name(target)} WHERE id = {OTHERS_KEY}")
    return {str(name) for (name,) in rows}


@contextlib.contextmanager
def another_writer(runner: PipelineRunner) -> Iterator[None]:
    """Another client that updates rows of all targets and never rests. A conflict is a failure."""
    failures: list[BaseException] = []
    stopped = threading.Event()

    def update() -> None:
        try:
            with runner.another_client() as by:
                for number, target in enumerate(itertools.cycle(TARGETS.values())):
                    if stopped.is_set():
                        return
                    by.run(f"UPDATE {runner.name(target)} SET name = '{number}' WHERE id = {OTHERS_KEY}")
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


def test_changes_become_rows(runner: PipelineRunner) -> None:
    """Late and repeated events, deletes, a second run with a new column beside another writer, and a full refresh.

    Every run goes on from the checkpoint of the one before."""
    changes = runner.name("changes")
    for scd_type, target in TARGETS.items():
        text = DEFINITION.format(target=target, changes=changes, scd_type=scd_type, more=MORE[scd_type])
        runner.project.define(**{target: text})
    runner.by.run(f"CREATE TABLE {changes} (id INT, name STRING, op STRING, seq INT) USING delta")
    runner.by.run(FIRST.format(changes=changes))
    runner.pipeline("run")
    for scd_type in TARGETS:
        assert target_rows(runner, scd_type) == EXPECTED[scd_type].first

    runner.by.run(f"ALTER TABLE {changes} ADD COLUMNS (city STRING)")
    runner.by.run(SECOND.format(changes=changes))
    with another_writer(runner):
        runner.pipeline("run")
    for scd_type, target in TARGETS.items():
        expected = EXPECTED[scd_type]
        assert target_rows(runner, scd_type) == expected.second
        assert runner.by.rows(f"SELECT city FROM {runner.name(target)} WHERE name = 'Bob'") == [("Oslo",)]
        # One commit has the whole batch, with updates of the other writer before and after it.
        first, second = versions(runner, target, "MERGE")
        assert target_rows(runner, scd_type, f" VERSION AS OF {second - 1}") == expected.first
        assert target_rows(runner, scd_type, f" VERSION AS OF {second}") == expected.second
        assert any(first < version < second for version in versions(runner, target, "UPDATE"))
        assert all(map(str.isdigit, names_of_others(runner, target)))

    # All events come once more, in a run of its own, and then twice in one batch.
    runner.by.run(f"INSERT INTO {changes} SELECT * FROM {changes}")
    runner.pipeline("run")
    for scd_type in TARGETS:
        assert target_rows(runner, scd_type) == EXPECTED[scd_type].second
    runner.pipeline("--full-refresh-all")
    for scd_type, target in TARGETS.items():
        assert target_rows(runner, scd_type) == EXPECTED[scd_type].second
        assert names_of_others(runner, target) == {"Zoe"}
