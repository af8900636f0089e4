"""What each statement of the soak does, as a plain function on rows: the judge plays the log by it.

A statement is a JSON object with a `kind`; `statements.py` makes them and says them in SQL. All columns are BIGINT,
`id` identifies a row.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

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

    def fitted(self, given: list[Row]) -> dict[int, Row]:
        """New rows, NULL where they say nothing."""
        for row in given:
            self.has(*row)
        fitted = {row["id"]: {column: row.get(column) for column in self.columns} for row in given}
        assert len(fitted) == len(given)
        return fitted  # type: ignore[return-value]


def satisfies(row: Row, where: list[Any] | None) -> bool:
    """`where` is `[column, divisor, remainders]`, or `["id", 0, ids]`; None is true."""
    if where is None:
        return True
    column, divisor, among = where
    value = row[column]
    if value is None:
        return False
    return (value % divisor if divisor else value) in among


def changed(row: Row, assignments: Mapping[str, list[Any]]) -> Row:
    """Each is `[column, amount]`: the column's value and so much more."""
    values = {
        column: None if row[source] is None else row[source] + amount  # type: ignore[operator]
        for column, (source, amount) in assignments.items()
    }
    return {**row, **values}


def _insert(state: State, told: Statement) -> State:
    new = state.fitted(told["rows"])
    if new.keys() & state.rows.keys():
        raise Inapplicable("a new row is there already")
    return state.with_rows({**state.rows, **new})


def _insert_merging(state: State, told: Statement) -> State:
    columns = (*state.columns, *(column for column in told["rows"][0] if column not in state.columns))
    rows = {key: {column: row.get(column) for column in columns} for key, row in state.rows.items()}
    return _insert(dataclasses.replace(state, columns=columns, rows=rows), told)


def _insert_select(state: State, told: Statement) -> State:
    state.has(told["where"][0])
    found = sorted(key for key, row in state.rows.items() if satisfies(row, told["where"]))[: told["limit"]]
    copies = [{"id": told["base"] + place, "n": state.rows[key]["n"]} for place, key in enumerate(found)]
    return _insert(state, {"rows": copies})


def _update(state: State, told: Statement) -> State:
    state.has(told["where"][0], *told["set"], *(source for source, _ in told["set"].values()))
    rows = {key: changed(row, told["set"]) if satisfies(row, told["where"]) else row for key, row in state.rows.items()}
    return state.with_rows(rows)


def _delete(state: State, told: Statement) -> State:
    state.has(*(told["where"] or [])[:1])
    return state.with_rows({key: row for key, row in state.rows.items() if not satisfies(row, told["where"])})


def _merge(state: State, told: Statement) -> State:
    rows = dict(state.rows)
    for source in told["rows"]:
        key, row = source["id"], rows.get(source["id"])
        if row is None:
            rows.update(state.fitted([source]))
        elif told["deletes"] and row["n"] is not None and row["n"] % 3 == 0:
            del rows[key]
        else:
            rows[key] = {**row, "n": None if row["n"] is None else row["n"] + source["n"]}
    return state.with_rows(rows)


def _replace_where(state: State, told: Statement) -> State:
    return _insert(_delete(state, told), told)


def _overwrite(state: State, told: Statement) -> State:
    return state.with_rows(state.fitted(told["rows"]))


def _overwrite_schema(state: State, told: Statement) -> State:
    columns = tuple(told["rows"][0])
    if gone := {column for column, _ in state.rules.values()} - set(columns):
        raise Inapplicable(f"constraints need {gone}")
    return _overwrite(dataclasses.replace(state, columns=columns, rows={}), told)


def _replace_table(state: State, told: Statement) -> State:
    new = State(columns=tuple(told["columns"]))
    return new.with_rows(new.fitted(told["rows"]))


def _create(state: State, told: Statement) -> State:
    if state.columns:
        raise Inapplicable("the table is there")
    return _replace_table(state, told)


def _add_column(state: State, told: Statement) -> State:
    column = told["column"]
    if column in state.columns:
        raise Inapplicable(f"{column} is there")
    rows = {key: {**row, column: None} for key, row in state.rows.items()}
    return dataclasses.replace(state, columns=(*state.columns, column), rows=rows)


def _free(state: State, column: str) -> None:
    state.has(column)
    if column in {ruled for ruled, _ in state.rules.values()}:
        raise Inapplicable(f"a constraint needs {column}")


def _drop_column(state: State, told: Statement) -> State:
    column = told["column"]
    _free(state, column)
    rows = {key: {name: row[name] for name in row if name != column} for key, row in state.rows.items()}
    return dataclasses.replace(state, columns=tuple(name for name in state.columns if name != column), rows=rows)


def _rename_column(state: State, told: Statement) -> State:
    old, new = told["column"], told["to"]
    _free(state, old)
    if new in state.columns:
        raise Inapplicable(f"{new} is there")
    name = {column: column for column in state.columns} | {old: new}
    rows = {key: {name[column]: value for column, value in row.items()} for key, row in state.rows.items()}
    return dataclasses.replace(state, columns=tuple(name.values()), rows=rows)


def _add_constraint(state: State, told: Statement) -> State:
    state.has(told["column"])
    if told["name"] in state.rules:
        raise Inapplicable(f"there is a constraint {told['name']}")
    rules = {**state.rules, told["name"]: (told["column"], told["least"])}
    return dataclasses.replace(state, rules=rules).with_rows(state.rows)


def _drop_constraint(state: State, told: Statement) -> State:
    return dataclasses.replace(state, rules={name: rule for name, rule in state.rules.items() if name != told["name"]})


def _nothing(state: State, told: Statement) -> State:
    state.has(*told.get("columns", []))
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
