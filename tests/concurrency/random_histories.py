"""Random histories over few rows, so that statements meet."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping, Sequence

from concurrency.conditions import EVERY, Change, Row, Where
from concurrency.describing import (
    MANIFESTS,
    ROW_TRACKING,
    Alter,
    Replace,
    add_column,
    add_constraint,
    cluster_by,
    drop_column,
    drop_constraint,
    drop_vectors,
    rename_column,
    set_not_null,
    set_property,
    support_row_tracking,
)
from concurrency.histories import LEVELS, History
from concurrency.merging import MATCHED, Merge, MergeByKeys, MergeSelect
from concurrency.played_table import Manner
from concurrency.several_statements import Query, RollBackTo, Savepoint, SeveralStatements, Step
from concurrency.statements import (
    Backfill,
    Delete,
    DeleteByColumns,
    Foreign,
    Insert,
    InsertAbsent,
    InsertByPosition,
    InsertGenerated,
    InsertJoin,
    InsertSelect,
    Numbered,
    Optimize,
    ReplaceWhere,
    Restore,
    Rewriting,
    Statement,
    Update,
)

KEYS, VALUES = 4, 4
PARTS: Mapping[str, int] = {
    "insert": 10,
    "delete": 12,
    "update": 14,
    "guarded": 3,
    "insert select": 4,
    "insert join": 2,
    "insert absent": 4,
    "merge": 10,
    "merge select": 3,
    "rewriting": 2,
    "replace where": 2,
    "truncate": 1,
    "overwrite": 1,
    "query": 10,
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mix:
    """What histories are made of."""

    kinds: Mapping[str, int]
    """Statements, each with its weight."""
    levels: Sequence[str] = LEVELS
    statements_max: int = 5
    vectors: bool = True
    partitioned: bool = False
    opens: Sequence[str] = ()
    """One statement of these kinds is committed before the others begin."""
    describes: bool = False
    """Whether the table may be described otherwise."""
    numbers_rows: bool = False
    """Whether it has an identity column."""
    feeds: bool = False
    """Whether it has a change data feed."""
    names_rows: float = 0.9
    """How often scans name the rows that satisfied them."""
    parts: Mapping[str, int] = dataclasses.field(default_factory=lambda: PARTS)
    """Statements of transactions of several, each with its weight."""


EVERYTHING = Mix(
    kinds={
        "insert": 20,
        "delete": 18,
        "update": 24,
        "guarded": 4,
        "insert select": 6,
        "insert join": 3,
        "insert absent": 4,
        "merge": 16,
        "merge select": 6,
        "optimize": 9,
        "zorder": 3,
        "purge": 2,
        "foreign": 3,
        "rewriting": 4,
        "replace where": 2,
        "truncate": 1,
        "overwrite": 1,
        "restore": 4,
        "engine": 4,
    }
)
RESTORES_AND_ENGINES = Mix(
    kinds={
        "insert": 4,
        "delete": 16,
        "update": 8,
        "merge": 6,
        "restore": 16,
        "engine": 6,
        "truncate": 3,
        "optimize": 2,
    },
    statements_max=4,
    opens=("delete", "engine"),
)
READERS_WHO_NAME_NO_ROWS = Mix(
    kinds={"insert select": 8, "guarded": 4, "merge": 6, "delete": 12}, statements_max=3, names_rows=0.0
)
APPENDS_AND_READERS = Mix(
    kinds={"insert": 10, "delete": 10, "insert select": 10, "guarded": 3},
    levels=("WriteSerializable",),
    statements_max=4,
)
CHANGES_AND_OPTIMIZE = Mix(
    kinds={
        "insert": 5,
        "delete": 10,
        "update": 5,
        "merge": 10,
        "optimize": 9,
        "zorder": 3,
        "purge": 3,
        "overwrite": 2,
        "restore": 2,
    }
)
APPENDS_AND_COMPACTION = Mix(kinds={"insert": 10, "delete": 10, "foreign": 10}, levels=("WriteSerializable",))
MERGES_AND_COMPACTION = Mix(kinds={"insert": 5, "delete": 5, "update": 3, "merge": 20, "foreign": 15, "optimize": 3})
DESCRIPTIONS = Mix(
    kinds={
        "alter": 24,
        "replace": 4,
        "numbered": 4,
        "insert": 8,
        "delete": 8,
        "update": 6,
        "merge": 2,
        "insert select": 2,
        "optimize": 2,
        "foreign": 2,
        "engine": 3,
        "restore": 4,
        "truncate": 1,
    },
    statements_max=4,
    describes=True,
)
RESTORES_AND_DESCRIPTIONS = Mix(
    kinds={"alter": 10, "replace": 2, "restore": 10, "insert": 3, "delete": 2, "engine": 2, "foreign": 1},
    statements_max=4,
    describes=True,
    opens=("alter",),
)
ROW_TRACKING_IN_STEPS = Mix(
    kinds={
        "support": 1,
        "backfill": 8,
        "track": 6,
        "insert": 4,
        "delete": 6,
        "update": 3,
        "merge": 2,
        "optimize": 3,
        "truncate": 1,
        "restore": 3,
        "engine": 2,
    },
    describes=True,
    opens=("support",),
)
"""The statement that turns row tracking on is several commits, with other commits between them."""
NEW_COLUMNS = Mix(
    kinds={
        "alter columns": 16,
        "by position": 6,
        "by columns": 5,
        "insert": 6,
        "delete": 4,
        "update": 3,
        "merge": 2,
        "optimize": 2,
    },
    statements_max=4,
    describes=True,
)
"""Statements that depend on the columns of the table, beside others that add columns and rules."""
COLUMNS_AND_READERS = Mix(
    kinds={"new column": 6, "by position": 6, "by columns": 6},
    levels=("WriteSerializable",),
    statements_max=3,
    describes=True,
)
NUMBERED_WRITES = Mix(kinds={"numbered": 10, "delete": 2, "optimize": 1}, statements_max=4)
NUMBERED_ROWS = Mix(
    kinds={"generated": 12, "delete": 3, "optimize": 1, "restore": 3, "alter": 3, "insert select": 1},
    statements_max=4,
    describes=True,
    numbers_rows=True,
)
INSERTS_OF_OWN_ROWS = Mix(
    kinds={
        "insert select": 10,
        "insert join": 10,
        "update": 8,
        "delete": 6,
        "insert": 3,
        "optimize": 3,
        "zorder": 1,
        "foreign": 2,
        "restore": 2,
        "engine": 2,
    },
    statements_max=4,
)
MERGES_OF_OWN_ROWS = Mix(
    kinds={
        "merge select": 16,
        "insert absent": 8,
        "update": 8,
        "delete": 6,
        "insert": 4,
        "optimize": 3,
        "zorder": 1,
        "foreign": 3,
        "restore": 2,
        "engine": 2,
    },
    statements_max=4,
    names_rows=1.0,
)
MERGES_BY_KEYS = dataclasses.replace(
    MERGES_OF_OWN_ROWS,
    kinds={"merge by keys": 16, "insert": 8, "update": 8, "delete": 6, "optimize": 3, "foreign": 2, "engine": 2},
)
WITHOUT_VECTORS = Mix(
    kinds={
        "insert": 10,
        "delete": 10,
        "update": 12,
        "merge": 8,
        "merge select": 4,
        "optimize": 5,
        "insert select": 5,
        "insert absent": 3,
        "replace where": 3,
    },
    vectors=False,
)
TRANSACTIONS = Mix(
    kinds={
        "transaction": 24,
        "insert": 8,
        "delete": 6,
        "update": 6,
        "merge": 4,
        "optimize": 5,
        "zorder": 2,
        "purge": 2,
        "foreign": 2,
        "engine": 2,
        "restore": 1,
    },
    statements_max=4,
)
TRANSACTIONS_WITHOUT_VECTORS = dataclasses.replace(TRANSACTIONS, vectors=False)
TRANSACTIONS_IN_PARTITIONS = dataclasses.replace(TRANSACTIONS, vectors=False, partitioned=True)
TRANSACTIONS_AND_FEED = dataclasses.replace(
    TRANSACTIONS,
    kinds={kind: weight for kind, weight in TRANSACTIONS.kinds.items() if kind not in ("engine", "restore")},
    feeds=True,
)
TRANSACTIONS_AND_FEED_WITHOUT_VECTORS = dataclasses.replace(TRANSACTIONS_AND_FEED, vectors=False)
TRANSACTIONS_AND_DESCRIPTIONS = Mix(
    kinds={
        "transaction": 16,
        "alter without rules": 8,
        "replace": 1,
        "insert": 3,
        "delete": 3,
        "optimize": 2,
        "engine": 1,
        "restore": 2,
    },
    statements_max=4,
    describes=True,
)
TRANSACTIONS_AND_CONSTRAINTS = Mix(
    kinds={
        "transaction": 16,
        "constraint": 3,
        "alter": 2,
        "insert": 3,
        "delete": 6,
        "update": 4,
        "optimize": 2,
        "restore": 1,
    },
    statements_max=4,
    describes=True,
    opens=("constraint",),
)
"""Statements of transactions fail, and their programs go on."""
TRANSACTIONS_THAT_GO_ON = Mix(
    kinds={"transaction": 8, "delete": 4, "truncate": 4},
    parts={"update": 8, "insert": 8},
    statements_max=3,
    describes=True,
    opens=("constraint",),
)
"""Often the rows are gone by the commit for which a statement of a transaction has failed."""
TRANSACTIONS_AND_ROW_TRACKING = dataclasses.replace(
    ROW_TRACKING_IN_STEPS, kinds={**ROW_TRACKING_IN_STEPS.kinds, "transaction": 14}
)
TRANSACTIONS_OF_NUMBERED_WRITES = Mix(
    kinds={"transaction": 10, "numbered": 6, "delete": 2},
    parts={"numbered": 10, "insert": 3, "delete": 3, "query": 2},
    statements_max=4,
)
TRANSACTIONS_OF_NUMBERED_ROWS = Mix(
    kinds={"transaction": 10, "generated": 6, "delete": 3, "optimize": 1, "restore": 2, "alter without rules": 2},
    parts={"generated": 10, "delete": 4, "insert select": 1, "query": 2},
    statements_max=4,
    describes=True,
    numbers_rows=True,
)
TRANSACTIONS_AND_APPENDS = Mix(
    kinds={"transaction": 10, "insert": 10, "delete": 3, "insert select": 3},
    levels=("WriteSerializable",),
    statements_max=4,
)
TRANSACTIONS_ON_FEW_FILES = Mix(
    kinds={"transaction": 10, "delete": 6, "optimize": 2},
    parts={"delete": 10, "guarded": 8, "merge": 10, "rewriting": 3, "replace where": 3},
    statements_max=3,
)
SHARES = {
    "everything": (EVERYTHING, 20),
    "RESTORE and other engines": (RESTORES_AND_ENGINES, 10),
    "changes and OPTIMIZE": (CHANGES_AND_OPTIMIZE, 10),
    "appends and readers": (APPENDS_AND_READERS, 5),
    "readers who name no rows": (READERS_WHO_NAME_NO_ROWS, 5),
    "appends and compaction": (APPENDS_AND_COMPACTION, 5),
    "merges and compaction": (MERGES_AND_COMPACTION, 7),
    "without vectors": (WITHOUT_VECTORS, 5),
    "descriptions": (DESCRIPTIONS, 10),
    "RESTORE and descriptions": (RESTORES_AND_DESCRIPTIONS, 2),
    "row tracking in steps": (ROW_TRACKING_IN_STEPS, 4),
    "new columns": (NEW_COLUMNS, 6),
    "columns and readers": (COLUMNS_AND_READERS, 2),
    "numbered writes": (NUMBERED_WRITES, 2),
    "numbered rows": (NUMBERED_ROWS, 2),
    "inserts of own rows": (INSERTS_OF_OWN_ROWS, 7),
    "merges of own rows": (MERGES_OF_OWN_ROWS, 6),
    "merges by keys": (MERGES_BY_KEYS, 4),
    "transactions": (TRANSACTIONS, 4),
    "transactions without vectors": (TRANSACTIONS_WITHOUT_VECTORS, 1),
    "transactions in partitions": (TRANSACTIONS_IN_PARTITIONS, 1),
    "transactions and appends": (TRANSACTIONS_AND_APPENDS, 2),
    "transactions and descriptions": (TRANSACTIONS_AND_DESCRIPTIONS, 1),
    "transactions and the feed": (TRANSACTIONS_AND_FEED, 1),
    "transactions and the feed without vectors": (TRANSACTIONS_AND_FEED_WITHOUT_VECTORS, 1),
    "transactions and constraints": (TRANSACTIONS_AND_CONSTRAINTS, 2),
    "transactions and row tracking": (TRANSACTIONS_AND_ROW_TRACKING, 1),
    "transactions of numbered writes": (TRANSACTIONS_OF_NUMBERED_WRITES, 1),
    "transactions of numbered rows": (TRANSACTIONS_OF_NUMBERED_ROWS, 1),
}
"""Of 128 histories, how many are of which mix: 112 of single statements, and sixteen with transactions."""


def random_history(rng: random.Random, mix: Mix = EVERYTHING) -> History:
    """The history of a seed, always the same."""
    count = rng.randint(2, mix.statements_max)
    opening = [_statement_of(rng, mix, rng.choice(mix.opens))] if mix.opens else []
    level = rng.choice(mix.levels)
    statements = [random_statement(rng, mix) for _ in range(count)]
    history = History(
        level=level,
        files=(),
        statements=(*opening, *statements),
        schedule=_schedule(rng, statements, opening=len(opening)),
        manner=_manner(rng, mix),
    )
    return history.with_files(
        tuple(tuple(_row(rng) for _ in range(rng.randint(1, 3))) for _ in range(rng.randint(1, 3)))
    )


def _manner(rng: random.Random, mix: Mix) -> Manner:
    statistics = rng.choice(["bounds", "bounds", "counts", "counts", "bounds" if mix.describes else "nothing"])
    statistics = "bounds" if mix.numbers_rows else statistics
    return Manner(
        statistics=statistics,
        names_rows=rng.random() < mix.names_rows,
        reevaluates=rng.random() < 0.8,
        whole_files=rng.random() < 0.5,
        tracks_rows=rng.random() < 0.3 and statistics != "nothing",
        vectors=mix.vectors,
        describes=mix.describes,
        numbers_rows=mix.numbers_rows,
        partitioned=mix.partitioned,
        feeds=mix.feeds,
    )


def random_statement(rng: random.Random, mix: Mix = EVERYTHING) -> Statement:
    return _statement_of(rng, mix, _chosen_kind(rng, mix.kinds))


def _chosen_kind(rng: random.Random, kinds: Mapping[str, int]) -> str:
    (kind,) = rng.choices(list(kinds), list(kinds.values()))
    return kind


def _statement_of(rng: random.Random, mix: Mix, kind: str) -> Statement:
    match kind:
        case "insert":
            return Insert(tuple(_row(rng) for _ in range(rng.randint(1, 2))))
        case "delete":
            return Delete(_where(rng))
        case "update":
            return Update(_where(rng), _change(rng))
        case "guarded":
            return Update(_where(rng), _change(rng), unless=_where(rng))
        case "insert select":
            return InsertSelect(_where(rng), _change(rng))
        case "insert absent":
            rows = tuple(_row(rng) for _ in range(rng.randint(1, 2)))
            return InsertAbsent(rows, _where(rng) if rng.random() < 0.3 else EVERY)
        case "merge select":
            return MergeSelect(
                _where(rng),
                _change(rng),
                matched=rng.choice(MATCHED),
                inserts=rng.random() < 0.8,
                tells_changes=rng.random() < 0.5,
            )
        case "merge by keys":
            keys = rng.sample(range(KEYS), rng.randint(1, 2))
            batch = tuple(Row(key, rng.randint(1, VALUES)) for key in keys)
            return MergeByKeys(
                batch, keeps_others=rng.random() < 0.3, matched=rng.choice(["update", "update", "delete"])
            )
        case "insert join":
            return InsertJoin(_where(rng), _where(rng), _change(rng))
        case "generated":
            keys = tuple(rng.randrange(KEYS) for _ in range(rng.randint(1, 2)))
            return InsertGenerated((), keys, keys[:1] if rng.random() < 0.2 else (), waits=rng.randrange(4))
        case "merge":
            return _merge(rng)
        case "replace where":
            return ReplaceWhere(_where(rng), tuple(_row(rng) for _ in range(rng.randint(0, 2))))
        case "rewriting":
            return Rewriting(rng.choice([Delete(_where(rng)), Update(_where(rng), _change(rng)), _merge(rng)]))
        case "truncate":
            return Delete(EVERY)
        case "overwrite":
            return ReplaceWhere(EVERY, tuple(_row(rng) for _ in range(rng.randint(0, 2))))
        case "restore":
            return Restore(rng.choice([None, 1, 1, 2, 3]))
        case "alter":
            return _alter(rng)
        case "alter columns":
            return _alter_columns(rng)
        case "new column":
            return add_column("b")
        case "by position":
            return InsertByPosition((), tuple(rng.randrange(KEYS) for _ in range(rng.randint(1, 2))))
        case "by columns":
            return DeleteByColumns()
        case "constraint":
            return add_constraint(Where(rng.choice("kv"), rng.choice(["<", ">="]), rng.randrange(1, KEYS)))
        case "alter without rules":
            return _alter(rng, rules=False)
        case "support":
            return support_row_tracking()
        case "backfill":
            return Backfill()
        case "track":
            return set_property(ROW_TRACKING, "true")
        case "replace":
            return Replace(rng.choice([("k", "v", "a"), ("k", "v"), ("k", "v", "b")]), (_row(rng),))
        case "transaction":
            return _several_statements(rng, mix)
        case "query":
            return Query(_where(rng))
        case "numbered":
            return Numbered((_row(rng),), number=rng.randint(1, 3))
        case "engine":
            return _foreign(rng, mix)
        case _:
            return _optimize(rng, kind)


def _merge(rng: random.Random) -> Merge:
    keys = rng.sample(range(KEYS), rng.randint(1, 2))
    return Merge(
        tuple(Row(key, rng.randrange(VALUES)) for key in keys),
        matched=rng.choice(["update", "update", "update below", *MATCHED]),
        inserts=rng.random() < 0.8,
        not_in_source=_where(rng) if rng.random() < 0.15 else None,
        orphans=rng.choice(["delete", "update"]),
        tells_changes=rng.random() < 0.5,
    )


def _foreign(rng: random.Random, mix: Mix) -> Foreign:
    statements: list[Statement] = [
        Insert((_row(rng),)),
        Delete(_where(rng)),
        Delete(_where(rng)),
        Update(_where(rng), _change(rng)),
        _merge(rng),
    ]
    return Foreign(
        rng.choice(statements),
        by_vectors=mix.vectors and rng.random() < 0.6,
        tells=rng.random() < 0.6,
        counts=rng.random() < 0.5,
    )


def _alter(rng: random.Random, *, rules: bool = True) -> Alter:
    alterations: list[Callable[[], Alter]] = [
        lambda: add_column(rng.choice("ab")),
        lambda: drop_column(rng.choice("ab")),
        lambda: rename_column(*rng.choice(["ab", "ba"])),
        lambda: cluster_by(*rng.choice(["a", "b", "k", "av"])),
        lambda: cluster_by(*rng.choice(["a", "k"])),
        lambda: set_property("delta.checkpointInterval", rng.choice(["5", "7"])),
        lambda: set_property("delta.enableDeletionVectors", rng.choice(["true", "false", None])),
        lambda: set_property(ROW_TRACKING, "true"),
        lambda: set_property(MANIFESTS, rng.choice(["true", "true", None])),
        lambda: add_constraint(Where(rng.choice("kv"), rng.choice(["<", ">="]), rng.randrange(1, KEYS))),
        lambda: drop_constraint(rng.choice("kv")),
        drop_vectors,
    ]
    return rng.choice(alterations if rules else [*alterations[:9], *alterations[11:]])()


def _alter_columns(rng: random.Random) -> Alter:
    alterations: list[Callable[[], Alter]] = [
        lambda: add_column(rng.choice("bc")),
        lambda: add_column(rng.choice("bc")),
        lambda: add_column(rng.choice("bc")),
        lambda: drop_column(rng.choice("ab")),
        lambda: set_not_null("v"),
        lambda: set_not_null("v", required=False),
        lambda: add_constraint(Where("v", rng.choice(["<", ">="]), rng.randrange(1, KEYS))),
    ]
    return rng.choice(alterations)()


def _optimize(rng: random.Random, kind: str) -> Optimize:
    chosen = rng.choice([(), (0,), (1,), (0, 1), (0, 2), (1, 2)])
    ordered = kind == "zorder" or (kind == "foreign" and rng.random() < 0.5)
    return Optimize(
        () if kind == "purge" else chosen,
        rows_per_file=rng.choice([1, 2, 3, 100]),
        leaves_word=kind != "foreign" and not (ordered and rng.random() < 0.5),
        ordered=ordered,
        purges=kind == "purge",
    )


def _row(rng: random.Random) -> Row:
    return Row(rng.randrange(KEYS), None if rng.random() < 0.1 else rng.randrange(VALUES))


def _where(rng: random.Random) -> Where:
    column = rng.choice("kv")
    return Where(column, rng.choice(["=", "=", "<", ">="]), rng.randrange(KEYS), is_predicate=rng.random() < 0.8)


def _change(rng: random.Random) -> Change:
    return Change(rng.choice("kvv"), rng.randrange(KEYS), rng.random() < 0.3)


def _several_statements(rng: random.Random, mix: Mix) -> SeveralStatements:
    """Two to five statements; in some, a part is undone."""
    steps: list[Step] = [_statement_of(rng, mix, _chosen_kind(rng, mix.parts)) for _ in range(rng.randint(2, 5))]
    if rng.random() < 0.2:
        first = rng.randint(0, len(steps) - 1)
        steps.insert(rng.randint(first + 1, len(steps)), RollBackTo("s"))
        steps.insert(first, Savepoint("s"))
    return SeveralStatements(tuple(steps), rolls_back=rng.random() < 0.05, is_run_again=rng.random() < 0.3)


def _schedule(rng: random.Random, statements: Sequence[Statement], *, opening: int) -> tuple[int, ...]:
    order = [
        opening + number
        for number, statement in enumerate(statements)
        for _ in range(rng.randint(2, len(statement.steps)) if isinstance(statement, SeveralStatements) else 2)
    ]
    rng.shuffle(order)
    return (*(number for number in range(opening) for _ in range(2)), *order)
