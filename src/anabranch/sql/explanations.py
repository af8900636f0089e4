"""EXPLAIN of a statement that changes a Delta table: what it would look at, and how. Nothing is done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructField, StructType

from anabranch.commands.table_access import TableHandle, table_at
from anabranch.commands.target_rows import understand
from anabranch.snapshot.scan_plan import can_be_true
from anabranch.spark.table_identifiers import PathIdentifier, quote
from anabranch.sql.call import Call
from anabranch.sql.grammar.cursor import Fragment, TableName
from anabranch.sql.grammar.families import Statement
from anabranch.sql.grammar.inserts import Insert, Inserts
from anabranch.sql.grammar.maintenance import Optimize, Reorganize
from anabranch.sql.grammar.merges import Match, Merge
from anabranch.sql.grammar.row_changes import Delete, Update
from anabranch.sql.grammar.statements import Opening
from anabranch.sql.grammar.table_definitions import CreateTable
from anabranch.sql.grammar.views import CreateView

SCHEMA = StructType([StructField("plan", StringType())])
_TITLE = "== Delta =="
Pieces = tuple[Fragment | str, ...]


def explain(call: Call, opening: Opening, statement: Statement) -> DataFrame:
    """One row with one text, as Spark's EXPLAIN gives."""
    before = () if opening.named_queries is None else (opening.named_queries,)
    assert opening.explained is not None
    if opening.named_queries is not None:
        call.name_queries(opening.named_queries)
    lines = [_TITLE, *_about(call, opening, statement)]
    for query in _queries(call, statement, before):
        row = call.query(opening.explained, *query).first()
        lines += ["", "" if row is None else str(row[0]).rstrip("\n")]
    return call.session.spark.createDataFrame([("\n".join(lines) + "\n",)], SCHEMA)


def _about(call: Call, opening: Opening, statement: Statement) -> Iterator[str]:
    """What the statement is, on which version of which table, and the files that it is about."""
    for table in opening.targets or (opening.table,):
        if not call.is_delta(table):
            yield f"{opening.family.name} {'.'.join(table.parts)}"
            continue
        identifier = call.identifier(table)
        handle = (
            table_at(call.session, identifier.path) if isinstance(identifier, PathIdentifier) else call.table(table)
        )
        snapshot = handle.table.snapshots.latest_or_none()
        if snapshot is None:
            yield f"{opening.family.name} {handle.label}: there is no such table yet"
            continue
        yield f"{opening.family.name} {handle.label} at version {snapshot.version}"
        if isinstance(statement, (Delete, Update, Merge, Optimize, Reorganize)):
            yield _files(call, handle, statement)


def _files(call: Call, handle: TableHandle, statement: Delete | Update | Merge | Optimize | Reorganize) -> str:
    snapshot = handle.latest()
    sizes = snapshot.files.table.column("size").to_numpy()
    chosen = sizes
    if not isinstance(statement, Merge) and statement.condition is not None:
        alias = None
        if isinstance(statement, (Delete, Update)):
            alias = call.alias(statement.table, statement.alias)
        asked = understand(handle, snapshot, call.expression(statement.condition), alias=alias)
        chosen = sizes[can_be_true(asked.predicate, snapshot.skipping_columns)]
    return f"Files that may hold its rows: {len(chosen)} of {len(sizes)}, {chosen.sum()} of {sizes.sum()} bytes"


def _queries(call: Call, statement: Any, before: Pieces) -> Iterator[Pieces]:
    if isinstance(statement, Inserts):
        for _, each in statement.inserts:
            yield (*before, statement.source, each.query)
        return
    make = _QUERIES.get(type(statement))
    query = () if make is None else make(call, statement)
    if query:
        yield (*before, *query)


def _rows_of(call: Call, statement: Delete | Update) -> Pieces:
    return _where(_named(call, statement.table, statement.alias), statement.condition)


def _rows_of_table(call: Call, statement: Optimize | Reorganize) -> Pieces:
    return _where(_named(call, statement.table, None), statement.condition)


def _joined(call: Call, statement: Merge) -> Pieces:
    kinds = {clause.match for clause in statement.clauses}
    lonely_source, lonely_target = Match.NOT_MATCHED in kinds, Match.NOT_MATCHED_BY_SOURCE in kinds
    join = {(True, True): "FULL", (True, False): "RIGHT", (False, True): "LEFT", (False, False): "INNER"}
    target = _named(call, statement.table, statement.alias)
    kind = join[lonely_source, lonely_target]
    return ("SELECT * FROM", target, f"{kind} JOIN", statement.source, "ON", statement.condition)


def _where(table: str, condition: Fragment | None) -> Pieces:
    return ("SELECT * FROM", table) if condition is None else ("SELECT * FROM", table, "WHERE", condition)


def _named(call: Call, name: TableName, alias: str | None) -> str:
    identifier = call.identifier(name)
    written = f"delta.{quote(identifier.path)}" if isinstance(identifier, PathIdentifier) else identifier.quoted
    return written if alias is None else f"{written} AS {quote(alias)}"


def _of_insert(_: Call, statement: Insert) -> Pieces:
    # DEFAULT in VALUES is no query that Spark knows.
    return (statement.query,) if statement.rows is None else ()


def _of_table(_: Call, statement: CreateTable | CreateView) -> Pieces:
    return () if statement.query is None else (statement.query,)


_QUERIES: Mapping[type, Callable[[Call, Any], Pieces]] = {
    Delete: _rows_of,
    Update: _rows_of,
    Merge: _joined,
    Optimize: _rows_of_table,
    Reorganize: _rows_of_table,
    Insert: _of_insert,
    CreateTable: _of_table,
    CreateView: _of_table,
}
