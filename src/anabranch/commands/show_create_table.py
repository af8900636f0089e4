"""SHOW CREATE TABLE: a statement that makes a table like this one."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType

from anabranch.commands.clustering import clustering_columns
from anabranch.commands.show_table import properties_of
from anabranch.commands.table_access import TableHandle
from anabranch.protocol.properties import CONSTRAINT_PREFIX
from anabranch.schema.char_varchar import DECLARED_TYPE
from anabranch.schema.paths import quoted
from anabranch.schema.visibility import (
    CURRENT_DEFAULT,
    GENERATION_EXPRESSION,
    IDENTITY_ALLOW_EXPLICIT,
    IDENTITY_START,
    IDENTITY_STEP,
)
from anabranch.snapshot.snapshot import Snapshot

SCHEMA = StructType([StructField("createtab_stmt", StringType(), False)])
_OF_THIS_TABLE = (
    "delta.columnMapping.maxColumnId",
    "delta.rowTracking.materializedRowIdColumnName",
    "delta.rowTracking.materializedRowCommitVersionColumnName",
    "delta.inCommitTimestampEnablementVersion",
    "delta.inCommitTimestampEnablementTimestamp",
)


def show_create_table(handle: TableHandle) -> DataFrame:
    """One row with one statement."""
    return handle.session.spark.createDataFrame([(create_statement(handle),)], SCHEMA)


def create_statement(handle: TableHandle) -> str:
    """The table's definition as SQL that `spark.sql` takes."""
    snapshot = handle.latest()
    name = f"spark_catalog.{handle.entry.name.quoted}" if handle.entry else handle.label
    elements = [*map(_column, snapshot.schema.fields), *_constraints(snapshot)]
    return "\n".join([f"CREATE TABLE {name} (", ",\n".join(f"  {each}" for each in elements) + ")", *_clauses(handle)])


def _clauses(handle: TableHandle) -> Iterator[str]:
    snapshot = handle.latest()
    yield "USING delta"
    if snapshot.partition_columns:
        yield f"PARTITIONED BY ({', '.join(quoted([name]) for name in snapshot.partition_columns)})"
    if clusters := clustering_columns(snapshot):
        yield f"CLUSTER BY ({', '.join(quoted(path) for path in clusters)})"
    if snapshot.metadata.description:
        yield f"COMMENT {_string(snapshot.metadata.description)}"
    if handle.entry is not None and not handle.entry.is_managed:
        yield f"LOCATION {_string(handle.path)}"
    shown = {
        key: value
        for key, value in properties_of(snapshot).items()
        if key not in _OF_THIS_TABLE and not key.startswith(CONSTRAINT_PREFIX)
    }
    pairs = [f"  {_string(key)} = {_string(value)}" for key, value in sorted(shown.items())]
    yield "TBLPROPERTIES (\n" + ",\n".join(pairs) + ")"


def _constraints(snapshot: Snapshot) -> Iterator[str]:
    for name, expression in sorted(snapshot.properties.constraints.items()):
        yield f"CONSTRAINT {quoted([name])} CHECK ({expression})"


def _column(field: StructField) -> str:
    metadata = field.metadata
    declared = metadata.get(DECLARED_TYPE)
    parts = [quoted([field.name]), declared if isinstance(declared, str) else _type(field.dataType)]
    if not field.nullable and IDENTITY_START not in metadata:
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


def _type(kind: DataType) -> str:
    if isinstance(kind, StructType):
        return f"STRUCT<{', '.join(map(_field, kind.fields))}>"
    if isinstance(kind, ArrayType):
        return f"ARRAY<{_type(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"MAP<{_type(kind.keyType)}, {_type(kind.valueType)}>"
    return kind.simpleString().upper()


def _field(field: StructField) -> str:
    not_null = "" if field.nullable else " NOT NULL"
    comment = f" COMMENT {_string(field.metadata['comment'])}" if "comment" in field.metadata else ""
    return f"{quoted([field.name])}: {_type(field.dataType)}{not_null}{comment}"


def _string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
