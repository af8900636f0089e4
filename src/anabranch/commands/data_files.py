"""Writes rows as data files of a table, for all statements that add rows.

An optimized write shuffles the rows first, so that it makes few, larger files. Spark's own adaptive shuffle does it:
rows of one partition of the table come together, and tasks are joined or split until each has about as much as a file
is to hold. As elsewhere, Spark keeps as many tasks as there are cores, as long as each has a mebibyte, unless
`spark.sql.adaptive.coalescePartitions.parallelismFirst` is false.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from anabranch.commands.table_access import TableRef
from anabranch.errors.arguments import InvalidOptionError
from anabranch.errors.environment import StorageError
from anabranch.progress.progress_events import add_done, begin_phase
from anabranch.protocol.actions import AddCDCFile, AddFile
from anabranch.protocol.data_paths import decode_path
from anabranch.protocol.properties import TableProperties
from anabranch.protocol.property_table import parse_bytes
from anabranch.schema.column_mapping import ColumnMappingMode
from anabranch.spark.engine import WriteRequest, WrittenFiles
from anabranch.spark.session.session_settings import SessionSettings
from anabranch.spark.write.row_checks import typed_violations


def write_data_files(
    table: TableRef,
    rows: DataFrame,
    *,
    schema: StructType,
    partition_columns: tuple[str, ...],
    properties: TableProperties,
    max_records_per_file: int | None = None,
    parquet: tuple[tuple[str, str], ...] = (),
    optimize: bool | None = None,
) -> WrittenFiles:
    """Run the frame, whose columns are those of `schema`, and write its rows. Nothing is committed.

    `parquet` are options of Parquet's writer. With `optimize` rows are shuffled first to make fewer files; None leaves
    that to the session and the table. Raises the errors of `refuse_when` columns among the rows, `InvalidOptionError`,
    and `InvalidPropertyError` for an isolation level that does not exist.
    """
    # The commit would raise the same error, but only after all files are written.
    properties.isolation_level  # noqa: B018 - raises
    shuffled = optimized(
        table.session, rows, properties=properties, partition_columns=partition_columns, option=optimize
    )
    begin_phase("write files")
    table.session.describe_jobs(f"write {table.label}")
    with typed_violations():
        written = table.session.engine.write(
            WriteRequest(
                table_root=table.path,
                frame=shuffled,
                schema=schema,
                partition_columns=partition_columns,
                column_mapping=ColumnMappingMode.parse(properties.column_mapping_mode),
                properties=properties,
                max_records_per_file=max_records_per_file,
                options=(*table.storage, *parquet),
            )
        )
    add_done(files=len(written.adds), rows=written.num_rows, size_bytes=sum(add.size for add in written.adds))
    return written


def delete_data_files(table: TableRef, files: Iterable[AddFile | AddCDCFile]) -> None:
    """Delete files that no commit is going to add.

    What cannot be deleted is left to VACUUM, like the files of a statement that loses to another.
    """
    with contextlib.suppress(StorageError):
        paths = [decode_path(file.path, table_root=table.path) for file in files]
        table.delta_log.store.delete_many(paths)


OPTIMIZE_WRITE_SETTING = "spark.databricks.delta.optimizeWrite.enabled"
BIN_SIZE_SETTING = "spark.databricks.delta.optimizeWrite.binSize"
_BIN_SIZE_DEFAULT = "512"
"""In mebibytes, as Delta has it."""
_ADAPTIVE = "spark.sql.adaptive.enabled"


def optimized(
    session: SessionSettings,
    rows: DataFrame,
    *,
    properties: TableProperties,
    partition_columns: Sequence[str],
    option: bool | None = None,
) -> DataFrame:
    """The rows, shuffled where the option says so, or else the session, or else the table.

    The rows are returned as they are where Spark's adaptive execution is off: its shuffle would make more files, not
    fewer. Raises `InvalidOptionError`.
    """
    enabled = option
    if enabled is None and session.setting(OPTIMIZE_WRITE_SETTING) is not None:
        enabled = session.flag(OPTIMIZE_WRITE_SETTING, default=False)
    if enabled is None:
        enabled = properties.optimize_write_enabled
    if not enabled or not session.flag(_ADAPTIVE, default=True):
        return rows
    return _rebalanced(rows, partition_columns, bin_bytes(session))


def bin_bytes(session: SessionSettings) -> int:
    """The size of the rows that go into one file, as the shuffle counts it. Raises `InvalidOptionError`."""
    text = (session.setting(BIN_SIZE_SETTING) or _BIN_SIZE_DEFAULT).strip()
    try:
        return parse_bytes(f"{text}m" if text.isdecimal() else text)
    except ValueError:
        problem = "it must be a number of mebibytes, or a size such as 64m or 1g"
        raise InvalidOptionError(option=BIN_SIZE_SETTING, value=text, problem=problem) from None


def _rebalanced(rows: DataFrame, partition_columns: Sequence[str], size_bytes: int) -> DataFrame:
    """The rows shuffled as by the hint REBALANCE, in which no size can be written."""
    spark = rows.sparkSession
    jvm: Any = spark._jvm
    frame: Any = rows._jdf
    plan = frame.logicalPlan()
    output = frame.queryExecution().analyzed().output()
    chosen = jvm.java.util.ArrayList()
    for name in partition_columns:
        chosen.add(output.apply(rows.columns.index(name)))
    size = jvm.scala.jdk.javaapi.OptionConverters.toScala(jvm.java.util.OptionalLong.of(size_bytes))
    expressions = jvm.scala.jdk.javaapi.CollectionConverters.asScala(chosen).toList()
    rebalance = jvm.org.apache.spark.sql.catalyst.plans.logical.RebalancePartitions
    together = rebalance(expressions, plan, jvm.scala.Option.empty(), size)
    session: Any = spark._jsparkSession
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(session, together), spark)
