"""Races written down: when each statement reads and commits, and its outcome. The judges look at every step."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from anabranch.errors.commits import DeltaConcurrentModificationException
from anabranch.protocol.log_paths import commit_path
from anabranch.storage.log_store import PutOutcome
from concurrency.conditions import Row
from concurrency.executor import Running, begin
from concurrency.histories import Commit, History, Outcome, Refusal, finish
from concurrency.judges import table_at_every_version, violations
from concurrency.played_table import AS_USUAL, Manner, PlayedTable
from concurrency.statements import Statement


class Scene:
    """A table on which statements meet."""

    def __init__(self, level: str, *files: Sequence[Row], manner: Manner = AS_USUAL) -> None:
        self.level = level
        self.played = PlayedTable.created(files, level=level, manner=manner)
        self._files = tuple(map(tuple, files))
        self._commits: list[Commit] = []
        self._refusals: list[Refusal] = []

    def begins(self, statement: Statement) -> Running:
        """The statement reads the newest version."""
        return begin(self.played, statement)

    def lands(self, *statements: Statement) -> None:
        """Each reads and commits before anybody else does anything."""
        for statement in statements:
            assert self.ends(self.begins(statement)) is None

    def ends(self, running: Running) -> DeltaConcurrentModificationException | None:
        """Commit the statement, and return the conflict if it is refused."""
        refused = len(self._refusals)
        finish(len(self._commits) + refused, running, self._commits, self._refusals)
        history = History(level=self.level, files=self._files, statements=(), schedule=(), manner=self.played.manner)
        outcome = Outcome(
            history=history, played=self.played, commits=tuple(self._commits), refusals=tuple(self._refusals)
        )
        assert violations(outcome) == []
        return self._refusals[-1].error if len(self._refusals) > refused else None

    def meets(self, ours: Statement, *winners: Statement) -> DeltaConcurrentModificationException | None:
        """Ours reads; the winners commit; ours commits."""
        running = self.begins(ours)
        self.lands(*winners)
        return self.ends(running)

    def ends_late(self, running: Running, *winners: Statement) -> DeltaConcurrentModificationException | None:
        """The statement commits, and each time that it puts its commit one more of the winners is faster."""
        store, left = self.played.store, list(winners)
        put = store.put_if_absent

        def put_late(path: str, data: bytes) -> PutOutcome:
            if not path.startswith("_delta_log/"):
                return put(path, data)
            store.put_if_absent = put  # type: ignore[method-assign]
            if left:
                self.lands(left.pop(0))
                store.put_if_absent = put_late  # type: ignore[method-assign]
            return put(path, data)

        store.put_if_absent = put_late  # type: ignore[method-assign]
        return self.ends(running)

    @property
    def rows(self) -> list[Row]:
        """The newest version, sorted."""
        return sorted(table_at_every_version(self.played)[-1].elements(), key=str)

    @property
    def version(self) -> int:
        return len(table_at_every_version(self.played)) - 1

    def commit(self, version: int = -1) -> list[dict[str, Any]]:
        """The actions of a commit, the newest by default."""
        number = self.version if version < 0 else version
        return [json.loads(line) for line in self.played.store.read(commit_path(number)).splitlines()]

    def rewrites(self, version: int, change: Callable[[str, dict[str, Any]], None]) -> None:
        """Another engine had written that commit: `change` is shown the kind and the fields of each action."""
        lines = self.commit(version)
        for line in lines:
            for kind, fields in line.items():
                change(kind, fields)
        self.played.store.put(commit_path(version), "\n".join(map(json.dumps, lines)).encode())

    def hidden(self, path: str = "f0.parquet") -> int:
        """How many rows the vector of a live file hides."""
        adds = self.played.table.snapshots.latest().files.at_path(path)
        return sum(add.deletion_vector.cardinality for add in adds if add.deletion_vector)


def keys(scene: Scene) -> Counter[int]:
    return Counter(row.k for row in scene.rows)
