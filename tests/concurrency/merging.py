"""MERGE on equal `k`, with every kind of clause."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

from anabranch.predicates.expressions import Column, Predicate, Unknown
from concurrency.conditions import EVERY, Change, Condition, KeyIn, KeyNotIn, Row, Where
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
        return {self.key_of(row): row for row in self.source}

    def key_of(self, row: Row) -> int:
        return row.k

    def changes(self, row: Row) -> bool:
        source = self.by_key.get(self.key_of(row))
        if source is None:
            return self.not_in_source is not None and self.not_in_source(row)
        return self.matched != "update below" or _is_below(row, source)

    def leaves_alone(self, row: Row) -> bool:
        return self.key_of(row) in self.by_key and not self.changes(row)

    def plan(self, rows: Sequence[Row]) -> Plan:
        changed = [number for number, row in enumerate(rows) if self.changes(row)]
        images = {number: image for number in changed if (image := self.image(rows[number])) is not None}
        present = set(map(self.key_of, rows))
        new = [row for row in self.source if self.key_of(row) not in present] if self.inserts else []
        return Plan(
            looks=tuple(self.looks(rows)),
            deletes=frozenset(changed),
            inserts=(*images.values(), *new),
            images_of=tuple(images),
        )

    def image(self, row: Row) -> Row | None:
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

    def looks(self, rows: Sequence[Row]) -> list[Look]:
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


@dataclasses.dataclass(frozen=True)
class MergeByKeys(Statement):
    """A MERGE whose source joins the table with a batch by keys, as AutoCDC and programs that keep a history do.

    The batch is first joined with the table itself, for the last value below the batch's; then the rows of a key from
    this value on are counted, for the next key. With `keeps_others` the table is the side of an outer join that is
    kept whole: counted are the rows whose keys the batch lacks.
    """

    batch: tuple[Row, ...]
    keeps_others: bool = False
    matched: str = "update"

    def plan(self, rows: Sequence[Row]) -> Plan:
        merge = Merge(self.source(rows), matched=self.matched, tells_changes=True)
        plan = merge.plan(rows)
        return dataclasses.replace(plan, looks=(look(self.read(rows), rows, of_query=True), *plan.looks))

    def source(self, rows: Sequence[Row]) -> tuple[Row, ...]:
        if self.keeps_others:
            others = [row for row in rows if row.k not in self.keys]
            return tuple(Row(key + 1, len(others)) for key in sorted(self.keys))
        counts = [
            (key, [row for row in rows if row.k == key and row.v is not None and row.v >= last])
            for key, last in sorted(self.last_values(rows).items())
        ]
        return tuple(Row(key + 1, len(counted)) for key, counted in counts)

    def read(self, rows: Sequence[Row]) -> Condition:
        """What the source reads of a table of these rows."""
        return EVERY if self.keeps_others else KeyIn(self.keys)

    @property
    def keys(self) -> frozenset[int]:
        return frozenset(row.k for row in self.batch)

    def last_values(self, rows: Sequence[Row]) -> dict[int, int]:
        """By key of the batch the last value of the table below the batch's; without keys that have none."""
        pairs = [(of_batch, row.v) for of_batch in self.batch for row in rows if row.k == of_batch.k]
        below = [(new.k, old) for new, old in pairs if new.v is not None and old is not None and old < new.v]
        return {key: max(old for of, old in below if of == key) for key, _ in below}

    def __str__(self) -> str:
        kind = "the table LEFT JOIN" if self.keeps_others else "the table JOIN"
        return f"MERGE source counts rows of {kind} the batch {listed(self.batch)} WHEN MATCHED {self.matched} WHEN NOT MATCHED insert"


def _is_below(row: Row, source: Row) -> bool:
    return row.v is not None and source.v is not None and row.v < source.v
