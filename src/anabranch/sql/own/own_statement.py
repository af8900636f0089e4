"""Statements that Spark's parser does not know: they are recognized, have the columns of their results, and are run.

Every statement is checked before Spark's parser reads it, so `FIRST_WORDS` finds the few texts for which
`statement_of` has to be called.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from anabranch.errors.arguments import UnboundParameterError, UnsupportedOperationError
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.sql.execute.execute_alterations import ALTERATIONS, DESCRIPTIONS
from anabranch.sql.execute.execute_inserts import insert
from anabranch.sql.execute.execute_maintenance import MAINTENANCE
from anabranch.sql.execute.execute_tables import TABLES, makes_delta_table
from anabranch.sql.grammar.cursor import Cursor
from anabranch.sql.grammar.definition_grammar import CreateTable
from anabranch.sql.grammar.insert_grammar import Insert
from anabranch.sql.grammar.statement_grammar import OWN_FAMILIES, StatementHeader, header_of
from anabranch.sql.own.own_forms import FORMS_OF_DELTA, FORMS_OF_LATER_SPARK, OwnForm, is_in_word_order
from anabranch.sql.own.result_columns import result_columns
from anabranch.sql.own.transaction_statements import TransactionStatement, transaction_statement
from anabranch.sql.parameters import Marker, Parameters, markers
from anabranch.sql.statement_context import StatementContext
from anabranch.sql.statement_explanations import EXPLAINED, explain

_NO_PARAMETERS = Parameters()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OwnStatement:
    """A statement that Spark's parser does not know."""

    form: OwnForm
    header: StatementHeader
    statement: object

    @property
    def name(self) -> str:
        """The name of the statement in messages."""
        return self.header.family.name

    @property
    def explained(self) -> str | None:
        """The words of an EXPLAIN before it."""
        return self.header.explained

    @property
    def output(self) -> StructType:
        """The columns of the result of `run`."""
        return result_columns(self.header, self.statement)

    @property
    def markers(self) -> tuple[str | int, ...]:
        """Its parameters in the order of the text: the name of `:name`, the position in the text of `?`."""
        return tuple(marker.start if marker.name is None else marker.name for marker in self._markers())

    def parameters(self, values: Sequence[Any]) -> Parameters:
        """The parameters for `run`, from the values of `markers` in their order."""
        pairs = list(zip(self.markers, values, strict=True))
        named = {marker: value for marker, value in pairs if isinstance(marker, str)}
        return Parameters(
            named=named or None,
            positional=None if named else tuple(value for _, value in pairs) or None,
        )

    def run(self, session: DeltaSession, parameters: Parameters = _NO_PARAMETERS) -> DataFrame:
        """Run the statement. `session.spark` evaluates its queries and expressions.

        Raises `UnboundParameterError`, `UnsupportedOperationError`, and the errors of the command.
        """
        self._check_bound(parameters)
        header, statement = self.header, self.statement
        with StatementContext(session, parameters) as context:
            if header.family.makes_table and not makes_delta_table(context, header):
                operation = f"{self.form.name} for a table of another format than Delta"
                raise UnsupportedOperationError(operation=operation, instead="Write USING delta.")
            if header.explained is not None:
                return explain(context, header, statement, EXPLAINED)
            if isinstance(statement, Insert):
                return insert(context, statement, *(() if header.named_queries is None else (header.named_queries,)))
            return _EXECUTIONS[type(statement)](context, statement)

    def _markers(self) -> list[Marker]:
        parameters = markers(self.header.text)
        if isinstance(self.statement, CreateTable):
            # Only the table's name and the query have parameters: a type, as in STRUCT<a : INT>, has colons too.
            query = self.statement.query
            begin = len(self.header.text) if query is None else query.start
            parameters = [
                marker for marker in parameters if marker.start < self.header.table.end or marker.start >= begin
            ]
        return parameters

    def _check_bound(self, parameters: Parameters) -> None:
        count = 0
        for marker in self.markers:
            if isinstance(marker, str):
                if marker not in (parameters.named or {}):
                    raise UnboundParameterError(parameter=f":{marker}")
            else:
                count += 1
                if count > len(parameters.positional or ()):
                    raise UnboundParameterError(parameter=f"? number {count}")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OwnGrammar:
    """The statements that our grammar reads, since one release of Spark does not."""

    forms: tuple[OwnForm, ...]
    spark_parses: Callable[[str], bool]

    @classmethod
    def beside(cls, spark_parses: Callable[[str], bool]) -> Self:
        """The grammar of Delta's forms, and of those of later releases for which `spark_parses` is false.

        That calls Spark's parser, for the first text of every form.
        """
        return cls(forms=(*FORMS_OF_DELTA, *FORMS_OF_LATER_SPARK), spark_parses=functools.cache(spark_parses))

    def has(self, form: OwnForm) -> bool:
        """Whether our grammar reads statements of this form."""
        return not form.example or not self.spark_parses(form.example)

    def statement_of(self, text: str) -> OwnStatement | TransactionStatement | None:
        """The statement in `text`; None where Spark's parser reads the text or reports its error.

        Callers have to apply settings of the session that change how its SQL is read: see `session_grammar`.
        Raises `SqlSyntaxError` for a statement of our grammar with a syntax error.
        """
        transaction = transaction_statement(text)
        if transaction is not None:
            return transaction
        header = header_of(text)
        if header is None:
            self._raise_mistake(text)
            return None
        if not is_in_word_order(header):
            return None
        for form in self.forms:
            if form.family == header.family.name and form.matches(header) and self.has(form):
                return OwnStatement(form=form, header=header, statement=header.parse())
        return None

    def _raise_mistake(self, text: str) -> None:
        """Raises `SqlSyntaxError` for a text with first words of our grammar alone that has no name of a table."""
        cursor = Cursor(text)
        cursor.takes("EXPLAIN")
        cursor.takes("LOGICAL|FORMATTED|EXTENDED|CODEGEN|COST")
        for form in self.forms:
            if form.only_ours and cursor.sees(*form.only_ours.split()):
                family = next(family for family in OWN_FAMILIES if family.name == form.family)
                cursor.statement = family.name
                family.parse(cursor)


_EXECUTIONS: Mapping[type, Callable[[StatementContext, Any], DataFrame]] = {
    **MAINTENANCE,
    **DESCRIPTIONS,
    **ALTERATIONS,
    **TABLES,
}
