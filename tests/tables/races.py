"""How a prepared statement ends, once others have landed before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
from pyspark.sql import SparkSession

from anabranch.commands.dml.statement import Prepared
from anabranch.commands.write import write_command
from anabranch.exceptions import DeltaConcurrentModificationException
from anabranch.transactions.transaction import Transaction


def beaten(spark: SparkSession, statement: str, winner: str, *others: Callable[[], object]) -> None:
    """A statement that writes rows reads its table, then the winner lands, then the statement writes and commits.

    What `others` do comes between writing and commit.
    """
    right: Callable[..., Any] = write_command.write_rows

    def late(*arguments: Any) -> Any:
        with mock.patch.object(write_command, "write_rows", right):
            spark.sql(winner)
            written = right(*arguments)
            for do in others:
                do()
            return written

    with mock.patch.object(write_command, "write_rows", late):
        spark.sql(statement)


def beaten_to_the_commit(spark: SparkSession, run: Callable[[], object], winner: str | Callable[[], object]) -> None:
    """A statement does all of its work, then the winner lands, then the statement commits."""
    right: Callable[..., Any] = Transaction.commit

    def late(*arguments: Any, **keywords: Any) -> Any:
        with mock.patch.object(Transaction, "commit", right):
            _ = winner() if callable(winner) else spark.sql(winner)
        return right(*arguments, **keywords)

    with mock.patch.object(Transaction, "commit", late):
        run()


def commit_with_retries(prepared: Prepared) -> None:
    with prepared:
        prepared.commit()


def lose(prepared: Prepared, error: type[DeltaConcurrentModificationException]) -> DeltaConcurrentModificationException:
    with prepared, pytest.raises(error) as raised:
        prepared.commit()
    return raised.value
