"""The rows of a write as data files of its target, checked against `replaceWhere`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from anabranch.commands.data_files import write_data_files
from anabranch.commands.table_access import TableRef
from anabranch.commands.write.write_options import WriteOptions
from anabranch.commands.write.write_target import WriteTarget
from anabranch.errors.constraints import ReplaceWhereMismatchError
from anabranch.schema.logical_types import DECLARED_TYPE, without_char_varchar
from anabranch.schema.paths import quote
from anabranch.spark.conditions.column_names import named
from anabranch.spark.conditions.user_condition import text_of
from anabranch.spark.engine import WrittenFiles
from anabranch.spark.write.conform import conform
from anabranch.spark.write.file_schema import with_partition_values
from anabranch.spark.write.row_checks import refuse_when

_CHAR_IS_A_TYPE = "spark.sql.preserveCharVarcharTypeInfo"
_CHAR = re.compile(r"(?<!var)char\(", re.IGNORECASE)


def write_rows(
    table: TableRef,
    frame: DataFrame,
    target: WriteTarget,
    options: WriteOptions,
    first_numbers: Mapping[str, int] | None = None,
) -> WrittenFiles:
    """Run the frame and write its rows as the target's files. Nothing is committed.

    `first_numbers` are those of identity columns with reserved numbers.
    """
    rows = conform(_with_strings(frame), target.plan, table=table.label, first_numbers=first_numbers)
    if options.replace_where is not None and options.check_replace_where:
        rows = with_partition_values(rows, target.file_schema, target.partition_columns)
        rows, advice = _compared_as_read(table, rows)
        rows = _checked(named(rows, options.target_alias), options.replace_where, table=table.label, advice=advice)
    return write_data_files(
        table,
        rows,
        schema=target.file_schema,
        partition_columns=target.partition_columns,
        properties=target.properties,
        max_records_per_file=options.max_records_per_file,
        parquet=options.parquet,
        optimize=options.optimize_write,
    )


def _with_strings(frame: DataFrame) -> DataFrame:
    """The rows with CHAR and VARCHAR columns as strings: Spark 4.0 fails to optimize expressions of these types."""
    stored = without_char_varchar(frame.schema)
    kinds = {
        field.name: field.dataType
        for field, before in zip(stored.fields, frame.schema.fields, strict=True)
        if field.dataType != before.dataType
    }
    return frame.withColumns({name: frame[quote(name)].cast(kind) for name, kind in kinds.items()}) if kinds else frame


def _compared_as_read(table: TableRef, rows: DataFrame) -> tuple[DataFrame, str]:
    """The rows with CHAR columns as queries of the session compare them, and advice for the error message.

    Otherwise rows could satisfy a condition for which a query of the table returns none of them.
    """
    chars = {field.name for field in rows.schema.fields if _CHAR.search(str(field.metadata.get(DECLARED_TYPE, "")))}
    if not chars or not table.session.flag(_CHAR_IS_A_TYPE, default=False):
        return rows, ""
    columns = [F.col(quote(name)) for name in rows.columns]
    plain = [
        # The result of a cast is not a CHAR.
        column.cast("string").alias(name) if name in chars else column
        for name, column in zip(rows.columns, columns, strict=True)
    ]
    advice = (
        f" While {_CHAR_IS_A_TYPE} is true, conditions on CHAR columns must contain the blanks that pad the values."
    )
    return rows.select(*plain), advice


def _checked(rows: DataFrame, condition: str | Column, *, table: str, advice: str) -> DataFrame:
    """The rows, failing the job where one does not satisfy the condition."""
    first, *others = rows.columns
    is_true = F.expr(condition) if isinstance(condition, str) else condition
    violated = ~F.coalesce(is_true, F.lit(False))
    facts = {"table": table, "predicate": text_of(condition), "advice": advice}
    sample = F.to_json(F.struct(*(F.col(quote(name)) for name in rows.columns)), {"ignoreNullFields": "false"})
    column = F.col(quote(first))
    checked = refuse_when(violated, column, ReplaceWhereMismatchError, facts, shown={"row": sample}).alias(first)
    return rows.select(checked, *(F.col(quote(name)) for name in others))
