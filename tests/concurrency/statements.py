"""Statements as pure functions on a multiset of rows: what a run of each must amount to, wherever it stands."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence

from concurrency.conditions import EVERY, Change, Condition, KeyIn, KeyNotIn, Row, Where


@dataclasses.dataclass(frozen=True)
class Look:
    """A condition that a statement asked of the table, and the rows that satisfied it, by number."""

    condition: Condition
    rows: frozenset[int]


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a statement does to a table of numbered rows."""

    looks: tuple[Look, ...] = ()
    deletes: frozenset[int] = frozenset()
    inserts: tuple[Row, ...] = ()


@dataclasses.dataclass(frozen=True)
class Effect:
    """Rows gone and rows new, as multisets."""

    deleted: Counter[Row]
    inserted: Counter[Row]


class Statement:
    """One of the classes below."""

    def plan(self, rows: Sequence[Row]) -> Plan:
        raise NotImplementedError

    def effect(self, rows: Sequence[Row]) -> Effect:
        plan = self.plan(rows)
        return Effect(Counter(rows[number] for number in plan.deletes), Counter(plan.inserts))


def look(condition: Condition, rows: Sequence[Row]) -> Look:
    return Look(condition, frozenset(number for number, row in enumerate(rows) if condition(row)))


@dataclasses.dataclass(frozen=True)
class Insert(Statement):
    rows: tuple[Row, ...]

    def plan(self, rows: Sequence[Row]) -> Plan:
        return Plan(inserts=self.rows)

    def __str__(self) -> str:
        return f"INSERT {', '.join(map(shown, self.rows))}"


@dataclasses.dataclass(frozen=True)
class Delete(Statement):
    where: Where

    def plan(self, rows: Sequence[Row]) -> Plan:
        found = look(self.where, rows)
        return Plan(looks=(found,), deletes=found.rows)

    def __str__(self) -> str:
        return f"DELETE WHERE {self.where}"


@dataclasses.dataclass(frozen=True)
class Update(Statement):
    """With `unless`, nothing is done when any row of the table satisfies that."""

    where: Where
    change: Change
    unless: Where | None = None

    def plan(self, rows: Sequence[Row]) -> Plan:
        looks = [look(self.where, rows)]
        if self.unless is not None:
            looks.append(look(self.unless, rows))
            if looks[1].rows:
                return Plan(looks=tuple(looks))
        hit = looks[0].rows
        return Plan(looks=tuple(looks), deletes=hit, inserts=tuple(self.change(rows[n]) for n in sorted(hit)))

    def __str__(self) -> str:
        unless = f" AND NOT EXISTS (a row with {self.unless})" if self.unless else ""
        return f"UPDATE SET {self.change} WHERE {self.where}{unless}"


@dataclasses.dataclass(frozen=True)
class InsertSelect(Statement):
    where: Where
    change: Change

    def plan(self, rows: Sequence[Row]) -> Plan:
        found = look(self.where, rows)
        return Plan(looks=(found,), inserts=tuple(self.change(rows[n]) for n in sorted(found.rows)))

    def __str__(self) -> str:
        return f"INSERT SELECT with {self.change} FROM the table WHERE {self.where}"


@dataclasses.dataclass(frozen=True)
class Merge(Statement):
    """On equal `k`, each of which the source has once.

    `matched` is `update` (takes the source's `v`), `delete`, or `update below` (only rows whose `v` is less).
    """

    source: tuple[Row, ...]
    matched: str = "update"
    inserts: bool = True
    not_in_source: Where | None = None
    """Rows of the target without a row in the source are deleted if they satisfy this."""

    def plan(self, rows: Sequence[Row]) -> Plan:
        by_key = {row.k: row for row in self.source}
        found = look(KeyIn(frozenset(by_key)), rows)
        looks, deletes, inserts = [found], set(), []
        for number in sorted(found.rows):
            source, target = by_key[rows[number].k], rows[number]
            below = target.v is not None and source.v is not None and target.v < source.v
            if self.matched == "update below" and not below:
                continue
            deletes.add(number)
            if self.matched != "delete":
                inserts.append(target._replace(v=source.v))
        if self.inserts:
            present = {rows[number].k for number in found.rows}
            inserts += [row for row in self.source if row.k not in present]
        if self.not_in_source is not None:
            orphans = look(KeyNotIn(frozenset(by_key), self.not_in_source), rows)
            looks.append(orphans)
            deletes |= orphans.rows
        return Plan(looks=tuple(looks), deletes=frozenset(deletes), inserts=tuple(inserts))

    def __str__(self) -> str:
        parts = [f"MERGE source {', '.join(map(shown, self.source))} WHEN MATCHED {self.matched}"]
        if self.inserts:
            parts.append("WHEN NOT MATCHED insert")
        if self.not_in_source is not None:
            parts.append(f"WHEN NOT MATCHED BY SOURCE AND {self.not_in_source} delete")
        return " ".join(parts)


@dataclasses.dataclass(frozen=True)
class Optimize(Statement):
    """Writes rows together, and changes none."""

    files: tuple[int, ...] = ()
    """Which, by their order in the table; all for none."""
    rows_per_file: int = 100
    leaves_word: bool = True
    """Whether tombstones say where rows went; other engines do not."""

    def plan(self, rows: Sequence[Row]) -> Plan:
        return Plan()

    def __str__(self) -> str:
        which = f"files {list(self.files)}" if self.files else "all files"
        return f"OPTIMIZE {which}, {self.rows_per_file} rows a file" + ("" if self.leaves_word else ", without word")


TRUNCATE = Delete(EVERY)


def shown(row: Row) -> str:
    return f"(k={row.k}, v={'NULL' if row.v is None else row.v})"
