"""A statement whose commit has landed succeeds, even if the storage fails from then on.

Covers bug B59. Statements of several commits are not among these: one that stops between two of them has failed.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from anabranch.errors.environment import StorageError
from anabranch.storage.local.local_store import LocalStore
from anabranch.tables import DeltaTable
from session_kinds import in_this_process

pytestmark = [pytest.mark.spark, pytest.mark.long, in_this_process]

CALLS = ("head", "read", "read_range", "open", "list_from", "list_tree", "walk", "put_if_absent", "put", "delete")
STATEMENTS = """\
OPTIMIZE {t}
TRUNCATE TABLE {t}
INSERT INTO {t} VALUES (4, 4)
INSERT OVERWRITE {t} VALUES (4, 4)
INSERT INTO {t} REPLACE WHERE id = 1 VALUES (1, 4)
UPDATE {t} SET v = 9 WHERE id = 1
MERGE INTO {t} t USING (SELECT 1 id) s ON t.id = s.id WHEN MATCHED THEN DELETE
MERGE WITH SCHEMA EVOLUTION INTO {t} t USING (SELECT 4 id, 5 u) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *
DELETE FROM {t} WHERE id = 4
RESTORE TABLE {t} TO VERSION AS OF 1
DELETE FROM {t}
ALTER TABLE {t} ADD COLUMN w INT
ALTER TABLE {t} SET TBLPROPERTIES ('a' = 'b')
ALTER TABLE {t} ADD CONSTRAINT c CHECK (id > 0)
ALTER TABLE {t} CLUSTER BY (id)
COMMENT ON TABLE {t} IS 'x'
CREATE OR REPLACE TABLE {t} (id INT) USING delta
CREATE OR REPLACE TABLE {t} USING delta AS SELECT 1 id
CREATE TABLE {new} (id INT) USING delta
CREATE TABLE {new} USING delta AS SELECT 1 id
CREATE TABLE {new} SHALLOW CLONE {t}""".splitlines()


class Broken:
    """The local disk, which answers nothing more once a commit has been put."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.armed = self.has_put = False
        for name in CALLS:
            monkeypatch.setattr(LocalStore, name, self._failing(name, getattr(LocalStore, name)))

    def _failing(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def failing(store: LocalStore, *arguments: Any, **more: Any) -> Any:
            if self.armed and self.has_put:
                raise StorageError(root=store.root, path=str(arguments[:1]), doing="read", cause="I/O error")
            answer = call(store, *arguments, **more)
            if self.armed and name == "put_if_absent":
                self.has_put |= re.fullmatch(r"_delta_log/\d{20}\.json", arguments[0]) is not None
            return answer

        return failing

    def run(self, action: Callable[[], object]) -> bool:
        """Whether the action came to a put."""
        self.armed, self.has_put = True, False
        try:
            action()
        finally:
            self.armed = False
        return self.has_put


@pytest.mark.parametrize("named", [False, True], ids=["by path", "by name"])
def test_what_has_landed_is_no_failure(
    delta: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, named: bool
) -> None:
    broken = Broken(monkeypatch)
    delta.sql("CREATE DATABASE IF NOT EXISTS behind_commits")
    paths = [tmp_path / "t", tmp_path / "new"]
    names = ["behind_commits.t", "behind_commits.new"] if named else [f"delta.`{path}`" for path in paths]
    table, new = names

    def made() -> None:
        for name, path in zip(names, paths, strict=True):
            if named:
                delta.sql(f"DROP TABLE IF EXISTS {name}")
            shutil.rmtree(path, ignore_errors=True)
        delta.sql(f"CREATE TABLE {table} (id INT, v INT) USING delta")
        delta.sql(f"INSERT INTO {table} VALUES (1, 1), (2, 2)")
        delta.sql(f"INSERT INTO {table} VALUES (3, 3)")

    def append(*columns: str, **options: str) -> None:
        delta.range(1).selectExpr(*columns).write.format("delta").mode("append").options(**options).saveAsTable(table)

    def at() -> DeltaTable:
        return DeltaTable.forName(delta, table)

    actions: dict[str, Callable[[], object]] = {
        text: lambda text=text: delta.sql(text.format(t=table, new=new)).collect() for text in STATEMENTS
    }
    actions["append"] = lambda: append("7 id", "7 v")
    actions["append with more columns"] = lambda: append("7 id", "7 v", "8 w", mergeSchema="true")
    actions["writeTo"] = lambda: delta.range(1).selectExpr("7 id", "7 v").writeTo(table).append()
    actions["DeltaTable.update"] = lambda: at().update("id = 1", {"v": "5"})
    actions["DeltaTable.optimize"] = lambda: at().optimize().executeCompaction()
    made()
    for name, action in actions.items():
        before = _newest(delta, table)
        assert broken.run(action), name
        assert ("{new}" in name and _newest(delta, new) == 0) or _newest(delta, table) == before + 1, name
        if "{new}" in name or "REPLACE TABLE" in name:
            made()


def _newest(spark: SparkSession, table: str) -> int:
    newest = spark.sql(f"DESCRIBE HISTORY {table} LIMIT 1").first()
    assert newest is not None
    return int(newest.version)
