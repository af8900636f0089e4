"""`BEGIN … END`, and `EXECUTE IMMEDIATE`: statements inside of others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pyspark.sql import DataFrame

from anabranch.connect.sql.execution.connect_statements import is_about_delta
from anabranch.connect.sql.grammar.connect_statement_grammar import header_of
from anabranch.connect.sql.grammar.script_grammar import ExecuteImmediate, parse_immediate
from anabranch.connect.sql.table_reads import Reader
from anabranch.errors.arguments import SqlSyntaxError, UnsupportedOperationError
from anabranch.predicates.sql_lexer import TokenKind
from anabranch.sql.grammar.cursor import Cursor
from anabranch.sql.grammar.statement_grammar import StatementHeader
from anabranch.sql.statement_context import StatementContext

_STATEMENT_FOLLOWS = frozenset({"BEGIN", "THEN", "ELSE", "DO", "LOOP", "REPEAT", "ATOMIC"})


def is_script(cursor: Cursor) -> bool:
    """Whether the text is `[label:] BEGIN … END`."""
    labelled = cursor.sees_symbol(":", 1) and cursor.word(2) == "BEGIN"
    return labelled or cursor.sees("BEGIN")


def refuse_in_script(context: StatementContext, cursor: Cursor) -> None:
    """Raises `UnsupportedOperationError` for a script with a statement on a Delta table; queries may read some.

    Spark runs all of a script, and would go around the table's log.
    """
    for opening in _statements(cursor):
        if is_about_delta(context, opening):
            raise _refusal(f"The SQL statement {opening.family.name} on a Delta table in BEGIN … END")
    for text in _immediate_texts(cursor):
        if _touches(context, text):
            raise _refusal("EXECUTE IMMEDIATE of a statement on a Delta table in BEGIN … END")


def execute_immediate(context: StatementContext, text: str, run: Callable[..., DataFrame]) -> DataFrame | None:
    """Run a statement on a Delta table that an expression tells; None where it tells another, and nothing was done.

    `run` is `spark.sql` of the enabled session.
    """
    try:
        statement = parse_immediate(Cursor(text, statement="EXECUTE IMMEDIATE"))
    except SqlSyntaxError:
        return None
    told = context.constant(statement.text)
    if not isinstance(told, str) or not _touches(context, told):
        return None
    rows = run(told, args=_values(context, statement))
    if not statement.into:
        return rows
    names = ", ".join(statement.into)
    return context.own_sql(f"SET VARIABLE ({names}) = (SELECT * FROM {{rows}})", rows=rows)  # noqa: S608 - names of variables


def _values(context: StatementContext, statement: ExecuteImmediate) -> Any:
    if not statement.values:
        return None
    pieces = [piece for value, _ in statement.values for piece in (",", value)][1:]
    row = context.query("SELECT", *pieces).first()
    assert row is not None
    names = [name for _, name in statement.values]
    if all(name is None for name in names):
        return list(row)
    return {str(name): value for name, value in zip(names, row, strict=True)}


def _touches(context: StatementContext, text: str) -> bool:
    opening = header_of(text)
    if opening is not None and is_about_delta(context, opening):
        return True
    return Reader(context.session).touches_delta(text, context.parameters)


def _statements(cursor: Cursor) -> Iterator[StatementHeader]:
    """The statements of ours in a script, wherever one may begin."""
    tokens = cursor.tokens
    for place, token in enumerate(tokens):
        if not (token.is_symbol(";") or token.word in _STATEMENT_FOLLOWS):
            continue
        end = next((at for at in range(place + 1, len(tokens)) if tokens[at].is_symbol(";")), len(tokens))
        if place + 1 < end:
            opening = header_of(cursor.text[tokens[place + 1].start : tokens[end - 1].end])
            if opening is not None:
                yield opening


def _immediate_texts(cursor: Cursor) -> Iterator[str]:
    for place in range(len(cursor.tokens) - 2):
        cursor.at = place
        if cursor.sees("EXECUTE", "IMMEDIATE") and cursor.tokens[place + 2].kind is TokenKind.STRING:
            cursor.at += 2
            yield cursor.string()


def _refusal(operation: str) -> UnsupportedOperationError:
    instead = "Give the statement to spark.sql by itself, and let Python decide what comes next."
    return UnsupportedOperationError(operation=operation, instead=instead)
