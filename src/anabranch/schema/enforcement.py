"""Whether a DataFrame fits a table, and how to make it fit."""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StructField, StructType

from anabranch.errors.schema import (
    ColumnNotFoundError,
    IdentityInsertError,
    MissingColumnsError,
    MissingFieldsError,
    MissingNotNullColumnsError,
    MissingPartitionColumnsError,
)
from anabranch.errors.tables import EmptyTableSchemaError
from anabranch.schema.casts import Casting, Conversion, Keep, conversion, fits_by_name, named_by_position
from anabranch.schema.computed_columns import (
    CURRENT_DEFAULT,
    GENERATION_EXPRESSION,
    IDENTITY_ALLOW_EXPLICIT,
    IDENTITY_START,
)
from anabranch.schema.logical_types import DECLARED_TYPE, LengthLimit, check_no_intervals, check_storable, length_limits
from anabranch.schema.names import check_duplicates, check_partitioning, partition_columns_of
from anabranch.schema.paths import (
    ELEMENT,
    KEY,
    VALUE,
    FieldPath,
    as_nullable,
    child,
    find,
    fold,
    not_null_paths,
    not_null_paths_inside,
    positions,
    quoted,
)
from anabranch.schema.schema_evolution import MergeRules, merge_schemas, record_type_changes, visible_schema
from anabranch.schema.serialization import check_types
from anabranch.schema.write_rules import RowRule, WriteRules, row_rules

LEFT_TO_TABLE = "anabranch.default"
"""Metadata key of a field of the data whose values are the keyword DEFAULT, so that the table fills the column."""
PLANS_KEPT_MAX = 64


class Fill(enum.Enum):
    """How a column that the data lacks is filled."""

    NULL = "null"
    DEFAULT = "default"
    GENERATED = "generated"
    IDENTITY = "identity"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPlan:
    """Where the values of one column of the table come from."""

    target: StructField
    """The column in the table's schema after the write, under its logical name."""
    source_index: int | None
    """The position of the DataFrame's column, which is unique also where names are not; None if it has none."""
    conversion: Conversion
    fill: Fill | None = None
    """Set if `source_index` is None, unless the keyword DEFAULT means NULL.

    With a source it is IDENTITY and replaces NULLs of the source: rows that were in the table keep their numbers, new
    ones get one.
    """
    expression: str | None = None
    """SQL, not to be trusted: the default or generated value to fill in, or the one that a written value must equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan:
    """How the rows of a DataFrame become rows of the table.

    1. `columns` follows `schema`, without the void columns, which files never hold.
    2. `schema` equals the table's unless `schema_changed`; new columns then carry no ids yet.
    """

    schema: StructType
    schema_changed: bool
    columns: tuple[ColumnPlan, ...]
    casting: Casting
    """How casts treat values that do not fit: LEGACY turns them into others, else the write fails."""
    not_null_paths: tuple[FieldPath, ...]
    """Paths that allow no nulls: columns, fields of structs, which a null struct violates too, and values inside arrays
    and maps."""
    length_limits: tuple[LengthLimit, ...]
    row_rules: tuple[RowRule, ...]
    """CHECK constraints and invariants."""
    partition_columns: frozenset[str] = frozenset()
    """Files have their values as names of directories, in which an empty string is NULL."""

    @property
    def generates_identity(self) -> frozenset[str]:
        """The identity columns for which the write generates values, so that their high-water mark may move."""
        return frozenset(plan.target.name for plan in self.columns if plan.fill is Fill.IDENTITY)

    @property
    def checks_rows(self) -> bool:
        """Whether a row may break a rule, or have another value for a generated column than the computed one."""
        compared = (column.expression is not None and column.source_index is not None for column in self.columns)
        return bool(self.row_rules or self.not_null_paths) or any(compared)

    def stores_as_is(self, column: ColumnPlan) -> bool:
        """Whether files have the column's values as the data has them, or as a cast leaves them."""
        target = column.target
        is_partition = target.name in self.partition_columns
        return column.fill is None and not is_partition and DECLARED_TYPE not in target.metadata

    @property
    def is_plain(self) -> bool:
        """Whether no value is generated, converted or checked; only the order of columns may differ."""
        return (
            not (self.schema_changed or self.not_null_paths or self.length_limits or self.row_rules)
            and all(isinstance(plan.conversion, Keep) for plan in self.columns)
            and all(plan.fill is None and plan.expression is None for plan in self.columns)
        )


def plan_write(
    data: StructType,
    table_schema: StructType,
    rules: WriteRules,
    *,
    table: str,
    constraints: Mapping[str, str],
    partition_columns: Sequence[str] = (),
    requested_partitioning: Sequence[str] = (),
) -> WritePlan:
    """How to write a DataFrame of schema `data` into an existing table.

    `constraints` are the table's CHECK constraints, from `TableProperties.constraints`. Raises SchemaMismatchError
    and related errors, which name all columns at fault.
    """
    if rules.overwrite_schema:
        return plan_new_schema(data, table=table, constraints=constraints, partition_columns=requested_partitioning)
    planned = _planned if rules.merge_schema else _planned_once
    return planned(
        _with_table_names(data, table_schema) if rules.by_position else data,
        table_schema,
        rules,
        is_named_alike=not rules.by_position or _is_named_alike(data, table_schema),
        table=table,
        constraints=tuple(constraints.items()),
        partition_columns=tuple(partition_columns),
        requested_partitioning=tuple(requested_partitioning),
    )


def _planned(
    data: StructType,
    table_schema: StructType,
    rules: WriteRules,
    *,
    is_named_alike: bool,
    table: str,
    constraints: tuple[tuple[str, str], ...],
    partition_columns: tuple[str, ...],
    requested_partitioning: tuple[str, ...],
) -> WritePlan:
    check_no_intervals(table_schema, table=table)
    check_types(data, table)
    check_partitioning(requested_partitioning, partition_columns, table=table, overwriting=rules.overwriting)
    named = _named_for(data, table_schema, rules, table, is_named_alike=is_named_alike)
    provided = StructType([field for field in named.fields if LEFT_TO_TABLE not in field.metadata])
    schema = _evolved_schema(table_schema, provided, rules, table)
    check_storable(schema, table=table)
    columns = tuple(_columns(data, named, schema, numbers_nulls=rules.includes_new_rows))
    _check_filled(columns, partition_columns, rules, table)
    _check_nested_filled(provided, schema, table)
    if rules.lacking_fields is not None:
        _check_fields_present(provided, schema, rules.lacking_fields, table)
    if not rules.rows_of_table:
        _check_identity(columns, table)
    checks = row_rules(schema, dict(constraints), table=table)
    changed = schema != table_schema
    return _plan(schema, columns, rules.casting, checks, partition_columns=partition_columns, changed=changed)


_planned_once = functools.lru_cache(maxsize=PLANS_KEPT_MAX)(_planned)
"""For writes that leave the schema as it is: most repeat an earlier one. The cache takes 1 for True in the metadata of
fields, which is wrong for a schema that is written to the log."""


def plan_new_schema(
    data: StructType, *, table: str, constraints: Mapping[str, str], partition_columns: Sequence[str] = ()
) -> WritePlan:
    """How to write a DataFrame into a table that takes its schema from it: a new one, or `overwriteSchema`.

    Nulls are allowed everywhere, since a DataFrame does not guarantee its nullability.
    """
    if not data.fields:
        raise EmptyTableSchemaError(table=table)
    check_types(data, table)
    check_duplicates(data, where="the data", table=table)
    schema = as_nullable(visible_schema(data))
    partitions = partition_columns_of(schema, partition_columns, table=table)
    check_storable(schema, table=table)
    checks = row_rules(schema, constraints, table=table)
    columns = tuple(_columns(data, data, schema))
    return _plan(schema, columns, Casting.NONE, checks, partition_columns=partitions, changed=True)


def fill_of(field: StructField) -> tuple[Fill, str | None]:
    """How a top-level column that data lacks is filled, with the SQL expression if there is one."""
    metadata = field.metadata
    if isinstance(metadata.get(GENERATION_EXPRESSION), str):
        return Fill.GENERATED, metadata[GENERATION_EXPRESSION]
    if IDENTITY_START in metadata:
        return Fill.IDENTITY, None
    if isinstance(metadata.get(CURRENT_DEFAULT), str):
        return Fill.DEFAULT, metadata[CURRENT_DEFAULT]
    return Fill.NULL, None


def _is_named_alike(data: StructType, table_schema: StructType) -> bool:
    """Whether columns at the same position have the same name. The keyword DEFAULT has every name."""
    pairs = zip(data.fields, table_schema.fields, strict=False)
    return all(field.name == target.name or LEFT_TO_TABLE in field.metadata for field, target in pairs)


def _with_table_names(data: StructType, table_schema: StructType) -> StructType:
    """`data` with the table's names, position by position: a plan does not depend on what a query calls its values."""
    pairs = zip(data.fields, table_schema.fields, strict=False)
    named = [StructField(target.name, field.dataType, field.nullable, field.metadata) for field, target in pairs]
    return StructType([*named, *data.fields[len(named) :]])


def _named_for(
    data: StructType, table_schema: StructType, rules: WriteRules, table: str, *, is_named_alike: bool
) -> StructType:
    """`data` with names that can be looked up in the table."""
    if rules.by_position:
        fits = is_named_alike and _fits_by_name(data, table_schema, rules)
        return data if fits else named_by_position(data, table_schema, table=table)
    for name in data.fieldNames() if rules.exact_case else ():
        match = child(table_schema, name)
        if match is not None and match.name != name:
            raise ColumnNotFoundError(table=table, column=quoted([name]), available=tuple(table_schema.fieldNames()))
    return data


def _fits_by_name(data: StructType, table_schema: StructType, rules: WriteRules) -> bool:
    pairs = zip(data.fields, table_schema.fields, strict=False)
    columns = StructType([target if LEFT_TO_TABLE in field.metadata else field for field, target in pairs])
    return fits_by_name(columns, table_schema, functools.partial(rules.widening.allows, iceberg=rules.iceberg))


def _evolved_schema(table_schema: StructType, named: StructType, rules: WriteRules, table: str) -> StructType:
    """The table's schema after the write. Raises the errors of `rules` for columns and types that it refuses."""
    where = "the data, taken by position," if rules.by_position else "the data"
    check_duplicates(named, where=where, table=table)
    merge_rules = MergeRules(widening=rules.widening, iceberg=rules.iceberg, casting=rules.casting)
    merged = merge_schemas(table_schema, as_nullable(visible_schema(named)), merge_rules)
    refused = {} if rules.merge_schema else merged.added
    if merged.conflicts:
        retyped = {} if rules.merge_schema else merged.retyped
        raise rules.incompatible(
            table=table, extra=refused, mismatched={**merged.conflicts, **retyped}, overwriting=rules.overwriting
        )
    if not rules.merge_schema and (merged.added or merged.retyped):
        raise rules.unknown(table=table, extra=refused, mismatched=merged.retyped, overwriting=rules.overwriting)
    if rules.records_type_changes and merged.retyped:
        return record_type_changes(merged.schema, table_schema)
    return merged.schema


def _columns(
    data: StructType, named: StructType, schema: StructType, *, numbers_nulls: bool = False
) -> Iterator[ColumnPlan]:
    """A plan for each column that files hold. `named` is `data` with the table's names, position by position."""
    indices = positions(named)
    for target in schema.fields:
        if isinstance(target.dataType, NullType):
            continue
        fill, expression = fill_of(target)
        index = indices.get(fold(target.name))
        if index is None or LEFT_TO_TABLE in data.fields[index].metadata:
            # The keyword DEFAULT means NULL for a column without a default.
            used = None if index is not None and fill is Fill.NULL else fill
            yield ColumnPlan(target=target, source_index=None, conversion=Keep(), fill=used, expression=expression)
            continue
        yield ColumnPlan(
            target=target,
            source_index=index,
            conversion=conversion(data.fields[index].dataType, target.dataType, named=named.fields[index].dataType),
            fill=Fill.IDENTITY if numbers_nulls and fill is Fill.IDENTITY else None,
            expression=expression if fill is Fill.GENERATED else None,
        )


def _check_filled(
    columns: Sequence[ColumnPlan], partition_columns: Sequence[str], rules: WriteRules, table: str
) -> None:
    missing = [plan.target for plan in columns if plan.fill is Fill.NULL]
    required = tuple(field.name for field in missing if not field.nullable)
    if required:
        raise MissingNotNullColumnsError(table=table, columns=required, reason="no nulls are allowed there")
    if not rules.nulls_for_missing and missing:
        names = tuple(field.name for field in missing)
        raise MissingColumnsError(table=table, columns=names, reason="there is no default to use")
    partitions = {fold(name) for name in partition_columns}
    keys = tuple(field.name for field in missing if fold(field.name) in partitions)
    if keys and not rules.fills_partitions:
        raise MissingPartitionColumnsError(table=table, columns=keys, reason="the table is partitioned by it")


def _check_nested_filled(named: StructType, schema: StructType, table: str) -> None:
    """Refuse structs of the data that lack a field which allows no nulls: it cannot be filled.

    Data of type void for the struct lacks no field; its rows are refused like all rows with a NULL where none may be.
    """
    missing = tuple(
        quoted(path)
        for path in not_null_paths(schema)
        if len(path) > 1 and find(named, path) is None and not _is_void_above(named, path)
    )
    if missing:
        raise MissingNotNullColumnsError(table=table, columns=missing, reason="no nulls are allowed there")


def _is_void_above(named: StructType, path: FieldPath) -> bool:
    """Whether the data has no struct above `path`: it lacks the column, or has void in its place."""
    parents = [find(named, path[:length]) for length in range(1, len(path))]
    return parents[0] is None or any(field is not None and isinstance(field.dataType, NullType) for field in parents)


def _check_fields_present(named: StructType, schema: StructType, error: type[MissingFieldsError], table: str) -> None:
    """Refuse structs of the data that lack fields of the table's structs, inside arrays and maps too."""
    pairs = [(child(named, field.name), field) for field in schema.fields]
    missing = tuple(
        quoted(path)
        for data_field, field in pairs
        if data_field is not None
        for path in _fields_lacking(data_field.dataType, field.dataType, (field.name,))
    )
    if missing:
        raise error(table=table, columns=missing)


def _fields_lacking(data: DataType, target: DataType, path: FieldPath) -> Iterator[FieldPath]:
    if isinstance(data, StructType) and isinstance(target, StructType):
        for field in target.fields:
            data_field, field_path = child(data, field.name), (*path, field.name)
            if data_field is not None:
                yield from _fields_lacking(data_field.dataType, field.dataType, field_path)
            elif not isinstance(field.dataType, NullType):
                yield field_path
    elif isinstance(data, ArrayType) and isinstance(target, ArrayType):
        yield from _fields_lacking(data.elementType, target.elementType, (*path, ELEMENT))
    elif isinstance(data, MapType) and isinstance(target, MapType):
        yield from _fields_lacking(data.keyType, target.keyType, (*path, KEY))
        yield from _fields_lacking(data.valueType, target.valueType, (*path, VALUE))


def _check_identity(columns: Sequence[ColumnPlan], table: str) -> None:
    for plan in columns:
        metadata = plan.target.metadata
        if plan.source_index is not None and IDENTITY_START in metadata and not metadata.get(IDENTITY_ALLOW_EXPLICIT):
            raise IdentityInsertError(table=table, column=plan.target.name)


def _plan(
    schema: StructType,
    columns: tuple[ColumnPlan, ...],
    casting: Casting,
    checks: tuple[RowRule, ...],
    *,
    partition_columns: Sequence[str],
    changed: bool,
) -> WritePlan:
    return WritePlan(
        schema=schema,
        schema_changed=changed,
        columns=columns,
        casting=casting,
        not_null_paths=(*not_null_paths(schema), *not_null_paths_inside(schema)),
        length_limits=tuple(length_limits(schema)),
        row_rules=checks,
        partition_columns=frozenset(partition_columns),
    )
