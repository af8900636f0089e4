"""The rules of each way of writing into a table.

The rules follow Delta, API by API: `df.write.save()` needs types that agree, `insertInto` and SQL match by
position and cast, `saveAsTable` and `writeTo` match by name and cast.
"""

from __future__ import annotations

import enum
import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pyspark.sql.types import StructField, StructType

from anabranch.errors.constraints import UncastableValueError, UnknownFieldsError, UnsafeCastError
from anabranch.errors.schema import (
    IncompatibleTypesError,
    MalformedSchemaError,
    MissingFieldsError,
    MissingInsertFieldsError,
    SchemaMismatchError,
)
from anabranch.schema.casts import Casting
from anabranch.schema.paths import FieldPath, quoted
from anabranch.schema.schema_evolution import Widening

_INVARIANTS = "delta.invariants"


class WriteApi(enum.Enum):
    """The API through which data is written; each has its own rules."""

    SAVE = "save"
    SAVE_AS_TABLE = "saveAsTable"
    INSERT_INTO = "insertInto"
    WRITE_TO = "writeTo"
    STREAM = "writeStream"
    SQL_BY_POSITION = "INSERT INTO"
    SQL_BY_NAME = "INSERT INTO BY NAME"
    CHANGED_ROWS = "UPDATE"
    """Changed rows of the table itself."""
    MERGED_ROWS = "MERGE"
    """Changed rows of the table itself, and new ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRules:
    """How one write matches columns and what it may change."""

    by_position: bool
    casting: Casting
    nulls_for_missing: bool
    """Columns that the data lacks become null, where they are nullable."""
    overwriting: bool
    """The write replaces data, so messages may offer `overwriteSchema`."""
    merge_schema: bool
    overwrite_schema: bool
    lacking_fields: type[MissingFieldsError] | None
    """The error for fields that the data's structs lack; None where they become null."""
    fills_partitions: bool
    """SQL fills partition columns that the data lacks like other columns; a DataFrame must have them."""
    exact_case: bool = False
    """A column whose name differs from the table's by case is a mistake, not a match."""
    incompatible: type[IncompatibleTypesError] = IncompatibleTypesError
    """The error for types that do not fit each other."""
    unknown: type[SchemaMismatchError] = SchemaMismatchError
    """The error for columns and fields that the table lacks."""
    rows_of_table: bool = False
    """The data are rows of the table, so identity columns have their numbers."""
    includes_new_rows: bool = False
    """A row whose number is NULL is new and gets one."""
    widening: Widening = Widening.NONE
    records_type_changes: bool = False
    iceberg: bool = False


@functools.cache
def rules_for(
    api: WriteApi,
    *,
    overwriting: bool,
    merge_schema: bool,
    overwrite_schema: bool,
    policy: Casting = Casting.ANSI,
    case_sensitive: bool = False,
    nulls_for_missing: bool = True,
    fills_fields: bool = True,
    widening: Widening = Widening.NONE,
    records_type_changes: bool | None = None,
    iceberg: bool = False,
) -> WriteRules:
    """The rules of `api` under the settings of a session and a table.

    `policy` is `spark.sql.storeAssignmentPolicy` and `case_sensitive` is `spark.sql.caseSensitive`;
    `nulls_for_missing` is `spark.sql.defaultColumn.useNullsForMissingDefaultValues`. The last two apply to
    `INSERT INTO … BY NAME` alone: everywhere else Delta ignores case and lets columns be left out.
    `widening` says how far a write with `merge_schema` may widen columns of a table with `delta.enableTypeWidening`;
    pass `records_type_changes` where such a table never widens on its own, as other changes must be recorded, too.
    """
    exact = api is WriteApi.SAVE or (api is WriteApi.SAVE_AS_TABLE and overwriting)
    by_name_in_sql = api is WriteApi.SQL_BY_NAME
    of_table = api in {WriteApi.CHANGED_ROWS, WriteApi.MERGED_ROWS}
    by_position = api in {WriteApi.INSERT_INTO, WriteApi.SQL_BY_POSITION}
    uncastable = UnsafeCastError if policy is Casting.STRICT else UncastableValueError
    return WriteRules(
        by_position=by_position,
        incompatible=uncastable if (by_position or of_table) and not merge_schema else IncompatibleTypesError,
        casting=Casting.NONE if exact else policy,
        unknown=UnknownFieldsError if of_table else SchemaMismatchError,
        nulls_for_missing=nulls_for_missing or not by_name_in_sql,
        lacking_fields=MissingInsertFieldsError if by_name_in_sql else None if fills_fields else MissingFieldsError,
        fills_partitions=by_name_in_sql or of_table,
        rows_of_table=of_table,
        includes_new_rows=api is WriteApi.MERGED_ROWS,
        overwriting=overwriting,
        merge_schema=merge_schema,
        overwrite_schema=overwrite_schema and overwriting,
        exact_case=case_sensitive and by_name_in_sql,
        widening=widening if merge_schema else Widening.NONE,
        records_type_changes=widening is not Widening.NONE if records_type_changes is None else records_type_changes,
        iceberg=iceberg,
    )


# Conditions that every row of a table satisfies: CHECK constraints, and invariants of columns.
#
# Implements "CHECK Constraints" and "Column Invariants" of PROTOCOL.md.


@dataclass(frozen=True, slots=True, kw_only=True)
class RowRule:
    """A condition that must be true, neither false nor NULL, for every row that is written."""

    owner: str
    """The name of the rule in messages, such as "CHECK constraint positive"."""
    expression: str
    """SQL of the table's metadata; not to be trusted."""


def row_rules(schema: StructType, constraints: Mapping[str, str], *, table: str = "the table") -> tuple[RowRule, ...]:
    """The conditions that all rows of a table satisfy.

    `constraints` is SQL by name, from `TableProperties.constraints`. Raises MalformedSchemaError for an invariant that
    has no SQL expression.
    """
    checks = [RowRule(owner=check_owner(name), expression=sql) for name, sql in sorted(constraints.items())]
    return (*checks, *_invariants(schema, (), table))


def check_owner(name: str) -> str:
    """The name of a CHECK constraint in messages."""
    return f"CHECK constraint {name}"


def _invariants(struct: StructType, parent: FieldPath, table: str) -> Iterator[RowRule]:
    """The invariants of columns and fields of structs. The protocol defines none inside arrays and maps."""
    for field in struct.fields:
        path = (*parent, field.name)
        if _INVARIANTS in field.metadata:
            yield RowRule(
                owner=f"invariant of column {quoted(path)}", expression=_invariant(field, quoted(path), table)
            )
        if isinstance(field.dataType, StructType):
            yield from _invariants(field.dataType, path, table)


def _invariant(field: StructField, path: str, table: str) -> str:
    text = field.metadata[_INVARIANTS]
    try:
        expression = json.loads(text)["expression"]["expression"]
    except (ValueError, TypeError, KeyError, RecursionError):
        expression = None
    if not isinstance(expression, str):
        reason = f"{_INVARIANTS} is {text!r}, which contains no expression"
        raise MalformedSchemaError(table=table, field=path, reason=reason)
    return expression
