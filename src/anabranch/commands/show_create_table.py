"""SHOW CREATE TABLE: a statement that makes a table like this one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType

from anabranch.commands.clustering import clustering_columns
from anabranch.commands.show_table import properties_of
from anabranch.commands.table_access import TableHandle
from anabranch.protocol.properties import CONSTRAINT_PREFIX
from anabranch.schema.char_varchar import length_limits
from anabranch.schema.paths import ELEMENT, KEY, VALUE, FieldPath, quoted
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
    """The type as SQL, with the names of fields in quotes; `limits` are types of strings, by where they are."""
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
