"""A statement of a user with its session and parameters, while it is executed."""

from __future__ import annotations

import uuid
from types import TracebackType
from typing import Any, Self

from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StructField, StructType

from anabranch.commands.table_access import TableRef, is_delta_identifier, table_identified
from anabranch.errors.arguments import InvalidTimestampError
from anabranch.errors.tables import InvalidIdentifierError, ViewNotTableError
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.spark.session.table_identifiers import PathIdentifier, TableIdentifier, identifier_of, split_identifier
from anabranch.sql.grammar.cursor import Fragment, TableName
from anabranch.sql.parameters import Parameters


class StatementContext:
    """A call of `spark.sql`: its session, its parameters, and the tables, rows and values of its pieces.

    Queries and expressions are passed to Spark as they are written. Use it in a `with` block: at its end, the views of
    the statement are dropped.
    """

    def __init__(self, session: DeltaSession, parameters: Parameters) -> None:
        self.session = session
        self.parameters = parameters
        self._views: list[str] = []

    # Tables.

    def identifier(self, name: TableName) -> TableIdentifier:
        """The identifier of the table. Raises `InvalidIdentifierError`."""
        return PathIdentifier(name.parts[-1]) if name.is_path else identifier_of(self.name_parts(name))

    def name_parts(self, name: TableName) -> tuple[str, ...]:
        """The parts of the name, without quotes. Raises `InvalidIdentifierError`."""
        if name.expression is None:
            return name.parts
        text = self.constant(name.expression)
        if not isinstance(text, str):
            raise InvalidIdentifierError(identifier=str(text), problem=f"IDENTIFIER({name.expression}) is not a string")
        return split_identifier(text)

    def table(self, name: TableName) -> TableRef:
        """The existing table of this name. Raises `NotADeltaTableError`."""
        return table_identified(self.session, self.identifier(name), of_view=ViewNotTableError)

    def is_delta(self, name: TableName) -> bool:
        """Whether the name is that of a Delta table."""
        try:
            return is_delta_identifier(self.session, self.identifier(name))
        except InvalidIdentifierError:
            return False

    def alias(self, name: TableName, alias: str | None) -> str | None:
        """The name of the table in the statement: its alias, or the last part of its name."""
        identifier = self.identifier(name)
        return alias if alias is not None or isinstance(identifier, PathIdentifier) else identifier.parts[-1]

    # Pieces of the text.

    def query(self, *pieces: Fragment | str) -> DataFrame:
        """The rows of a query that is joined from pieces of the statement and words."""
        parameters = self.parameters if self.parameters.positional is None else Parameters()
        for piece in pieces:
            if isinstance(piece, Fragment):
                own = self.parameters_of(piece)
                parameters = own if parameters.args is None else parameters.followed_by(own)
        return self.select(" ".join(str(piece) for piece in pieces), parameters)

    def select(self, text: str, parameters: Parameters) -> DataFrame:
        """The rows of a query with these parameters."""
        return self.session.spark.sql(text, parameters.args)

    def relation(self, piece: Fragment) -> DataFrame:
        """The rows of a relation, as it is written after FROM."""
        return self.select(f"SELECT * FROM {piece.text}", self.parameters_of(piece))  # noqa: S608 - the user's own words

    def expression(self, piece: Fragment) -> str:
        """An expression with values instead of its parameters."""
        return self.literals(piece)

    def literals(self, piece: Fragment) -> str:
        """The piece as it is written, with values instead of its parameters."""
        markers = self.parameters_of(piece).literals(self.session.spark, piece.text)
        return changed(piece.text, [(marker.start, marker.end, sql) for marker, sql in markers])

    def constant(self, piece: Fragment) -> Any:
        """The value of an expression that names no columns."""
        row = self.session.spark.sql(f"SELECT {piece.text}", self.parameters_of(piece).args).first()
        return None if row is None else row[0]

    def timestamp(self, piece: Fragment) -> str:
        """The value of a timestamp expression, as text in the session's time zone. Raises `InvalidTimestampError`."""
        query = f"SELECT CAST(TRY_CAST({piece.text} AS TIMESTAMP) AS STRING)"
        row = self.session.spark.sql(query, self.parameters_of(piece).args).first()
        if row is None or row[0] is None:
            problem = "Spark cannot read it as a timestamp; write it as '2024-01-31' or '2024-01-31 09:30:00'"
            raise InvalidTimestampError(argument="TIMESTAMP AS OF", value=piece.text, problem=problem)
        return str(row[0])

    def view_of(self, frame: DataFrame) -> str:
        """The name of a temporary view of the frame, which exists until the end of the statement."""
        name = f"__anabranch_{uuid.uuid4().hex}"
        frame.createOrReplaceTempView(name)
        self._views.append(name)
        return name

    # Results.

    def nothing(self) -> DataFrame:
        """The result of a statement without one."""
        return self.session.spark.createDataFrame([], StructType([]))

    def counts(self, **counts: int) -> DataFrame:
        """One row of numbers."""
        schema = StructType([StructField(name, LongType()) for name in counts])
        return self.session.spark.createDataFrame([tuple(counts.values())], schema)

    def close(self) -> None:
        """Drop the views."""
        while self._views:
            self.session.spark.catalog.dropTempView(self._views.pop())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def parameters_of(self, piece: Fragment) -> Parameters:
        """The parameters in the piece."""
        return self.parameters.within(piece.source, piece.start, piece.end)


def changed(text: str, changes: list[tuple[int, int, str]]) -> str:
    """The text with some parts replaced: start, end and new text of each."""
    pieces = []
    at = 0
    for start, end, new in sorted(changes):
        # A new text next to a word must not become a part of the word.
        before = " " if start > at and text[start - 1].isalnum() and new[:1].isalnum() else ""
        after = " " if end < len(text) and text[end].isalnum() and new[-1:].isalnum() else ""
        pieces += [text[at:start], before, new, after]
        at = end
    return "".join([*pieces, text[at:]])
