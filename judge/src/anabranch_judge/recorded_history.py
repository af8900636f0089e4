"""What each writer recorded: JSON lines, an event a line, in as many files as there are writers.

A writer appends a line before and after each thing that it does, so that a killed writer leaves what it had begun.
`docs/design/judge.md` has an example of each line.

- `begin`: `statement` (an id, unique in the history), `writer`, `engine`, `operation`. All but the id are
  texts for the report.
- `read`: the rows that the statement depends on: those `where` a condition holds (no `where`: all rows) in a `version`,
  or the `rows` that it saw, or both.
- `change`: what it does to rows, in the order in which it does them: `changes`, a list of
  `{"do": "insert", "row": {…}}`, `{"do": "update", "where": {…}, "set": {…}, "add": {…}}`,
  `{"do": "delete", "where": {…}}`, `{"do": "upsert", "row": {…}}`, `{"do": "insert if absent", "row": {…}}`;
  the last two find their row by the key.
- `end`: `outcome` is `committed`, `conflict` (also: any error by which the writer learned that nothing was written), or
  `unknown`; `version` where the engine returned one. Without an `end` the outcome is unknown.
- `feed`: rows of the change feed that some reader returned: `reader`, `from`, `to`, `rows` with `_change_type` and
  `_commit_version`.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from anabranch_judge.errors import JudgeError
from anabranch_judge.rows import Condition, Rows, row_of

KINDS = {"insert", "update", "delete", "upsert", "insert if absent"}
OUTCOMES = {"committed", "conflict", "unknown"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Read:
    """Rows that a statement depends on."""

    where: Condition
    version: int | None
    rows: Rows | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Change:
    """One step of a statement."""

    kind: str
    row: Mapping[str, Any]
    where: Condition
    values: Mapping[str, Any]
    increments: Mapping[str, float]


@dataclasses.dataclass(kw_only=True)
class Statement:
    """What is recorded of one statement. Its fields are complete when the whole history is read."""

    name: str
    writer: str = ""
    engine: str = ""
    operation: str = ""
    reads: list[Read] = dataclasses.field(default_factory=list)
    changes: list[Change] = dataclasses.field(default_factory=list)
    outcome: str = "unknown"
    version: int | None = None

    def __str__(self) -> str:
        details = " of ".join(part for part in (self.operation, self.engine or self.writer) if part)
        return f"{self.name} ({details})" if details else self.name


@dataclasses.dataclass(frozen=True, kw_only=True)
class Feed:
    """Rows of the change feed of the versions `first` to `last`, by version, as a reader returned them."""

    reader: str
    first: int
    last: int
    rows: Mapping[int, list[tuple[str, Mapping[str, Any]]]]
    """For each version the kind of each change and the row."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class History:
    """All that the writers and readers of one table recorded."""

    statements: list[Statement]
    feeds: list[Feed]


def read_history(paths: Iterable[Path]) -> History:
    """The history in some files. Raises `JudgeError` for a line that is none of the format."""
    statements: dict[str, Statement] = {}
    feeds: list[Feed] = []
    for path in paths:
        lines = path.read_text("utf-8").splitlines()
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                _add_event(json.loads(line), statements, feeds)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                if number == len(lines) and isinstance(error, json.JSONDecodeError):
                    break  # a writer that was killed while it wrote this line
                raise JudgeError(f"{path}, line {number}: {type(error).__name__}: {error}") from None
    return History(statements=list(statements.values()), feeds=feeds)


def _add_event(event: dict[str, Any], statements: dict[str, Statement], feeds: list[Feed]) -> None:
    kind = event["event"]
    if kind == "feed":
        feeds.append(_feed(event))
        return
    name = event["statement"]
    if kind == "begin":
        if name in statements:
            raise ValueError(f"the statement {name} begins twice")
        writer, engine, operation = (str(event.get(detail, "")) for detail in ("writer", "engine", "operation"))
        statements[name] = Statement(name=name, writer=writer, engine=engine, operation=operation)
        return
    if name not in statements:
        raise ValueError(f"the statement {name} has not begun")
    statement = statements[name]
    if kind == "read":
        rows = event.get("rows")
        if rows is None and event.get("version") is None:
            raise ValueError("a read has neither a version nor rows")
        read_rows = None if rows is None else Counter(map(row_of, rows))
        statement.reads.append(Read(where=event.get("where") or {}, version=event.get("version"), rows=read_rows))
    elif kind == "change":
        statement.changes += map(_change, event["changes"])
    elif kind == "end":
        if event["outcome"] not in OUTCOMES:
            raise ValueError(f"the outcome {event['outcome']} is none of {sorted(OUTCOMES)}")
        statement.outcome, statement.version = event["outcome"], event.get("version")
    else:
        raise ValueError(f"there is no event {kind}")


def _change(change: dict[str, Any]) -> Change:
    kind = change["do"]
    if kind not in KINDS:
        raise ValueError(f"there is no change {kind}")
    names = ("where",) if kind in {"update", "delete"} else ("row",)
    for name in names:
        if not isinstance(change.get(name), dict):
            raise ValueError(f"a change {kind} needs {name}")
    return Change(
        kind=kind,
        row=change.get("row", {}),
        where=change.get("where", {}),
        values=change.get("set", {}),
        increments=change.get("add", {}),
    )


def _feed(event: dict[str, Any]) -> Feed:
    rows: dict[int, list[tuple[str, Mapping[str, Any]]]] = {}
    for row in event["rows"]:
        values = {name: value for name, value in row.items() if not name.startswith(("_change_", "_commit_"))}
        rows.setdefault(row["_commit_version"], []).append((row["_change_type"], values))
    return Feed(reader=str(event.get("reader", "")), first=event["from"], last=event["to"], rows=rows)
