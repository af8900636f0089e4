"""Several statements on one table as one commit."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from anabranch.errors.commits import TransactionStateError
from anabranch.schema.paths import quote
from anabranch.spark.session.table_identifiers import is_absolute_path
from anabranch.transactions.statement_retry import execute_with_retries

LOGGER = logging.getLogger("anabranch.commit")
T = TypeVar("T")


class TableTransaction:
    """A transaction of a session, from `transaction(spark, "t")` to the end of its `with` block.

    At the end of the block it is committed, and rolled back where the block raises an exception. Where the block has
    ended it, by `commit`, `rollback` or in SQL, the end of the block does nothing, as with sqlite3 and SQLAlchemy: a
    program that sees an error after a commit repeats what is in the table. `version` is the version of the commit:
    None before it, where nothing was changed, and after a COMMIT in SQL, which returns it.
    """

    def __init__(self, spark: SparkSession, table: str | None = None) -> None:
        self._spark = spark
        self._table = table
        self._is_open = False
        self.version: int | None = None

    def begin(self) -> None:
        """Begin it. Raises `NotADeltaTableError`, and `TransactionStateError` if the session has a transaction."""
        on = "" if self._table is None else f" ON {_identifier(self._table)}"
        self._spark.sql(f"BEGIN TRANSACTION{on}")
        self._is_open = True

    def commit(self) -> int | None:
        """Commit it, and return the version; None where nothing was changed.

        It has ended afterwards, also after a conflict. Raises the exceptions of `anabranch.exceptions`, and
        `TransactionStateError` where it has ended already.
        """
        self._is_open = False
        self.version = self._spark.sql("COMMIT").collect()[0]["version"]
        return self.version

    def rollback(self) -> None:
        """End it without a commit. Raises `TransactionStateError` where it has ended already."""
        self._is_open = False
        self._spark.sql("ROLLBACK")

    def savepoint(self, name: str) -> None:
        """Name the state after the statements so far, for `rollback_to`."""
        self._spark.sql(f"SAVEPOINT {quote(name)}")

    def rollback_to(self, name: str) -> None:
        """Undo the statements since the savepoint. Raises `TransactionStateError` where there is none of that name."""
        self._spark.sql(f"ROLLBACK TO SAVEPOINT {quote(name)}")

    def __enter__(self) -> Self:
        self.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._is_open:
            return
        try:
            if kind is None:
                self.commit()
            else:
                self.rollback()
        except Exception as failure:
            # COMMIT or ROLLBACK in SQL has ended it. For a session that was lost the server has another error.
            if isinstance(failure, PySparkException) and failure.getCondition() == TransactionStateError.condition:
                return
            if kind is None:
                raise
            # The exception of the block is the one to raise. A session that has ended has rolled back by itself.
            LOGGER.warning("A transaction was not rolled back", exc_info=True)


def transaction(spark: SparkSession, table: str | None = None) -> TableTransaction:
    """A transaction for a `with` block: its statements on one table become one commit, or none of them does.

    `table` is a name, delta.`path`, or a path; without it the first table that a statement changes. Every statement
    and query of the session in the block sees the table as it was at the beginning, with the changes of the block;
    other sessions see all of them after the block, or nothing. What another session does in the block is not part of
    it. A block that has committed or rolled back, by the result's methods or in SQL, may go on: the end of the block
    does nothing then, and each later statement is a commit of its own. See the how-to on transactions.
    """
    return TableTransaction(spark, table)


def transact(
    spark: SparkSession, table: str | None, work: Callable[[TableTransaction], T], *, conflict_retries: int = 3
) -> T:
    """Call `work` in a transaction, commit it, and return its result; after a conflict all of it again.

    `work` is called at most `conflict_retries` times more, and must do nothing else that is not to be repeated. Raises
    the conflict of the last call, and any other exception of `work` at once, after a rollback.
    """

    def run(_: object) -> T:
        with TableTransaction(spark, table) as begun:
            return work(begun)

    return execute_with_retries(
        run, retries_max=conflict_retries, random=random.SystemRandom(), sleep=lambda ms: time.sleep(ms / 1000)
    )


def _identifier(table: str) -> str:
    return f"delta.{quote(table)}" if is_absolute_path(table) else table
