"""CONVERT TO DELTA: a folder of Parquet files becomes a Delta table in place, by one commit that adds the files."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import StructType

from anabranch.commands.convert.convert_files import (
    FooterFiles,
    ParquetFile,
    SchemaKey,
    file_schemas,
    merged_schema,
    read_by_spark,
)
from anabranch.commands.convert.convert_partitions import with_partition_columns
from anabranch.commands.convert.convert_source import (
    ConvertSource,
    convert_source,
    files_of,
    is_delta_already,
    register_as_delta,
)
from anabranch.commands.create.create_table import check_defined_rules
from anabranch.commands.definition.table_definition import ResolvedDefinition, TableDefinition, define_table
from anabranch.commands.dml.statement import Prepared
from anabranch.commands.table_access import TableRef, one_statement
from anabranch.errors.convert import ConvertPropertyError, UnconvertibleNamesError
from anabranch.progress.progress_events import begin_phase
from anabranch.protocol.actions import AddFile
from anabranch.protocol.data_paths import encode_path, file_root
from anabranch.protocol.properties import TableProperties
from anabranch.protocol.statistics import indexed_columns
from anabranch.schema.names import invalid_names
from anabranch.schema.serialization import parse_schema
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.spark.write.footer_statistics import ForeignFooters
from anabranch.transactions.proposed_commit import Operation

_SETTINGS = "spark.databricks.delta."


def convert_to_delta(
    session: DeltaSession,
    parts: tuple[str, ...],
    *,
    partition_schema: StructType | None = None,
    collects_statistics: bool = True,
) -> TableRef:
    """Make a Delta table of the Parquet table with these name parts. A Delta table is left as it is.

    Raises the errors of `errors.convert` and of schemas and properties, `UnsupportedOperationError`, and
    `ProtocolChangedException` where another program made a table in the folder meanwhile. Files are not changed.
    """
    source = convert_source(session, parts, partition_schema)
    if source.parquet:
        if not is_delta_already(source):
            with (
                one_statement(source.table, "CONVERT"),
                prepare_conversion(source, collects_statistics=collects_statistics) as prepared,
            ):
                prepared.commit()
        register_as_delta(source)
    return source.table


def prepare_conversion(source: ConvertSource, *, collects_statistics: bool) -> Prepared:
    """A conversion that is ready to be committed."""
    table, session = source.table, source.table.session
    with_statistics = collects_statistics and session.flag(f"{_SETTINGS}stats.collect", default=True)
    begin_phase("list files")
    listed = files_of(source)
    footers = FooterFiles(
        table.delta_log.store,
        table=source.label,
        ignores_corrupt_files=session.flag("spark.sql.files.ignoreCorruptFiles", default=False),
    )
    begin_phase("read footers", files=len(listed))
    session.describe_jobs(table.label)
    files = footers.read([file.stored for file in listed])
    root = file_root(table.path).rstrip("/")
    schemas = file_schemas(files, lambda file: read_by_spark(session.spark, f"{root}/{file.path}"), table=source.label)
    data = source.schema if source.schema is not None else merged_schema(files, schemas, table=source.label)
    defined = _definition(source, with_partition_columns(data, source.partition_columns))
    values = {file.stored.path: file.partition_values for file in listed}
    # Files without rows are left out.
    files = [file for file in files if file.num_rows]
    begin_phase("collect statistics", files=len(files))
    texts = _Statistics(defined, schemas).of(files, footers) if with_statistics else [None] * len(files)
    adds = [_add(file, values[file.path], text) for file, text in zip(files, texts, strict=True)]
    operation = Operation(
        name="CONVERT",
        parameters={
            "numFiles": len(adds),
            "partitionedBy": [field.name for field in source.partition_columns],
            "collectStats": with_statistics,
            "catalogTable": source.catalog_name,
            "sourceFormat": "parquet",
        },
    )
    transaction = table.begin_at(operation, snapshot=None)
    # This is no blind append: the rows depend on the contents of the folder.
    transaction.record_whole_table()
    return Prepared(
        transaction,
        [defined.protocol, defined.metadata, *adds],
        num_affected_rows=0,
        metrics={"numConvertedFiles": len(adds)},
    )


def _definition(source: ConvertSource, schema: StructType) -> ResolvedDefinition:
    """The new table. Raises `UnconvertibleNamesError` and `ConvertPropertyError`."""
    table = source.table
    unfit = invalid_names(schema)
    if unfit:
        raise UnconvertibleNamesError(table=source.label, columns=unfit)
    defined = define_table(
        TableDefinition(
            schema=schema,
            partition_columns=tuple(field.name for field in source.partition_columns),
            properties=source.properties,
            description=source.comment,
        ),
        label=source.label,
        session_settings=table.session.all_settings(),
        now_ms=table.session.clock.now_ms(),
        source=table.session.random,
    )
    properties = TableProperties(defined.metadata.configuration)
    if properties.column_mapping_mode != "none":
        mode = properties.column_mapping_mode
        raise ConvertPropertyError(table=source.label, property="delta.columnMapping.mode", value=mode)
    for name, condition in properties.constraints.items():
        # The existing rows have not been checked against it.
        raise ConvertPropertyError(table=source.label, property=f"delta.constraints.{name}", value=condition)
    check_defined_rules(table, defined)
    return defined


class _Statistics:
    """Reads statistics from footers, with one reader for all files of the same columns."""

    def __init__(self, defined: ResolvedDefinition, schemas: Mapping[SchemaKey, StructType]) -> None:
        properties = TableProperties(defined.metadata.configuration)
        schema = parse_schema(defined.metadata.schema_string)
        types = indexed_columns(schema, properties, partition_columns=defined.metadata.partition_columns)
        self._readers = {
            key: ForeignFooters(schema, types=types, string_prefix_length=properties.string_prefix_length)
            for key, schema in schemas.items()
        }

    def of(self, files: list[ParquetFile], footers: FooterFiles) -> list[str]:
        return footers.map(lambda file, footer: self._readers[file.schema_key].statistics(footer).to_json(), files)


def _add(file: ParquetFile, values: Mapping[str, str | None], statistics: str | None) -> AddFile:
    return AddFile(
        path=encode_path(file.path),
        partition_values=dict(values),
        size=file.stored.size_bytes,
        modification_time=file.stored.modified_ms,
        data_change=True,
        stats=statistics,
    )
