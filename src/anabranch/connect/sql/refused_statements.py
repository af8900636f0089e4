"""Statements over Delta tables that Spark would run, and that would do something else than they say."""

from __future__ import annotations

from anabranch.connect.sql.table_reads import Reader
from anabranch.connect.sql.table_references import table_references
from anabranch.errors.arguments import UnsupportedOperationError
from anabranch.spark.session.table_identifiers import identifier_of
from anabranch.sql.grammar.cursor import Cursor
from anabranch.sql.statement_context import StatementContext


def refuse_what_spark_would_do(context: StatementContext, cursor: Cursor) -> None:
    """Raises `UnsupportedOperationError` for what needs a Delta table that Spark itself knows."""
    _refuse_function(context, cursor)
    _refuse_directory(cursor)
    _refuse_changes(context, cursor)


def _refuse_function(context: StatementContext, cursor: Cursor) -> None:
    """Its body would outlive the version that it was made of."""
    cursor.at = 0
    if not cursor.takes("CREATE"):
        return
    cursor.takes("OR", "REPLACE")
    cursor.takes("TEMP|TEMPORARY")
    if cursor.sees("FUNCTION") and Reader(context.session).touches_delta(cursor.text, context.parameters):
        instead = "Let the function take what it reads as an argument, or make a temporary view."
        raise UnsupportedOperationError(operation="CREATE FUNCTION that reads a Delta table", instead=instead)


def _refuse_directory(cursor: Cursor) -> None:
    cursor.at = 0
    if cursor.sees("EXPLAIN"):
        return
    for place in range(len(cursor.tokens)):
        cursor.at = place
        if not cursor.takes("INSERT", "OVERWRITE"):
            continue
        cursor.takes("LOCAL")
        if not cursor.takes("DIRECTORY"):
            return
        while not cursor.is_at_end and not cursor.sees("SELECT"):
            if cursor.takes("USING", "DELTA"):
                instead = "Use CREATE OR REPLACE TABLE delta.`/folder` USING delta AS query."
                raise UnsupportedOperationError(operation="INSERT OVERWRITE DIRECTORY USING delta", instead=instead)
            cursor.at += 1
        return


def _refuse_changes(context: StatementContext, cursor: Cursor) -> None:
    """`FROM t CHANGES FROM VERSION 1 …`."""
    if not any(token.word == "CHANGES" for token in cursor.tokens):
        return
    reader = Reader(context.session)
    for reference in table_references(cursor.text):
        rest = Cursor(cursor.text[reference.end :])
        if rest.sees("CHANGES", "FROM", "VERSION|TIMESTAMP") and reader.is_delta(identifier_of(reference.parts)):
            instead = "Use table_changes('t', start, end)."
            raise UnsupportedOperationError(operation="SELECT … CHANGES of a Delta table", instead=instead)
