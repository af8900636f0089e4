"""`anabranch sql`: one statement in a local session, and its rows."""

from __future__ import annotations

import dataclasses
import os
import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import NumericType, StructType

from anabranch.cli.output import table_of
from anabranch.cli.rows.display_values import cells, json_values
from anabranch.errors.arguments import InvalidArgumentError
from anabranch.errors.base import DeltaError
from anabranch.spark.extension.error_logs import unlogged
from anabranch.text_format import count, plain

if TYPE_CHECKING:
    from rich.console import Console

CELL_CHARACTERS = 60
_RELATIVE_PATH = re.compile(r"\bdelta\.`((?![/\\])[^`:]+)`", re.IGNORECASE)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StatementRows:
    """The first rows of a statement's result."""

    schema: StructType
    rows: pa.Table
    more: bool
    """Whether the statement has more rows than the limit."""

    def document(self) -> dict[str, Any]:
        names = self.schema.fieldNames()
        values = [
            json_values(column, field.dataType)
            for column, field in zip(self.rows.columns, self.schema.fields, strict=True)
        ]
        return {
            "columns": [{"name": field.name, "type": field.dataType.simpleString()} for field in self.schema.fields],
            "rows": [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)],
            "more": self.more,
        }

    def print_to(self, out: Console) -> None:
        fields = self.schema.fields
        right = [plain(field.name) for field in fields if isinstance(field.dataType, NumericType)]
        table = table_of(*(plain(field.name) for field in fields), right=right)
        columns = [
            cells(column, field.dataType, CELL_CHARACTERS)
            for column, field in zip(self.rows.columns, fields, strict=True)
        ]
        for row in zip(*columns, strict=True):
            table.add_row(*row)
        if self.rows.num_rows:
            out.print(table)
        if fields:
            first, more = ("The first ", "; --limit shows more") if self.more else ("", "")
            out.print(f"{first}{count(self.rows.num_rows, 'row')}{more}.", style="dim")
        else:
            out.print("Done.", style="dim")


def run_statement(spark: SparkSession, statement: str, *, limit: int | None) -> StatementRows:
    """Execute the statement, and fetch at most `limit` of its rows. Raises as `spark.sql`."""
    # PySpark writes each error of a statement to standard error too, as a line of JSON.
    with unlogged():
        return _run_statement(spark, statement, limit=limit)


def _run_statement(spark: SparkSession, statement: str, *, limit: int | None) -> StatementRows:
    try:
        frame = spark.sql(statement)
    except AnalysisException as error:
        relative = _RELATIVE_PATH.search(statement)
        if relative is None or isinstance(error, DeltaError):
            raise
        problem = (
            f"there is no such table; the whole path of a folder is needed: delta.`{os.path.abspath(relative[1])}`"
        )
        raise InvalidArgumentError(argument="STATEMENT", value=relative[0], problem=problem) from None
    if not frame.columns:
        return StatementRows(schema=frame.schema, rows=pa.table({}), more=False)
    # One row beyond the limit shows that there are more.
    rows = (frame if limit is None else frame.limit(limit + 1)).toArrow()
    return StatementRows(
        schema=frame.schema,
        rows=rows if limit is None else rows.slice(0, limit),
        more=limit is not None and rows.num_rows > limit,
    )
