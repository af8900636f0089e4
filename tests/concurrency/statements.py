"""Statements as pure functions on a multiset of rows: the effect that a run of each must have at any version."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence

from concurrency.conditions import EVERY, Change, Condition, KeyIn, Row, Where


@dataclasses.dataclass(frozen=True)
class Look:
    """A condition that a statement evaluated on the table, and the rows that satisfied it, by number."""

    condition: Condition
    rows: frozenset[int]
    of_query: bool = False
    """Whether a query evaluated it, which returns rows and not the rows of the table that they were made of."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a statement does to a table of numbered rows."""

    looks: tuple[Look, ...] = ()
    deletes: frozenset[int] = frozenset()
    inserts: tuple[Row, ...] = ()
    images_of: tuple[int, ...] = ()
    """The rows that the first of `inserts` were before, in their order; the others are new."""


@dataclasses.dataclass(frozen=True)
class Effect:
    """Rows gone and rows new, as multisets."""

    deleted: Counter[Row]
    inserted: Counter[Row]
    seen: tuple[object, ...] = ()
    """Of a transaction, what its program has seen of each statement."""


class Statement:
    """One of the classes below, or a `Merge`."""

    def plan(self, rows: Sequence[Row]) -> Plan:
        raise NotImplementedError

    def effect(self, rows: Sequence[Row]) -> Effect:
        return effect_of(self.plan(rows), rows)

    def with_columns(self, count: int) -> Statement:
        """The statement as it is on a table with so many columns."""
        return self


def effect_of(plan: Plan, rows: Sequence[Row]) -> Effect:
    return Effect(Counter(rows[number] for number in plan.deletes), Counter(plan.inserts))


def look(condition: Condition, rows: Sequence[Row], *, of_query: bool = False) -> Look:
    return Look(condition, frozenset(number for number, row in enumerate(rows) if condition(row)), of_query)


@dataclasses.dataclass(frozen=True)
class Insert(Statement):
    rows: tuple[Row, ...]

    def plan(self, rows: Sequence[Row]) -> Plan:
        return Plan(inserts=self.rows)

    def __str__(self) -> str:
        return f"INSERT {listed(self.rows)}"


@dataclasses.dataclass(frozen=True)
class Numbered(Insert):
    """An INSERT that an application numbers: a repetition has no effect."""

    number: int = 1

    def __str__(self) -> str:
        return f"{super().__str__()} as write {self.number} of the application"


@dataclasses.dataclass(frozen=True)
class InsertByPosition(Insert):
    """An INSERT of rows that depend on the columns of the table, as by position, or by the star of a MERGE."""

    keys: tuple[int, ...] = ()

    def with_columns(self, count: int) -> Statement:
        return dataclasses.replace(self, rows=tuple(Row(key, count) for key in self.keys))

    def __str__(self) -> str:
        return f"INSERT {', '.join(map(str, self.keys))}, v being the number of columns"


@dataclasses.dataclass(frozen=True)
class Delete(Statement):
    where: Where

    def plan(self, rows: Sequence[Row]) -> Plan:
        read = look(self.where, rows)
        return Plan(looks=(read,), deletes=read.rows)

    def __str__(self) -> str:
        return f"DELETE WHERE {self.where}"


@dataclasses.dataclass(frozen=True)
class DeleteByColumns(Delete):
    """A DELETE whose condition depends on the columns of the table."""

    where: Where = EVERY

    def with_columns(self, count: int) -> Statement:
        return dataclasses.replace(self, where=Where("v", "<", count))

    def __str__(self) -> str:
        return "DELETE WHERE v < the number of columns"


@dataclasses.dataclass(frozen=True)
class Update(Statement):
    """An UPDATE. With `unless`, it does nothing if any row of the table satisfies that."""

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
        return Plan(
            looks=tuple(looks),
            deletes=hit,
            inserts=tuple(self.change(rows[n]) for n in sorted(hit)),
            images_of=tuple(sorted(hit)),
        )

    def __str__(self) -> str:
        unless = f" AND NOT EXISTS (a row with {self.unless})" if self.unless else ""
        return f"UPDATE SET {self.change} WHERE {self.where}{unless}"


@dataclasses.dataclass(frozen=True)
class InsertSelect(Statement):
    where: Where
    change: Change

    def plan(self, rows: Sequence[Row]) -> Plan:
        read = look(self.where, rows, of_query=True)
        return Plan(looks=(read,), inserts=tuple(self.change(rows[n]) for n in sorted(read.rows)))

    def __str__(self) -> str:
        return f"INSERT SELECT with {self.change} FROM the table WHERE {self.where}"


@dataclasses.dataclass(frozen=True)
class InsertJoin(Statement):
    """An INSERT whose query joins the table with itself by `k`: one row for each pair."""

    where: Where
    other: Where
    change: Change

    def plan(self, rows: Sequence[Row]) -> Plan:
        looks = (look(self.where, rows, of_query=True), look(self.other, rows, of_query=True))
        pairs = [
            Row(rows[one].k, rows[two].v)
            for one in sorted(looks[0].rows)
            for two in sorted(looks[1].rows)
            if rows[one].k == rows[two].k
        ]
        return Plan(looks=looks, inserts=tuple(map(self.change, pairs)))

    def __str__(self) -> str:
        joined = f"FROM the table a WHERE {self.where} JOIN the table b WHERE {self.other}"
        return f"INSERT SELECT a.k, b.v with {self.change} {joined}"


@dataclasses.dataclass(frozen=True)
class InsertAbsent(Insert):
    """An INSERT of those of its rows whose `k` no row of the table has that satisfies `where`, as by NOT EXISTS."""

    where: Where = EVERY

    def plan(self, rows: Sequence[Row]) -> Plan:
        read = look(KeyIn(frozenset(row.k for row in self.rows), self.where), rows, of_query=True)
        present = {rows[number].k for number in read.rows}
        return Plan(looks=(read,), inserts=tuple(row for row in self.rows if row.k not in present))

    def __str__(self) -> str:
        return f"{super().__str__()} WHERE NOT EXISTS (a row with this k and {self.where})"


@dataclasses.dataclass(frozen=True)
class InsertGenerated(Insert):
    """An INSERT into a table whose `v` is an identity column. Its rows are known once the statement has begun."""

    keys: tuple[int, ...] = ()
    more_keys: tuple[int, ...] = ()
    """More keys in later executions, as of a source that grows."""
    waits: int = 0
    """After how many steps of others a later execution commits."""

    def __str__(self) -> str:
        grows = f", later also {', '.join(map(str, self.more_keys))}" if self.more_keys else ""
        return f"INSERT (k) VALUES {', '.join(map(str, self.keys))}{grows}, v being generated"


@dataclasses.dataclass(frozen=True)
class ReserveNumbers(Statement):
    """The commit in the place of an INSERT whose numbers were taken."""

    first: int
    last: int

    def plan(self, rows: Sequence[Row]) -> Plan:
        return Plan()

    def __str__(self) -> str:
        return f"RESERVE {self.first} to {self.last}"


@dataclasses.dataclass(frozen=True)
class ReplaceWhere(Statement):
    """Rows in the place of those that satisfy a condition; of every row, for an overwrite. It never names single rows."""

    where: Where
    rows: tuple[Row, ...]

    def plan(self, rows: Sequence[Row]) -> Plan:
        read = look(self.where, rows)
        return Plan(looks=(read,), deletes=read.rows, inserts=self.rows)

    def __str__(self) -> str:
        return f"REPLACE WHERE {self.where} BY {listed(self.rows)}"


@dataclasses.dataclass(frozen=True)
class Rewriting(Statement):
    """The same statement by a writer without vectors: rows that stay are rewritten."""

    statement: Statement

    def plan(self, rows: Sequence[Row]) -> Plan:
        return self.statement.plan(rows)

    def __str__(self) -> str:
        return f"{self.statement}, rewriting files"


@dataclasses.dataclass(frozen=True)
class Foreign(Statement):
    """The same statement by another engine, which writes the next version or, if that is taken, gives up."""

    statement: Statement
    by_vectors: bool = True
    """Else it rewrites files."""
    tells: bool = True
    """Whether its commit has a `commitInfo`."""
    counts: bool = True
    """Whether its files say how many rows they have. On a table that gives rows ids they always do."""

    @property
    def keeps_ids(self) -> bool:
        """Whether it knows that rows may have ids."""
        return self.tells

    def plan(self, rows: Sequence[Row]) -> Plan:
        return self.statement.plan(rows)

    def __str__(self) -> str:
        details = ["by vectors" if self.by_vectors else "rewriting files"]
        details += [] if self.tells else ["without commitInfo"]
        details += [] if self.counts else ["without numRecords"]
        return f"{self.statement}, by another engine, {', '.join(details)}"


@dataclasses.dataclass(frozen=True)
class Restore(Statement):
    """The table as it was at an older version."""

    back: int | None = None
    """How many versions before the one that it reads; None for version 0."""
    rows: tuple[Row, ...] = ()
    """What that version held: known once the statement has begun."""

    def plan(self, rows: Sequence[Row]) -> Plan:
        read = look(EVERY, rows)
        return Plan(looks=(read,), deletes=read.rows, inserts=self.rows)

    def __str__(self) -> str:
        return "RESTORE TO VERSION 0" if self.back is None else f"RESTORE TO {self.back} VERSIONS BEFORE"


@dataclasses.dataclass(frozen=True)
class Optimize(Statement):
    """Writes rows together, and changes none."""

    files: tuple[int, ...] = ()
    """Which, by their order in the table; all for none."""
    rows_per_file: int = 100
    leaves_word: bool = True
    """Whether tombstones say where rows went; other engines do not."""
    ordered: bool = False
    """Whether the rows of all files are sorted by `v`, as ZORDER BY sorts them."""
    purges: bool = False
    """Whether only files with hidden rows are rewritten, each by itself."""

    @property
    def keeps_ids(self) -> bool:
        """Whether it knows that rows may have ids; ours do."""
        return self.leaves_word or self.rows_per_file != 2

    def plan(self, rows: Sequence[Row]) -> Plan:
        return Plan()

    def __str__(self) -> str:
        which = f"files {list(self.files)}" if self.files else "all files"
        details = [f"{self.rows_per_file} rows a file"]
        details += ["without word"] if not self.leaves_word else []
        details += ["ordered by v"] if self.ordered else []
        details += ["those that hide rows"] if self.purges else []
        return f"OPTIMIZE {which}, {', '.join(details)}"


TRUNCATE = Delete(EVERY)


def is_append(statement: Statement) -> bool:
    """Whether it only adds rows: then what it reads is known before it makes any."""
    return isinstance(statement, Insert | InsertSelect | InsertJoin)


@dataclasses.dataclass(frozen=True)
class Backfill(Statement):
    """Row ids for files that have none, once the table supports them. No row changes."""

    def plan(self, rows: Sequence[Row]) -> Plan:
        return Plan()

    def __str__(self) -> str:
        return "ROW TRACKING BACKFILL"


def listed(rows: Sequence[Row]) -> str:
    return ", ".join(map(shown, rows)) or "nothing"


def shown(row: Row) -> str:
    return f"(k={row.k}, v={'NULL' if row.v is None else row.v})"
