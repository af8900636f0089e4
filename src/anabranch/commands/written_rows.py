"""The files that a write adds, and what its commit says of them."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from anabranch.commands.row_changes import RowChanges
from anabranch.commands.table_access import TableHandle
from anabranch.commands.write_options import WriteOptions
from anabranch.commands.write_target import WriteTarget
from anabranch.errors.constraints import ReplaceWhereMismatchError
from anabranch.spark.conditions import text_of
from anabranch.spark.conforming import conform
from anabranch.spark.engine import WriteRequest, WrittenFiles
from anabranch.spark.row_checks import refuse_when, typed_violations
from anabranch.spark.row_names import named
from anabranch.spark.table_identifiers import quote


def write_rows(handle: TableHandle, frame: DataFrame, target: WriteTarget, options: WriteOptions) -> WrittenFiles:
    """Run the frame and write its rows as the target's files. Nothing is committed."""
    rows = conform(frame, target.plan, table=handle.label)
    if options.replace_where is not None and options.check_replace_where:
        rows = _checked(named(rows, options.target_alias), options.replace_where, table=handle.label)
    with typed_violations():
        return handle.session.engine.write(
            WriteRequest(
                table_root=handle.path,
                frame=rows,
                schema=target.file_schema(handle.label),
                partition_columns=target.partition_columns,
                column_mapping=target.column_mapping,
                properties=target.properties,
                max_records_per_file=options.max_records_per_file,
                options=(*handle.storage, *options.parquet),
            )
        )


def write_metrics(written: WrittenFiles, replaced: RowChanges) -> dict[str, int]:
    """What a write says of the rows that came and of those that it took away, by Delta's names."""
    files = [*written.adds, *(replaced.copied.adds if replaced.copied is not None else ())]
    told = replaced.metrics()
    found = {
        "numFiles": len(files),
        "numOutputRows": written.num_rows + told["numCopiedRows"],
        "numOutputBytes": sum(add.size for add in files),
    }
    names = ["numRemovedFiles", "numRemovedBytes"] if replaced.removes else []
    if replaced.num_rows is not None:
        told["numDeletedRows"] = replaced.num_rows
        names = ["numRemovedFiles", "numRemovedBytes", "numDeletedRows", "numCopiedRows", "numAddedChangeFiles"]
    names += [name for name in told if name.startswith("numDeletionVectors") and told[name]]
    return found | {name: told[name] for name in names}


def _checked(rows: DataFrame, condition: str | Column, *, table: str) -> DataFrame:
    """The rows, of which each must satisfy the condition."""
    first, *others = rows.columns
    asked = F.expr(condition) if isinstance(condition, str) else condition
    violated = ~F.coalesce(asked, F.lit(False))
    facts = {"table": table, "predicate": text_of(condition)}
    sample = F.to_json(F.struct(*(F.col(quote(name)) for name in rows.columns)))
    column = F.col(quote(first))
    checked = refuse_when(violated, column, ReplaceWhereMismatchError, facts, shown={"row": sample}).alias(first)
    return rows.select(checked, *(F.col(quote(name)) for name in others))
