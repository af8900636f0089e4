"""BEGIN TRANSACTION, COMMIT, ROLLBACK, savepoints, and BEGIN ATOMIC … END, which Spark's parser does not know."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StructField, StructType

from anabranch.commands.dml.statement import retries_allowed
from anabranch.commands.multi_statement import transaction_commands
from anabranch.predicates.sql_lexer import first_word
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.sql.grammar.cursor import Cursor, TableName
from anabranch.sql.parameters import Parameters
from anabranch.sql.statement_context import StatementContext
from anabranch.transactions.commit.commit_context import CommittedVersion

NOTHING = StructType([])
VERSION = StructType([StructField("version", LongType())])
"""The result of a COMMIT: the version, NULL where the transaction has changed nothing."""
_FIRST = frozenset({"BEGIN", "START", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE"})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TransactionStatement:
    """A statement about the transaction of its session, with the methods of `OwnStatement`."""

    name: str
    table: TableName | None = None
    """The table of BEGIN TRANSACTION ON."""
    savepoint: str = ""
    script: str = ""
    """The script of BEGIN ATOMIC, as Spark reads it."""

    @property
    def output(self) -> StructType:
        """The columns of the result."""
        return VERSION if self.name in {"COMMIT", "BEGIN ATOMIC"} else NOTHING

    @property
    def markers(self) -> tuple[str | int, ...]:
        return ()

    def parameters(self, values: Sequence[Any]) -> Parameters:
        assert not values, "the statement has no parameters"
        return Parameters()

    def run(self, session: DeltaSession, parameters: Parameters) -> DataFrame | None:
        """Run the statement. Raises `TransactionStateError`, and the errors of the statements of a script."""
        if self.name == "BEGIN ATOMIC":
            return _version(session, _run_script(session, self.script))
        if self.name == "BEGIN TRANSACTION":
            with StatementContext(session, parameters) as context:
                target = None if self.table is None else context.table(self.table)
                transaction_commands.begin_transaction(session, target)
        elif self.name == "COMMIT":
            return _version(session, transaction_commands.commit_transaction(session))
        elif self.name == "ROLLBACK":
            transaction_commands.roll_back_transaction(session)
        elif self.name == "ROLLBACK TO":
            transaction_commands.roll_back_to_savepoint(session, self.savepoint)
        elif self.name == "SAVEPOINT":
            transaction_commands.set_savepoint(session, self.savepoint)
        else:
            transaction_commands.release_savepoint(session, self.savepoint)
        return None


def transaction_statement(text: str) -> TransactionStatement | None:
    """The statement about a transaction in `text`; None for any other. Raises `SqlSyntaxError`."""
    if first_word(text) not in _FIRST:
        return None
    cursor = Cursor(text)
    if cursor.takes("BEGIN", "ATOMIC"):
        begin = cursor.tokens[cursor.at].start if not cursor.is_at_end else len(text)
        return TransactionStatement(name="BEGIN ATOMIC", script=f"BEGIN {text[begin:]}")
    if cursor.takes("BEGIN|START", "TRANSACTION"):
        cursor.statement = "BEGIN TRANSACTION"
        statement = TransactionStatement(name="BEGIN TRANSACTION", table=cursor.table() if cursor.takes("ON") else None)
    elif cursor.sees("BEGIN|START"):
        return None
    else:
        statement = _end(cursor)
    cursor.expect_end()
    return statement


def _end(cursor: Cursor) -> TransactionStatement:
    cursor.statement = cursor.word()
    if cursor.takes("SAVEPOINT"):
        return TransactionStatement(name="SAVEPOINT", savepoint=cursor.name("a savepoint").lower())
    if cursor.takes("RELEASE"):
        cursor.takes("SAVEPOINT")
        return TransactionStatement(name="RELEASE SAVEPOINT", savepoint=cursor.name("a savepoint").lower())
    name = cursor.word()
    cursor.expect("COMMIT|ROLLBACK")
    cursor.takes("TRANSACTION|WORK")
    if name == "ROLLBACK" and cursor.takes("TO"):
        cursor.takes("SAVEPOINT")
        return TransactionStatement(name="ROLLBACK TO", savepoint=cursor.name("a savepoint").lower())
    return TransactionStatement(name=name)


def _run_script(session: DeltaSession, script: str) -> CommittedVersion | None:
    retries = retries_allowed(session)
    return transaction_commands.run_transaction(session, lambda: session.spark.sql(script), conflict_retries=retries)


def _version(session: DeltaSession, committed: CommittedVersion | None) -> DataFrame:
    version = "NULL" if committed is None else committed.version
    # VALUES is a local relation, for which Spark runs no job.
    return session.spark.sql(f"VALUES (CAST({version} AS BIGINT)) AS t(version)")
