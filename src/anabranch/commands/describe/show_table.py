"""SHOW TBLPROPERTIES, SHOW COLUMNS, SHOW PARTITIONS and DESCRIBE TABLE, with the columns of Spark's statements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType

from anabranch.commands.definition.clustering import clustering_columns
from anabranch.commands.read.read_table import read
from anabranch.commands.table_access import TableRef
from anabranch.errors.maintenance import ShowPartitionsColumnError
from anabranch.errors.schema import InvalidPartitioningError
from anabranch.protocol.data_paths import partition_path
from anabranch.protocol.properties import CONSTRAINT_PREFIX
from anabranch.schema.computed_columns import (
    CURRENT_DEFAULT,
    GENERATION_EXPRESSION,
    IDENTITY_ALLOW_EXPLICIT,
    IDENTITY_START,
    IDENTITY_STEP,
)
from anabranch.schema.logical_types import length_limits
from anabranch.schema.paths import ELEMENT, KEY, VALUE, FieldPath, quote, quoted
from anabranch.snapshot.snapshot import Snapshot

_TEXT = StringType()
PARTITION_SCHEMA = StructType([StructField("partition", _TEXT, False)])


def show_partitions(table: TableRef, values: Mapping[str, Column] | None = None) -> DataFrame:
    """The distinct values of the partition columns, or those of the partitions that have `values`.

    Raises `InvalidPartitioningError` for a table without partitions, `ShowPartitionsColumnError`.
    """
    columns = table.latest().partition_columns
    if not columns:
        raise InvalidPartitioningError(table=table.label, columns=(), reason="it is not partitioned")
    spelling = {name.lower(): name for name in columns}
    frame = read(table)
    for name, value in (values or {}).items():
        if name.lower() not in spelling:
            reason = f"its partition columns are {', '.join(columns)}"
            raise ShowPartitionsColumnError(table=table.label, columns=(name,), reason=reason)
        frame = frame.where(F.col(quote(spelling[name.lower()])).eqNullSafe(value))
    return frame.select(*(F.col(quote(name)) for name in columns)).distinct()


def show_partitions_as_hive(table: TableRef, values: Mapping[str, Column] | None = None) -> DataFrame:
    """The partitions in Hive's form, one text for each: `day=2026-01-01/kind=a`. Raises as `show_partitions` does."""
    frame = show_partitions(table, values)
    texts = frame.select(*(F.col(quote(name)).cast("string").alias(name) for name in frame.columns)).collect()
    paths = sorted(partition_path(row.asDict()) for row in texts)
    return table.session.spark.createDataFrame([(path,) for path in paths], PARTITION_SCHEMA)


# SHOW CREATE TABLE: a statement that makes a table like this one.


SCHEMA = StructType([StructField("createtab_stmt", StringType(), False)])
_OF_THIS_TABLE = (
    "delta.columnMapping.maxColumnId",
    "delta.rowTracking.materializedRowIdColumnName",
    "delta.rowTracking.materializedRowCommitVersionColumnName",
    "delta.inCommitTimestampEnablementVersion",
    "delta.inCommitTimestampEnablementTimestamp",
)


def show_create_table(table: TableRef) -> DataFrame:
    """One row with one statement."""
    return table.session.spark.createDataFrame([(create_statement(table),)], SCHEMA)


def create_statement(table: TableRef) -> str:
    """The table's definition as SQL that `spark.sql` runs."""
    snapshot = table.latest()
    name = table.entry.full_name.quoted if table.entry else table.label
    elements = [*map(_column, snapshot.schema.fields), *_constraints(snapshot)]
    return "\n".join(
        [f"CREATE TABLE {name} (", ",\n".join(f"  {element}" for element in elements) + ")", *_clauses(table)]
    )


def _clauses(table: TableRef) -> Iterator[str]:
    snapshot = table.latest()
    yield "USING delta"
    if snapshot.partition_columns:
        yield f"PARTITIONED BY ({', '.join(quoted([name]) for name in snapshot.partition_columns)})"
    if clusters := clustering_columns(snapshot):
        yield f"CLUSTER BY ({', '.join(quoted(path) for path in clusters)})"
    if snapshot.metadata.description:
        yield f"COMMENT {_string(snapshot.metadata.description)}"
    if table.entry is not None and not table.entry.is_managed:
        yield f"LOCATION {_string(table.path)}"
    shown = {
        key: value
        for key, value in snapshot.shown_properties().items()
        if key not in _OF_THIS_TABLE and not key.startswith(CONSTRAINT_PREFIX)
    }
    pairs = [f"  {_string(key)} = {_string(value)}" for key, value in sorted(shown.items())]
    yield "TBLPROPERTIES (\n" + ",\n".join(pairs) + ")"


def _constraints(snapshot: Snapshot) -> Iterator[str]:
    for name, expression in sorted(snapshot.properties.constraints.items()):
        yield f"CONSTRAINT {quoted([name])} CHECK ({expression})"


def _column(field: StructField) -> str:
    metadata = field.metadata
    parts = [quoted([field.name]), sql_type(field.dataType, _limits(field), (field.name,))]
    if not field.nullable:
        parts.append("NOT NULL")
    if GENERATION_EXPRESSION in metadata:
        parts.append(f"GENERATED ALWAYS AS ({metadata[GENERATION_EXPRESSION]})")
    if IDENTITY_START in metadata:
        how = "BY DEFAULT" if metadata.get(IDENTITY_ALLOW_EXPLICIT) else "ALWAYS"
        numbers = f"START WITH {metadata[IDENTITY_START]} INCREMENT BY {metadata.get(IDENTITY_STEP, 1)}"
        parts.append(f"GENERATED {how} AS IDENTITY ({numbers})")
    if CURRENT_DEFAULT in metadata:
        parts.append(f"DEFAULT {metadata[CURRENT_DEFAULT]}")
    if "comment" in metadata:
        parts.append(f"COMMENT {_string(metadata['comment'])}")
    return " ".join(parts)


def sql_type(kind: DataType, limits: Mapping[FieldPath, str] = MappingProxyType({}), at: FieldPath = ()) -> str:
    """The type as SQL, with quoted names of fields; `limits` are the declared types of CHAR and VARCHAR, by path."""
    if isinstance(kind, StructType):
        return f"STRUCT<{', '.join(_field(field, limits, (*at, field.name)) for field in kind.fields)}>"
    if isinstance(kind, ArrayType):
        return f"ARRAY<{sql_type(kind.elementType, limits, (*at, ELEMENT))}>"
    if isinstance(kind, MapType):
        key = sql_type(kind.keyType, limits, (*at, KEY))
        return f"MAP<{key}, {sql_type(kind.valueType, limits, (*at, VALUE))}>"
    return limits.get(at, kind.simpleString().upper())


def _field(field: StructField, limits: Mapping[FieldPath, str], at: FieldPath) -> str:
    not_null = "" if field.nullable else " NOT NULL"
    comment = f" COMMENT {_string(field.metadata['comment'])}" if "comment" in field.metadata else ""
    return f"{quoted([field.name])}: {sql_type(field.dataType, limits, at)}{not_null}{comment}"


def _limits(field: StructField) -> dict[FieldPath, str]:
    """The types of strings that were declared with a length."""
    return {limit.path: limit.declared.upper() for limit in length_limits(StructType([field]))}


def _string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
