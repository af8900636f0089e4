"""A table with a change data feed, to which things happen."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping

from pyspark.sql import SparkSession

from anabranch.commands.dml.delete import prepare_delete
from anabranch.commands.dml.update import prepare_update
from anabranch.commands.table_access import TableRef
from anabranch.log.commit_files import read_commit
from anabranch.protocol.actions import AddCDCFile
from anabranch.tables import DeltaTable
from tables.races import commit_with_retries


def merge(delta: SparkSession, table: TableRef, ids: list[int]) -> None:
    """Rows of these ids get `n = -1`; those that are not there join, and 3 goes."""
    source = delta.createDataFrame([(id_,) for id_ in ids], "id long").alias("s")
    into = DeltaTable.forPath(delta, table.path).alias("t").merge(source, "t.id = s.id")
    into.whenMatchedDelete("s.id = 3").whenMatchedUpdate(set={"n": "-1"}).whenNotMatchedInsert(
        values={"id": "s.id", "n": "0", "part": "s.id % 2"}
    ).execute()


def append(delta: SparkSession, path: str, ids: list[int]) -> None:
    frame = delta.createDataFrame([(id_, 0, id_ % 2) for id_ in ids], "id long, n long, part long")
    frame.write.format("delta").mode("append").save(path)


def change_files(table: TableRef) -> list[AddCDCFile]:
    """Those of the newest commit."""
    commit = read_commit(table.delta_log.store, table.latest().version)
    return [action for action in commit.actions if isinstance(action, AddCDCFile)]


class Played:
    """A table to which things happen, and what should be in it after each."""

    def __init__(self, delta: SparkSession, table: TableRef, chance: random.Random) -> None:
        self.delta, self.table, self.chance = delta, table, chance
        self.rows = {id_: (id_, id_ % 2) for id_ in range(20)}
        self.versions = [Counter((id_, *rest) for id_, rest in self.rows.items())]
        self.taken: set[int] = set()
        self.next_id = 100

    def ids(self, part: int, count: int = 3) -> list[int]:
        """Some of a partition, and none that a prepared statement is about."""
        candidates = sorted(id_ for id_, row in self.rows.items() if row[1] == part and id_ not in self.taken)
        self.taken = set(self.chance.sample(candidates, min(count, len(candidates))))
        return sorted(self.taken)

    def landed(self, rows: Mapping[int, tuple[int, int] | None]) -> None:
        """Rows changed, or gone for None, by a commit that is in the log."""
        for id_, row in rows.items():
            if row is None:
                self.rows.pop(id_, None)
            else:
                self.rows[id_] = row
        self.versions.append(Counter((id_, *rest) for id_, rest in self.rows.items()))

    def condition(self, part: int, ids: list[int]) -> str:
        return f"part = {part} AND id IN ({', '.join(map(str, ids))})"

    def append(self) -> None:
        self.next_id += 2
        append(self.delta, self.table.path, [self.next_id, self.next_id + 1])
        self.landed({id_: (0, id_ % 2) for id_ in (self.next_id, self.next_id + 1)})

    def update(self, part: int, behind: Callable[[], None] | None = None) -> None:
        ids = self.ids(part)
        prepared = prepare_update(self.table, {"n": "n + 1000"}, self.condition(part, ids))
        if behind is not None:
            behind()
        commit_with_retries(prepared)
        self.landed({id_: (self.rows[id_][0] + 1000, part) for id_ in ids})

    def delete(self, part: int, behind: Callable[[], None] | None = None) -> None:
        ids = self.ids(part)
        prepared = prepare_delete(self.table, self.condition(part, ids))
        if behind is not None:
            behind()
        commit_with_retries(prepared)
        self.landed(dict.fromkeys(ids))

    def merge(self) -> None:
        ids = [*self.ids(0, 2), *self.ids(1, 2), self.next_id + 50]
        merge(self.delta, self.table, ids)
        kept = {id_: (-1 if id_ in self.rows else 0, id_ % 2) for id_ in ids if id_ != 3}
        self.landed(kept | (dict.fromkeys([3]) if 3 in ids else {}))

    def overwrite(self) -> None:
        """Overwrites rows by `replaceWhere`."""
        gone = [id_ for id_ in self.rows if id_ >= 16]
        frame = self.delta.createDataFrame([(16, 7, 0)], "id long, n long, part long")
        frame.write.format("delta").mode("overwrite").option("replaceWhere", "id >= 16").save(self.table.path)
        self.landed(dict.fromkeys(gone) | {16: (7, 0)})
        metrics = DeltaTable.forPath(self.delta, self.table.path).history(1).collect()[0].operationMetrics
        assert metrics["numAddedChangeFiles"] == str(len(change_files(self.table)))

    def optimize(self) -> None:
        DeltaTable.forPath(self.delta, self.table.path).optimize().executeCompaction()
        self.landed({})
