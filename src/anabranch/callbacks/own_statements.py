"""Statements that Spark's parser does not know."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import ParseException

from anabranch.callbacks.asker import Asker
from anabranch.callbacks.commands import Command
from anabranch.spark.extension.door import Answer
from anabranch.sql.own.own_statement import OwnGrammar
from anabranch.sql.session_grammar import as_quoted_names

_COMMAND = "OwnStatement"


class OwnStatements:
    """Statements that Spark's parser does not know.

    The facts of their commands are a Seq of expressions: the text, and the parameters in it, which Spark binds.
    """

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self._grammar = OwnGrammar.beside(self._spark_parses)

    def answers(self) -> dict[str, Answer]:
        return {"parse": self.parse}

    def commands(self) -> dict[str, Command]:
        return {_COMMAND: Command(run=self.run)}

    def parse(self, session: Any, text: str) -> Any:
        """The command for a text; None for what Spark's parser is to read, or to refuse. Raises `SqlSyntaxError`."""
        read = as_quoted_names(self._asker.session(session), text)
        found = self._grammar.statement_of(read)
        if found is None:
            return None
        jvm = self._asker.jvm.org.apache.spark.sql
        written = jvm.catalyst.expressions.Literal.create(read, jvm.types.DataType.fromJson('"string"'))
        markers = [
            jvm.catalyst.analysis.NamedParameter(marker)
            if isinstance(marker, str)
            else jvm.catalyst.analysis.PosParameter(marker)
            for marker in found.markers
        ]
        return self._asker.command(_COMMAND, self._asker.seq([written, *markers]), found.output)

    def run(self, session: Any, facts: Any) -> Any:
        """The rows of its result."""
        text, *parameters = self._asker.list(facts)
        found = self._grammar.statement_of(str(text.value().toString()))
        assert found is not None
        values = found.parameters([self._asker.column(each) for each in parameters])
        return self._asker.rows_of(found.run(self._asker.session(session), values))

    def _spark_parses(self, text: str) -> bool:
        # Spark's own: that of the session would ask us again.
        try:
            self._asker.jvm.org.apache.spark.sql.execution.SparkSqlParser().parsePlan(text)
        except (ParseException, Py4JJavaError):
            return False
        return True
