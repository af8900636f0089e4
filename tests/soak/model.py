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

    def fitted(self, new_rows: list[Row]) -> dict[int, Row]:
        """New rows, NULL where they say nothing."""
        for row in new_rows:
            self.has(*row)
        fitted = {row["id"]: {column: row.get(column) for column in self.columns} for row in new_rows}
        assert len(fitted) == len(new_rows)
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


def _insert(state: State, statement: Statement) -> State:
    new = state.fitted(statement["rows"])
    if new.keys() & state.rows.keys():
        raise Inapplicable("a new row is there already")
    return state.with_rows({**state.rows, **new})


def _insert_merging(state: State, statement: Statement) -> State:
    columns = (*state.columns, *(column for column in statement["rows"][0] if column not in state.columns))
    rows = {key: {column: row.get(column) for column in columns} for key, row in state.rows.items()}
    return _insert(dataclasses.replace(state, columns=columns, rows=rows), statement)


def _insert_select(state: State, statement: Statement) -> State:
    state.has(statement["where"][0])
    chosen = sorted(key for key, row in state.rows.items() if satisfies(row, statement["where"]))[: statement["limit"]]
    copies = [{"id": statement["base"] + number, "n": state.rows[key]["n"]} for number, key in enumerate(chosen)]
    return _insert(state, {"rows": copies})


def _update(state: State, statement: Statement) -> State:
    state.has(statement["where"][0], *statement["set"], *(source for source, _ in statement["set"].values()))
    rows = {
        key: changed(row, statement["set"]) if satisfies(row, statement["where"]) else row
        for key, row in state.rows.items()
    }
    return state.with_rows(rows)


def _delete(state: State, statement: Statement) -> State:
    state.has(*(statement["where"] or [])[:1])
    return state.with_rows({key: row for key, row in state.rows.items() if not satisfies(row, statement["where"])})


def _merge(state: State, statement: Statement) -> State:
    rows = dict(state.rows)
    for source in statement["rows"]:
        key, row = source["id"], rows.get(source["id"])
        if row is None:
            rows.update(state.fitted([source]))
        elif statement["deletes"] and row["n"] is not None and row["n"] % 3 == 0:
            del rows[key]
        else:
            rows[key] = {**row, "n": None if row["n"] is None else row["n"] + source["n"]}
    return state.with_rows(rows)


def _replace_where(state: State, statement: Statement) -> State:
    return _insert(_delete(state, statement), statement)


def _overwrite(state: State, statement: Statement) -> State:
    return state.with_rows(state.fitted(statement["rows"]))


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
