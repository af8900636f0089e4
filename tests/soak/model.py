"""What each statement of the soak does to a table: the judge plays the log by it.

A statement is a JSON object with a `kind`; `statements.py` makes them and says them in SQL. What a statement does to
rows is the same as in `tests/concurrency`. Here are the rows and conditions of the soak, and what else a table has:
columns and constraints, which come and go. All columns are BIGINT, `id` identifies a row.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from concurrency.conditions import EVERY
from concurrency.merging import Merge
from concurrency.statements import Delete, Insert, InsertSelect, Look, Plan, ReplaceWhere, Update
from concurrency.statements import Statement as RowStatement

Statement = dict[str, Any]
Row = Mapping[str, int | None]


class Inapplicable(Exception):
    """The statement does not fit the table, and must have been refused."""


@dataclasses.dataclass(frozen=True)
class State:
    """A table at one version."""

    columns: tuple[str, ...] = ()
    rows: Mapping[int, Row] = dataclasses.field(default_factory=dict)
    """By id."""
    rules: Mapping[str, tuple[str, int]] = dataclasses.field(default_factory=dict)
    """CHECK constraints by name: the column, and the least it may be where it is not null."""

    def has(self, *columns: str) -> None:
        missing = set(columns) - set(self.columns)
        if missing:
            raise Inapplicable(f"there is no column {missing}")

    def with_rows(self, rows: Mapping[int, Row]) -> State:
        for name, (column, least) in self.rules.items():
            for row in rows.values():
                value = row[column]
                if value is not None and value < least:
                    raise Inapplicable(f"{row} violates {name}: {column} >= {least}")
        return dataclasses.replace(self, rows=rows)

    def fitted(self, new_rows: list[Row]) -> dict[int, Row]:
        """New rows, NULL where they say nothing."""
        for row in new_rows:
            self.has(*row)
        fitted = {row["id"]: {column: row.get(column) for column in self.columns} for row in new_rows}
        assert len(fitted) == len(new_rows)
        return fitted  # type: ignore[return-value]


@dataclasses.dataclass(frozen=True)
class Among:
    """The rows whose value of a column, or whose remainder of it, is one of these; a divisor of 0 means the value."""

    column: str
    divisor: int
    values: list[int]

    def __call__(self, row: Row) -> bool:
        value = row[self.column]
        return value is not None and (value % self.divisor if self.divisor else value) in self.values


@dataclasses.dataclass(frozen=True)
class Sums:
    """An assignment of the sum of a column and an amount, by the column that it is assigned to."""

    values: Mapping[str, tuple[str, int]]

    def __call__(self, row: Row) -> Row:
        old = {column: (row[source], amount) for column, (source, amount) in self.values.items()}
        return {**row, **{column: None if value is None else value + amount for column, (value, amount) in old.items()}}


@dataclasses.dataclass(frozen=True)
class MergeAmounts(Merge):
    """A MERGE by `id` that adds the source's `n`. With `deletes` it deletes rows whose `n` is divisible by three."""

    deletes: bool = False

    def key_of(self, row: Any) -> int:
        key: int = row["id"]
        return key

    def image(self, row: Any) -> Any:
        n = row["n"]
        if n is None:
            return row
        return None if self.deletes and n % 3 == 0 else {**row, "n": n + self.by_key[self.key_of(row)]["n"]}

    def looks(self, rows: object) -> list[Look]:
        """None: the soak judges the rows that a statement leaves, not those that it has read."""
        return []


def _plan(state: State, statement: RowStatement) -> tuple[list[Row], Plan]:
    """The rows by id, and what the statement does to them."""
    rows = [state.rows[key] for key in sorted(state.rows)]
    return rows, statement.plan(rows)


def _after(state: State, statement: RowStatement) -> State:
    rows, plan = _plan(state, statement)
    kept = {row["id"]: row for number, row in enumerate(rows) if number not in plan.deletes}
    new = state.fitted(list(plan.inserts))
    if new.keys() & kept.keys():
        raise Inapplicable("a new row is there already")
    return state.with_rows({**kept, **new})


def _where(state: State, statement: Statement) -> Callable[[Row], bool]:
    if statement["where"] is None:
        return EVERY
    condition = Among(*statement["where"])
    state.has(condition.column)
    return condition


def _insert(state: State, statement: Statement) -> State:
    return _after(state, Insert(tuple(statement["rows"])))


def _insert_merging(state: State, statement: Statement) -> State:
    columns = (*state.columns, *(column for column in statement["rows"][0] if column not in state.columns))
    rows = {key: {column: row.get(column) for column in columns} for key, row in state.rows.items()}
    return _insert(dataclasses.replace(state, columns=columns, rows=rows), statement)


def _insert_select(state: State, statement: Statement) -> State:
    _, plan = _plan(state, InsertSelect(_where(state, statement), lambda row: {"n": row["n"]}))
    copies = plan.inserts[: statement["limit"]]
    return _insert(state, {"rows": [{"id": statement["base"] + number, **copy} for number, copy in enumerate(copies)]})


def _update(state: State, statement: Statement) -> State:
    sums = Sums(statement["set"])
    state.has(*sums.values, *(source for source, _ in sums.values.values()))
    return _after(state, Update(_where(state, statement), sums))


def _delete(state: State, statement: Statement) -> State:
    return _after(state, Delete(_where(state, statement)))


def _merge(state: State, statement: Statement) -> State:
    return _after(state, MergeAmounts(tuple(statement["rows"]), deletes=statement["deletes"]))


def _replace_where(state: State, statement: Statement) -> State:
    return _after(state, ReplaceWhere(_where(state, statement), tuple(statement["rows"])))


def _overwrite(state: State, statement: Statement) -> State:
    return _after(state, ReplaceWhere(EVERY, tuple(statement["rows"])))


def _overwrite_schema(state: State, statement: Statement) -> State:
    columns = tuple(statement["rows"][0])
    if gone := {column for column, _ in state.rules.values()} - set(columns):
        raise Inapplicable(f"constraints need {gone}")
    return _overwrite(dataclasses.replace(state, columns=columns, rows={}), statement)


def _replace_table(state: State, statement: Statement) -> State:
    new = State(columns=tuple(statement["columns"]))
    return new.with_rows(new.fitted(statement["rows"]))


def _create(state: State, statement: Statement) -> State:
    if state.columns:
        raise Inapplicable("the table is there")
    return _replace_table(state, statement)


def _add_column(state: State, statement: Statement) -> State:
    column = statement["column"]
    if column in state.columns:
        raise Inapplicable(f"{column} is there")
    rows = {key: {**row, column: None} for key, row in state.rows.items()}
    return dataclasses.replace(state, columns=(*state.columns, column), rows=rows)


def _free(state: State, column: str) -> None:
    state.has(column)
    if column in {ruled for ruled, _ in state.rules.values()}:
        raise Inapplicable(f"a constraint needs {column}")


def _drop_column(state: State, statement: Statement) -> State:
    column = statement["column"]
    _free(state, column)
    rows = {key: {name: row[name] for name in row if name != column} for key, row in state.rows.items()}
    return dataclasses.replace(state, columns=tuple(name for name in state.columns if name != column), rows=rows)


def _rename_column(state: State, statement: Statement) -> State:
    old, new = statement["column"], statement["to"]
    _free(state, old)
    if new in state.columns:
        raise Inapplicable(f"{new} is there")
    name = {column: column for column in state.columns} | {old: new}
    rows = {key: {name[column]: value for column, value in row.items()} for key, row in state.rows.items()}
    return dataclasses.replace(state, columns=tuple(name.values()), rows=rows)


def _add_constraint(state: State, statement: Statement) -> State:
    state.has(statement["column"])
    if statement["name"] in state.rules:
        raise Inapplicable(f"there is a constraint {statement['name']}")
    rules = {**state.rules, statement["name"]: (statement["column"], statement["least"])}
    return dataclasses.replace(state, rules=rules).with_rows(state.rows)


def _drop_constraint(state: State, statement: Statement) -> State:
    return dataclasses.replace(
        state, rules={name: rule for name, rule in state.rules.items() if name != statement["name"]}
    )


def _nothing(state: State, statement: Statement) -> State:
    state.has(*statement.get("columns", []))
    return state


EFFECTS: dict[str, Callable[[State, Statement], State]] = {
    "insert": _insert,
    "insert_merging": _insert_merging,
    "insert_select": _insert_select,
    "update": _update,
    "delete": _delete,
    "merge": _merge,
    "replace_where": _replace_where,
    "overwrite": _overwrite,
    "overwrite_schema": _overwrite_schema,
    "replace_table": _replace_table,
    "create": _create,
    "add_column": _add_column,
    "drop_column": _drop_column,
    "rename_column": _rename_column,
    "add_constraint": _add_constraint,
    "drop_constraint": _drop_constraint,
    "optimize": _nothing,
    "reorg": _nothing,
    "vacuum": _nothing,
    "cluster": _nothing,
    "set_properties": _nothing,
    "unset_properties": _nothing,
    "drop_feature": _nothing,
    "comment": _nothing,
}
"""`restore` is missing: the judge keeps the versions."""
KEEPING = frozenset(kind for kind, effect in EFFECTS.items() if effect is _nothing)
"""Kinds that change no row, and may take several commits, or none."""
