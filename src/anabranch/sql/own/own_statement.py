"""Statements that Spark's parser does not know: recognised, with the columns of their results, and run.

Every statement passes here on its way to Spark's parser, so `FIRST_WORDS` tells at little cost which texts are worth
asking `statement_of` about.
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
from anabranch.sql.parameters import Marker, Parameters, markers
from anabranch.sql.statement_context import StatementContext
from anabranch.sql.statement_explanations import EXPLAINED, explain

_NO_PARAMETERS = Parameters()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OwnStatement:
    """A statement that Spark's parser does not know."""

    form: OwnForm
    opening: StatementHeader
    statement: object

    @property
    def name(self) -> str:
        """What messages call it."""
        return self.opening.family.name

    @property
    def explained(self) -> str | None:
        """The words of an EXPLAIN that stands before it."""
        return self.opening.explained

    @property
    def output(self) -> StructType:
        """The columns of what `run` gives."""
        return result_columns(self.opening, self.statement)

    @property
    def markers(self) -> tuple[str | int, ...]:
        """Its parameters in the order of the text: the name of `:name`, the position in the text of `?`."""
        return tuple(marker.start if marker.name is None else marker.name for marker in self._markers())

    def parameters(self, values: Sequence[Any]) -> Parameters:
        """Values of `markers`, one for each and in their order, as `run` takes them."""
        pairs = list(zip(self.markers, values, strict=True))
        named = {marker: value for marker, value in pairs if isinstance(marker, str)}
        return Parameters(
            named=named or None,
            positional=None if named else tuple(value for _, value in pairs) or None,
        )

    def run(self, session: DeltaSession, parameters: Parameters = _NO_PARAMETERS) -> DataFrame:
        """Do it, now; queries and expressions in it are asked of `session.spark`.

        Raises `UnboundParameterError`, `UnsupportedOperationError`, and whatever the command raises.
        """
        self._check_bound(parameters)
        opening, statement = self.opening, self.statement
        with StatementContext(session, parameters) as context:
            if opening.family.makes_table and not makes_delta_table(context, opening):
                operation = f"{self.form.name} for a table of another format than Delta"
                raise UnsupportedOperationError(operation=operation, instead="Write USING delta.")
            if opening.explained is not None:
                return explain(context, opening, statement, EXPLAINED)
            if isinstance(statement, Insert):
                return insert(context, statement, *(() if opening.named_queries is None else (opening.named_queries,)))
            return _EXECUTIONS[type(statement)](context, statement)

    def _markers(self) -> list[Marker]:
        found = markers(self.opening.text)
        if isinstance(self.statement, CreateTable):
            # Only the table's name and the query have parameters: a type, as in STRUCT<a : INT>, has colons too.
            query = self.statement.query
            begin = len(self.opening.text) if query is None else query.start
            found = [marker for marker in found if marker.start < self.opening.table.end or marker.start >= begin]
        return found

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
    """The statements that are ours beside one release of Spark."""

    forms: tuple[OwnForm, ...]
    spark_parses: Callable[[str], bool]

    @classmethod
    def beside(cls, spark_parses: Callable[[str], bool]) -> Self:
        """Those of Delta, and those of later releases that `spark_parses`, which asks Spark's parser, does not know.

        It is asked about a form when the first text of that form comes.
        """
        return cls(forms=(*FORMS_OF_DELTA, *FORMS_OF_LATER_SPARK), spark_parses=functools.cache(spark_parses))

    def has(self, form: OwnForm) -> bool:
        """Whether statements of this form are ours."""
        return not form.example or not self.spark_parses(form.example)

    def statement_of(self, text: str) -> OwnStatement | None:
        """The statement that `text` is; None for everything that Spark's parser reads, or refuses, by itself.

        Settings of the session that change how its SQL is read are the caller's to apply: see `session_grammar`.
        Raises `SqlSyntaxError` where it is a statement of ours but for a mistake.
        """
        opening = header_of(text)
        if opening is None:
            self._raise_mistake(text)
            return None
        if not is_in_word_order(opening):
            return None
        for form in self.forms:
            if form.family == opening.family.name and form.matches(opening) and self.has(form):
                return OwnStatement(form=form, opening=opening, statement=opening.parse())
        return None

    def _raise_mistake(self, text: str) -> None:
        """Raises `SqlSyntaxError` for a text that begins as only ours do and then has no name of a table."""
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
