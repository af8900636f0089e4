"""Which statements of SQL conflict: the tables of docs/concurrency.md, by statements that run on Spark.

The same pairs are played at every position by `concurrency/test_matrix.py`, without Spark.
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from anabranch.exceptions import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    DeltaConcurrentModificationException,
)
from anabranch.storage.local.local_store import LocalStore
from turns import turn

pytestmark = [pytest.mark.spark, pytest.mark.long]

INSERT = "INSERT INTO {t} VALUES ({k} + 100, 0)"
CHANGES = {
    "UPDATE": "UPDATE {t} SET v = v + 1 WHERE k = {k}",
    "DELETE": "DELETE FROM {t} WHERE k = {k}",
    "MERGE": "MERGE INTO {t} t USING (SELECT {k} AS k) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = -1",
}
REARRANGEMENTS = {
    "OPTIMIZE": "OPTIMIZE {t}",
    "OPTIMIZE ZORDER": "OPTIMIZE {t} ZORDER BY (v)",
    "REORG": "REORG TABLE {t} APPLY (PURGE)",
}
EVERY = {"INSERT": INSERT, **CHANGES, **REARRANGEMENTS}
ROW_CONFLICTS = (ConcurrentAppendException, ConcurrentDeleteReadException, ConcurrentDeleteDeleteException)


def pairs_of_this_run() -> list[tuple[str, str]]:
    """A seventh of all pairs: each statement is in it as ours and as the winner. `ANABRANCH_PAIRS=all` is for all of them."""
    kinds = list(EVERY)
    a_seventh = [(ours, kinds[(number + turn()) % len(kinds)]) for number, ours in enumerate(kinds)]
    return list(itertools.product(kinds, kinds)) if os.environ.get("ANABRANCH_PAIRS") == "all" else a_seventh


@pytest.fixture(scope="module")
def made(delta: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Tables of two files of ten rows, with and without vectors; with them, each file hides one."""
    folders = {}
    for vectors in ("true", "false"):
        folder = tmp_path_factory.mktemp("conflicts") / vectors
        table = f"delta.`{folder}`"
        delta.sql(
            f"CREATE TABLE {table} (k BIGINT, v BIGINT) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = '{vectors}')"
        )
        for first in (0, 10):
            delta.sql(f"INSERT INTO {table} SELECT id, id FROM range({first}, {first + 10}, 1, 1)")
        if vectors == "true":
            delta.sql(f"DELETE FROM {table} WHERE k IN (0, 10)")
        folders[vectors] = folder
    return folders


class Table:
    """A copy of a table, on which a statement meets another that lands first."""

    def __init__(self, delta: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._delta = delta
        self._name = f"delta.`{folder}`"
        self._monkeypatch = monkeypatch

    def meets(self, ours: str, winner: str, *, keys: tuple[int, int]) -> type[Exception] | None:
        """The error of `ours`, whose first commit loses to `winner`, which landed first."""
        put = LocalStore.put_if_absent
        mine, theirs = keys
        landed = False

        def put_behind(store: LocalStore, path: str, data: bytes) -> Any:
            nonlocal landed
            if not landed and path.endswith(".json"):
                landed = True
                self.run(winner, theirs)
            return put(store, path, data)

        with self._monkeypatch.context() as patched:
            patched.setattr(LocalStore, "put_if_absent", put_behind)
            raised: type[Exception] | None = None
            try:
                self.run(ours, mine)
            except DeltaConcurrentModificationException as error:
                raised = type(error)
        assert landed
        return raised

    def run(self, statement: str, key: int) -> None:
        self._delta.sql(statement.replace("{t}", self._name).replace("{k}", str(key)))

    def rows(self) -> Any:
        return self._delta.sql(f"SELECT count(k), sum(v) FROM {self._name}").first()

    def history(self, folder: Path | None = None) -> list[Any]:
        return self._delta.sql(f"DESCRIBE HISTORY {self._name if folder is None else f'delta.`{folder}`'}").collect()


@pytest.fixture
def copied(delta: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], Table]:
    def copy(source: Path) -> Table:
        shutil.copytree(source, tmp_path / "table")
        return Table(delta, tmp_path / "table", monkeypatch)

    return copy


@pytest.mark.parametrize(("ours", "winner"), pairs_of_this_run())
def test_statements_of_different_rows_never_conflict(
    copied: Callable[[Path], Table], made: dict[str, Path], ours: str, winner: str
) -> None:
    """Of the same files. OPTIMIZE is done again on what is there, or leaves the work to who was first."""
    table = copied(made["true"])
    assert table.meets(EVERY[ours], EVERY[winner], keys=(1, 2)) is None
    count, total = 18, 180
    for statement, key in ((ours, 1), (winner, 2)):
        count += {"INSERT": 1, "DELETE": -1}.get(statement, 0)
        total += {"UPDATE": 1, "DELETE": -key, "MERGE": -1 - key}.get(statement, 0)
    assert table.rows() == (count, total)


@pytest.mark.parametrize("winner", CHANGES)
@pytest.mark.parametrize("ours", CHANGES)
def test_changes_of_one_row_conflict(
    copied: Callable[[Path], Table], made: dict[str, Path], ours: str, winner: str
) -> None:
    table = copied(made["true"])
    raised = table.meets(EVERY[ours], EVERY[winner], keys=(1, 1))
    assert raised in ROW_CONFLICTS
    assert len(table.history()) == len(table.history(made["true"])) + 1


@pytest.mark.parametrize("ours", CHANGES)
@pytest.mark.parametrize("level", ["Serializable", "WriteSerializable"])
def test_a_blind_append_of_a_row_that_ours_looks_for(
    copied: Callable[[Path], Table], made: dict[str, Path], ours: str, level: str
) -> None:
    table = copied(made["true"])
    table.run(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('delta.isolationLevel' = '{level}')", 0)
    raised = table.meets(EVERY[ours], "INSERT INTO {t} VALUES ({k}, 0)", keys=(1, 1))
    assert raised is (ConcurrentAppendException if level == "Serializable" else None)


@pytest.mark.parametrize("ours", CHANGES)
def test_without_vectors_files_decide(copied: Callable[[Path], Table], made: dict[str, Path], ours: str) -> None:
    table = copied(made["false"])
    assert table.meets(EVERY[ours], EVERY["UPDATE"], keys=(1, 2)) in ROW_CONFLICTS
    # Its statistics show that the row is in another file.
    assert table.meets(EVERY[ours], EVERY["UPDATE"], keys=(1, 12)) is None
    assert table.meets(EVERY[ours], EVERY["INSERT"], keys=(3, 4)) is None
    assert table.meets(EVERY["INSERT"], EVERY[ours], keys=(3, 4)) is None
    assert table.meets(EVERY["OPTIMIZE"], EVERY[ours], keys=(0, 5)) is None
