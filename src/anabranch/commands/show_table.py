"""SHOW TBLPROPERTIES, SHOW COLUMNS, SHOW PARTITIONS and DESCRIBE TABLE, with the columns of Spark's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import StringType, StructField, StructType

from anabranch.commands.clustering import clustering_columns
from anabranch.commands.read import read
from anabranch.commands.table_access import TableHandle
from anabranch.errors.schema import ColumnNotFoundError, InvalidPartitioningError
from anabranch.protocol.features import supported_features
from anabranch.schema.char_varchar import DECLARED_TYPE
from anabranch.schema.paths import FieldPath, child, find, quoted
from anabranch.schema.visibility import visible_schema
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.table_identifiers import quote

_TEXT = StringType()
PROPERTIES_SCHEMA = StructType([StructField("key", _TEXT, False), StructField("value", _TEXT, False)])
COLUMNS_SCHEMA = StructType([StructField("col_name", _TEXT, False)])
DESCRIPTION_SCHEMA = StructType(
    [StructField("col_name", _TEXT, False), StructField("data_type", _TEXT, False), StructField("comment", _TEXT)]
)
COLUMN_SCHEMA = StructType([StructField("info_name", _TEXT, False), StructField("info_value", _TEXT, False)])

Line = tuple[str, str, str | None]
_BLANK: Line = ("", "", "")


def show_properties(handle: TableHandle, key: str | None = None) -> DataFrame:
    """The table's properties, one a row; with `key` that one, or a row that says there is none."""
    found = properties_of(handle.latest())
    if key is not None:
        found = {key: found.get(key, f"Table {handle.label} does not have property: {key}")}
    return handle.session.spark.createDataFrame(sorted(found.items()), PROPERTIES_SCHEMA)


def properties_of(snapshot: Snapshot) -> dict[str, str]:
    """The properties, and the protocol as if it were some."""
    stored = {name: value for name, value in snapshot.metadata.configuration.items() if value is not None}
    protocol = snapshot.protocol
    stored["delta.minReaderVersion"] = str(protocol.min_reader_version)
    stored["delta.minWriterVersion"] = str(protocol.min_writer_version)
    if protocol.writer_features is not None:
        stored |= {f"delta.feature.{name}": "supported" for name in supported_features(protocol)}
    return stored


def show_columns(handle: TableHandle) -> DataFrame:
    """The names of the table's columns."""
    rows = [(name,) for name in handle.latest().schema.fieldNames()]
    return handle.session.spark.createDataFrame(rows, COLUMNS_SCHEMA)


def show_partitions(handle: TableHandle, values: Mapping[str, Column] | None = None) -> DataFrame:
    """Each combination of values that the partition columns have; of those that have `values` alone.

    Raises `InvalidPartitioningError` for a table without partitions, and for a column that is no partition column.
    """
    columns = handle.latest().partition_columns
    if not columns:
        raise InvalidPartitioningError(table=handle.label, columns=(), reason="it is not partitioned")
    known = {name.lower(): name for name in columns}
    frame = read(handle)
    for name, value in (values or {}).items():
        if name.lower() not in known:
            reason = f"its partition columns are {', '.join(columns)}"
            raise InvalidPartitioningError(table=handle.label, columns=(name,), reason=reason)
        frame = frame.where(F.col(quote(known[name.lower()])).eqNullSafe(value))
    return frame.select(*(F.col(quote(name)) for name in columns)).distinct()


def describe_table(handle: TableHandle, *, extended: bool) -> DataFrame:
    """The table's columns; with `extended`, what else there is to say of it."""
    snapshot = handle.latest()
    lines = [*_columns(snapshot), *_partitioning(snapshot)]
    if extended:
        lines += [_BLANK, ("# Detailed Table Information", "", ""), *_details(handle, snapshot)]
    return handle.session.spark.createDataFrame(lines, DESCRIPTION_SCHEMA)


def describe_column(handle: TableHandle, path: FieldPath) -> DataFrame:
    """Name, type and comment of one column. Raises `ColumnNotFoundError`."""
    schema = visible_schema(handle.latest().schema)
    field = find(schema, path)
    if field is None:
        available = tuple(schema.fieldNames())
        raise ColumnNotFoundError(table=handle.label, column=quoted(path), available=available)
    comment = field.metadata.get("comment")
    rows = [("col_name", field.name), ("data_type", _type(field)), ("comment", "NULL" if comment is None else comment)]
    return handle.session.spark.createDataFrame(rows, COLUMN_SCHEMA)


def _columns(snapshot: Snapshot) -> Iterator[Line]:
    for field in visible_schema(snapshot.schema).fields:
        yield field.name, _type(field), field.metadata.get("comment")


def _type(field: StructField) -> str:
    declared = field.metadata.get(DECLARED_TYPE)
    return declared if isinstance(declared, str) else field.dataType.simpleString()


def _partitioning(snapshot: Snapshot) -> Iterator[Line]:
    partitions = [(name,) for name in snapshot.partition_columns]
    clusters = clustering_columns(snapshot)
    for title, paths in (("# Partition Information", partitions), ("# Clustering Information", clusters)):
        if paths:
            yield title, "", ""
            yield "# col_name", "data_type", "comment"
        for path in paths:
            field = child(snapshot.schema, path[0]) if len(path) == 1 else find(snapshot.schema, tuple(path))
            assert field is not None
            yield quoted(path) if len(path) > 1 else field.name, _type(field), field.metadata.get("comment")


def _details(handle: TableHandle, snapshot: Snapshot) -> Iterator[Line]:
    yield "Name", str(handle.entry.name) if handle.entry else handle.label, ""
    if handle.entry is not None:
        yield "Type", "MANAGED" if handle.entry.is_managed else "EXTERNAL", ""
    if snapshot.metadata.description:
        yield "Comment", snapshot.metadata.description, ""
    yield "Location", handle.path if ":" in handle.path else f"file:{handle.path}", ""
    yield "Provider", "delta", ""
    properties = ",".join(f"{key}={value}" for key, value in sorted(properties_of(snapshot).items()))
    yield "Table Properties", f"[{properties}]", ""
