"""`table_changes` and `table_changes_by_path`, as functions that Spark knows."""

from __future__ import annotations

from typing import Any

from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from anabranch.callbacks.asker import Asker
from anabranch.callbacks.commands import Command
from anabranch.spark.extension.door import Answer
from anabranch.sql.feed_functions import ARGUMENTS, changes_of_values


class TableFunctions:
    """Functions whose results are tables."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    def answers(self) -> dict[str, Answer]:
        return {"table function": self.rows}

    def commands(self) -> dict[str, Command]:
        return {}

    def rows(self, session: Any, function: str, arguments: Any) -> Any:
        """The plan of the function's rows. `arguments` are expressions without columns."""
        texts = [str(argument.sql()) for argument in self._asker.list(arguments)]
        values = self._values(session, arguments) if len(texts) in ARGUMENTS else None
        own = self._asker.session(session)
        _, frame = changes_of_values(own, function, texts, values, namespace=self._namespace())
        return frame._jdf.logicalPlan()

    def _values(self, session: Any, arguments: Any) -> list[tuple[str, str | None]]:
        """The type of each argument, and its value as text in the session's time zone."""
        columns = [self._asker.column(argument) for argument in self._asker.list(arguments)]
        one_row = self._asker.spark(session).sql("SELECT 1")
        told = [each for column in columns for each in (F.typeof(column), column.cast("string"))]
        row = one_row.select(*told).collect()[0]
        return [(row[place], row[place + 1]) for place in range(0, len(row), 2)]

    def _namespace(self) -> tuple[str, ...]:
        """Of the view whose text is being resolved, without its catalog; empty outside of views."""
        context = self._asker.jvm.org.apache.spark.sql.catalyst.analysis.AnalysisContext.get()
        return tuple(map(str, self._asker.list(context.catalogAndNamespace())))[1:]
