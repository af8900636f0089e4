"""MERGE on equal `k`, with every kind of clause."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

from anabranch.predicates.expressions import Column, Predicate, Unknown
from concurrency.conditions import Change, KeyIn, KeyNotIn, Row, Where
from concurrency.statements import Look, Plan, Statement, listed, look

MATCHED = ("update", "delete", "update below", "delete below else update", "next key")


@dataclasses.dataclass(frozen=True)
class Merge(Statement):
    """Each key is in the source once.

    `matched` is `update` (takes the source's `v`), `delete`, `next key` (adds one to `k`), `update below` (only rows
    whose `v` is less than the source's; others are read and left alone) or `delete below else update`.
    """

    source: tuple[Row, ...]
    matched: str = "update"
    inserts: bool = True
    not_in_source: Where | None = None
    """Rows of the target without a row in the source are changed if they satisfy this:"""
    orphans: str = "delete"
    """`delete` or `update`, which sets `v` to zero."""
    tells_changes: bool = False
    """How it says what it read: the rows it changes and those it leaves alone, or the rows that each ON and WHEN
    clause found."""

    def __post_init__(self) -> None:
        assert self.matched in MATCHED
        assert self.orphans in {"delete", "update"}

    @functools.cached_property
    def by_key(self) -> dict[int, Row]:
        return {row.k: row for row in self.source}

    def changes(self, row: Row) -> bool:
        source = self.by_key.get(row.k)
        if source is None:
            return self.not_in_source is not None and self.not_in_source(row)
        return self.matched != "update below" or _is_below(row, source)

    def leaves_alone(self, row: Row) -> bool:
        return row.k in self.by_key and not self.changes(row)

    def plan(self, rows: Sequence[Row]) -> Plan:
        changed = [number for number, row in enumerate(rows) if self.changes(row)]
        images = {number: image for number in changed if (image := self._image(rows[number])) is not None}
        present = {row.k for row in rows}
        new = [row for row in self.source if row.k not in present] if self.inserts else []
        return Plan(
            looks=tuple(self._looks(rows)),
            deletes=frozenset(changed),
            inserts=(*images.values(), *new),
            images_of=tuple(images),
        )

    def _image(self, row: Row) -> Row | None:
        """What becomes of a row that is changed; None for nothing."""
        source = self.by_key.get(row.k)
        if source is None:
            return None if self.orphans == "delete" else row._replace(v=0)
        match self.matched:
            case "delete":
                return None
            case "next key":
                return row._replace(k=row.k + 1)
            case "delete below else update" if _is_below(row, source):
                return None
        return row._replace(v=source.v)

    def _looks(self, rows: Sequence[Row]) -> list[Look]:
        if self.tells_changes:
            kinds = (True, False) if self.matched == "update below" else (True,)
            return [look(MergeRows(self, changes=changes), rows) for changes in kinds]
        keys = frozenset(self.by_key)
        looks = [look(KeyIn(keys), rows)]
        if self.not_in_source is not None:
            looks.append(look(KeyNotIn(keys, self.not_in_source), rows))
        return looks

    def __str__(self) -> str:
        parts = [f"MERGE source {listed(self.source)} WHEN MATCHED {self.matched}"]
        if self.inserts:
            parts.append("WHEN NOT MATCHED insert")
        if self.not_in_source is not None:
            parts.append(f"WHEN NOT MATCHED BY SOURCE AND {self.not_in_source} {self.orphans}")
        return " ".join(parts) + (", telling what it changes and what not" if self.tells_changes else "")


@dataclasses.dataclass(frozen=True)
class MergeRows:
    """The rows that a MERGE changes, or those that its source finds and that it leaves alone."""

    merge: Merge
    changes: bool

    def __call__(self, row: Row) -> bool:
        return self.merge.changes(row) if self.changes else self.merge.leaves_alone(row)

    def __str__(self) -> str:
        return "a clause changes it" if self.changes else "the source finds it, and no clause applies"

    @property
    def predicate(self) -> Predicate:
        return Unknown("source.k = target.k", (Column(("k",)), Column(("v",))))


@dataclasses.dataclass(frozen=True)
class MergeSelect(Statement):
    """A MERGE whose source is made of rows of the table itself, of each `k` one."""

    where: Where
    change: Change
    matched: str = "update"
    inserts: bool = True
    tells_changes: bool = True

    def plan(self, rows: Sequence[Row]) -> Plan:
        read = look(self.where, rows, of_query=True)
        made = sorted(
            (self.change(rows[number]) for number in read.rows), key=lambda row: (row.k, row.v is None, row.v)
        )
        source = tuple({row.k: row for row in made}.values())
        merge = Merge(source, matched=self.matched, inserts=self.inserts, tells_changes=self.tells_changes)
        plan = merge.plan(rows)
        return dataclasses.replace(plan, looks=(read, *plan.looks))

    def __str__(self) -> str:
        inserts = " WHEN NOT MATCHED insert" if self.inserts else ""
        return (
            f"MERGE source SELECT with {self.change} FROM the table WHERE {self.where} "
            f"WHEN MATCHED {self.matched}{inserts}"
        )


def _is_below(row: Row, source: Row) -> bool:
    return row.v is not None and source.v is not None and row.v < source.v
