"""The source of a MERGE: evaluated once for the whole statement, and what is known of its values then."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention
from pyspark.sql.types import DataType, NumericType, StringType, StructField, StructType

from anabranch.commands.alter.column_usage import check_types_unused
from anabranch.commands.definition.table_definition import with_schema
from anabranch.commands.dml.assignments import Value
from anabranch.commands.table_access import TableRef
from anabranch.commands.write.write_target import CASE_SENSITIVE_SETTING, automatic_widening, store_assignment
from anabranch.errors.dml import (
    MergeWithoutClauseError,
    UnreachableMatchedClauseError,
    UnreachableMergeClauseError,
    UnreachableNotMatchedBySourceClauseError,
    UnreachableNotMatchedClauseError,
)
from anabranch.errors.schema import IncompatibleTypesError
from anabranch.protocol.actions import Action, Metadata
from anabranch.protocol.iceberg_compat import compat_versions
from anabranch.schema.logical_types import check_writable
from anabranch.schema.merging import MergeRules, merge, visible_schema
from anabranch.schema.names import check_duplicates
from anabranch.schema.paths import FieldPath, as_nullable, fold
from anabranch.schema.serialization import parse_schema
from anabranch.schema.type_widening import record_type_changes
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.conditions.column_names import RowNames
from anabranch.spark.conditions.join_conditions import JoinKey
from anabranch.spark.conditions.repeatable_rows import CachedRows, cache_rows, is_repeatable
from anabranch.spark.session.table_identifiers import split_identifier

VALUES_MAX = 100
"""Rows of a partition of the source up to which single values, not only the smallest and largest, are looked at."""
BROADCAST_BYTES_MAX = 96 << 20
"""A source that is no larger is sent to all executors, so that the table is not shuffled."""
_ROW_OF_PARTITION = (1 << 33) - 1
"""Of `monotonically_increasing_id`: the rest are the partition's."""
_WHOLE_NUMBERS = frozenset({"tinyint", "smallint", "int", "bigint"})
_EPOCH = datetime.date(1970, 1, 1)
_DAYS = range(-719_162, 2_932_897)
"""The days that Python's dates can say."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FrozenSource:
    """The rows of a source, which stay what they are until the statement is done."""

    frame: DataFrame
    """Its columns are called what they were, also by Columns taken from the user's frame."""
    kept: tuple[CachedRows, ...]
    """What is to be let go of at the end: nothing where the user had cached the frame before."""


def freeze(source: DataFrame, *, counts: bool = True) -> FrozenSource:
    """The source, to be evaluated by the first job that reads it. Observations of it are completed as `keep` says."""
    level = source.storageLevel
    if level.useMemory or level.useDisk or level.useOffHeap:
        return FrozenSource(frame=source, kept=())
    if is_repeatable(source):
        rows = cache_rows(source, counts=counts)
        return FrozenSource(frame=rows.frame, kept=(rows,))
    # Rows of a checkpoint are never computed again.
    return FrozenSource(frame=source.localCheckpoint(eager=False), kept=())


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SourceFacts:
    """What a look at all rows of a source told."""

    num_rows: int
    bounds: tuple[Column, ...]
    """Conditions on the stand-in for the table, true for every row of it that can equal a source row in all keys."""
    matches_nothing: bool
    """Whether no row of the table can."""


def measure(source: DataFrame, keys: Sequence[JoinKey], *, partition_columns: Sequence[str] = ()) -> SourceFacts:
    """Count the rows, and see between which values the keys lie. This is the job that evaluates the source."""
    told = [key for key in keys if _encoded(key.source, key.data_type) is not None]
    values = [_encoded(key.source, key.data_type) for key in told]
    place = F.monotonically_increasing_id().bitwiseAND(F.lit(_ROW_OF_PARTITION))
    looked_at = source.select(
        F.lit(1).alias("one"),
        place.alias("place"),
        *(value.alias(f"k{i}") for i, value in enumerate(values) if value is not None),
    )
    aggregates = [F.count("one").alias("rows")]
    for i in range(len(told)):
        aggregates += [
            F.count(f"k{i}").alias(f"count{i}"),
            F.min(f"k{i}").alias(f"min{i}"),
            F.max(f"k{i}").alias(f"max{i}"),
            F.collect_set(F.when(F.col("place") < VALUES_MAX, F.col(f"k{i}"))).alias(f"values{i}"),
        ]
    row = looked_at.agg(*aggregates).collect()[0].asDict()
    num_rows = int(row["rows"])
    if num_rows == 0:
        return SourceFacts(num_rows=0, bounds=(), matches_nothing=True)
    bounds: list[Column] = []
    for i, key in enumerate(told):
        few = row[f"values{i}"] if num_rows <= VALUES_MAX else _few_values(source, key, partition_columns)
        condition = _condition(key, row[f"min{i}"], row[f"max{i}"], few)
        if condition is None and not key.null_safe:
            return SourceFacts(num_rows=num_rows, bounds=(), matches_nothing=True)
        if key.null_safe and row[f"count{i}"] < num_rows:
            condition = key.target.isNull() if condition is None else condition | key.target.isNull()
        if condition is not None:
            bounds.append(condition)
    return SourceFacts(num_rows=num_rows, bounds=tuple(bounds), matches_nothing=False)


def _few_values(source: DataFrame, key: JoinKey, partition_columns: Sequence[str]) -> list[Any] | None:
    """The values of a key that chooses partitions, as these are told apart exactly; None where they are too many."""
    if key.column is None or key.column not in partition_columns:
        return None
    value = _encoded(key.source, key.data_type)
    assert value is not None
    found = source.select(value.alias("k")).where("k IS NOT NULL").distinct().limit(VALUES_MAX + 1).collect()
    return None if len(found) > VALUES_MAX else [row[0] for row in found]


def _condition(key: JoinKey, low: Any, high: Any, few: Sequence[Any] | None) -> Column | None:
    """What a row of the table must satisfy to equal one of the values; None where there are none."""
    if low is None:
        return None
    if few is not None:
        return key.target.isin([_literal(value, key) for value in sorted(few)])
    return (key.target >= _literal(low, key)) & (key.target <= _literal(high, key))


def _encoded(value: Column, data_type: str) -> Column | None:
    """The value as one that comes to Python without a time zone; None for types whose order is not used."""
    if data_type in _WHOLE_NUMBERS or data_type == "string" or data_type.startswith("decimal("):
        return value
    if data_type == "date":
        return F.unix_date(value)
    return F.unix_micros(value) if data_type == "timestamp" else None


def _literal(value: int | str | Decimal, key: JoinKey) -> Column:
    if key.data_type == "date":
        assert isinstance(value, int)
        exact = F.date_from_unix_date(F.lit(value))
        return F.lit(_EPOCH + datetime.timedelta(days=value)) if value in _DAYS else exact
    if key.data_type == "timestamp":
        return F.timestamp_micros(F.lit(value).cast("bigint"))
    return F.lit(value)


def is_small(source: DataFrame, num_rows: int, settings: Mapping[str, str]) -> bool:
    """Whether the source may be sent to all executors. The user may forbid it, as for any join."""
    threshold = settings.get("spark.sql.autoBroadcastJoinThreshold", "10485760").strip()
    if threshold.startswith("-"):
        return False
    width = sum(_width(field.dataType) for field in source.schema.fields)
    return num_rows * width <= BROADCAST_BYTES_MAX


def _width(data_type: DataType) -> int:
    """About how many bytes a value takes."""
    if isinstance(data_type, StringType):
        return 32
    return 8 if isinstance(data_type, NumericType) else 16


# MERGE as its user wrote it: a source, a condition, and clauses.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class UpdateClause:
    """`THEN UPDATE SET`, of WHEN MATCHED and of WHEN NOT MATCHED BY SOURCE."""

    condition: Value | None = None
    values: Mapping[str, Value] | None
    """By column, as `a`, `s.x` or `t.a`; the value `DEFAULT` stands for the column's default. None is `*`: each
    column takes the value of the source's column of that name."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DeleteClause:
    """`THEN DELETE`, of WHEN MATCHED and of WHEN NOT MATCHED BY SOURCE."""

    condition: Value | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class InsertClause:
    """`THEN INSERT`, of WHEN NOT MATCHED."""

    condition: Value | None = None
    values: Mapping[str, Value] | None
    """As in `UpdateClause`. Columns that are left out get their default, or NULL."""


ChangeClause = UpdateClause | DeleteClause
MergeClause = ChangeClause | InsertClause


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MergeStatement:
    """`MERGE INTO … USING source ON condition`, and what to do with which rows.

    Of the clauses of one kind, the first whose condition is true for a row is the one that counts.
    """

    source: DataFrame
    """What its columns are called in conditions and values is up to the frame, with its alias if it has one."""
    condition: Value
    matched: Sequence[ChangeClause] = ()
    not_matched: Sequence[InsertClause] = ()
    """They see the columns of the source alone."""
    not_matched_by_source: Sequence[ChangeClause] = ()
    """They see the columns of the table alone. Their values are given by column."""
    alias: RowNames = None
    """What conditions and values call the table."""
    evolves: bool = False
    """Columns of the source that the table lacks are added to it, as far as a clause sets them."""

    @property
    def changing(self) -> tuple[ChangeClause, ...]:
        """The clauses that change rows of the table; their places are their numbers in the statement."""
        return (*self.matched, *self.not_matched_by_source)

    @property
    def only_inserts(self) -> bool:
        return not self.changing

    @property
    def only_matched(self) -> bool:
        return not self.not_matched and not self.not_matched_by_source

    @property
    def deletes_all_matched(self) -> bool:
        """Whether whatever is matched is deleted, so that it does not matter how often it is."""
        return len(self.matched) == 1 and self.changes_all_matched and isinstance(self.matched[0], DeleteClause)

    @property
    def changes_all_matched(self) -> bool:
        """Whether a clause applies to every row that is matched."""
        return bool(self.matched) and self.matched[-1].condition is None

    def check(self, *, table: str) -> None:
        """Raises `MergeWithoutClauseError`, and `UnreachableMergeClauseError` for a clause that none can reach."""
        if not self.changing and not self.not_matched:
            raise MergeWithoutClauseError(table=table)
        kinds: tuple[tuple[Sequence[MergeClause], type[UnreachableMergeClauseError]], ...] = (
            (self.matched, UnreachableMatchedClauseError),
            (self.not_matched, UnreachableNotMatchedClauseError),
            (self.not_matched_by_source, UnreachableNotMatchedBySourceClauseError),
        )
        for clauses, error in kinds:
            if any(clause.condition is None for clause in clauses[:-1]):
                raise error(table=table)


# What a MERGE makes of the table's schema: as it is, or grown by what its clauses take from the source.


AUTO_MERGE_SETTING = "spark.databricks.delta.schema.autoMerge.enabled"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MergeTarget:
    """The table as the commit will leave it, and the actions that make it so."""

    schema: StructType
    metadata: Metadata
    actions: tuple[Action, ...] = ()
    """Protocol and metadata that change; none for a table that stays as it is."""


def may_evolve(table: TableRef, statement: MergeStatement) -> bool:
    """Whether the statement, or the session, lets the schema grow."""
    return statement.evolves or table.session.flag(AUTO_MERGE_SETTING, default=False)


def merge_target(table: TableRef, snapshot: Snapshot, statement: MergeStatement, source: StructType) -> MergeTarget:
    """The table with the columns and fields that it lacks and that a clause sets from the source's of that name.

    Raises `IncompatibleTypesError` for columns of both whose types cannot be brought together.
    """
    as_it_is = MergeTarget(schema=snapshot.schema, metadata=snapshot.metadata)
    if not may_evolve(table, statement):
        return as_it_is
    case_sensitive = table.session.flag(CASE_SENSITIVE_SETTING, default=False)
    taken = _taken(statement, source, str if case_sensitive else fold)
    check_duplicates(taken, where="the source", table=table.label)
    properties = snapshot.properties
    rules = MergeRules(
        widening=automatic_widening(table.session, snapshot),
        casting=store_assignment(table.session),
        iceberg=bool(compat_versions(snapshot.properties)),
    )
    merged = merge(snapshot.schema, as_nullable(visible_schema(taken)), rules)
    if merged.conflicts:
        raise IncompatibleTypesError(table=table.label, extra={}, mismatched=merged.conflicts, overwriting=False)
    if merged.schema == snapshot.schema:
        return as_it_is
    check_writable(merged.schema, table=table.label)
    check_types_unused(snapshot, merged.schema, table=table.label)
    schema = merged.schema
    if merged.retyped and properties.type_widening_enabled:
        schema = record_type_changes(schema, snapshot.schema)
    defined = with_schema(snapshot.metadata, snapshot.protocol, schema, label=table.label, source=table.session.random)
    protocol = () if defined.protocol == snapshot.protocol else (defined.protocol,)
    return MergeTarget(
        schema=parse_schema(defined.metadata.schema_string, table.label),
        metadata=defined.metadata,
        actions=(*protocol, defined.metadata),
    )


def _taken(statement: MergeStatement, source: StructType, spelled: Callable[[str], str]) -> StructType:
    """The columns and fields of the source that a clause sets in the table, names compared as `spelled`."""
    clauses = [
        clause for clause in (*statement.matched, *statement.not_matched) if not isinstance(clause, DeleteClause)
    ]
    paths = [path for clause in clauses for path in _paths(clause.values or {}, statement.alias, spelled)]
    everything = any(clause.values is None for clause in clauses)
    return StructType(list(_kept(source, (), paths, spelled, everything=everything)))


def _paths(values: Mapping[str, Value], alias: RowNames, spelled: Callable[[str], str]) -> Iterator[FieldPath]:
    for name in values:
        parts = tuple(spelled(part) for part in split_identifier(name))
        yield parts[1:] if isinstance(alias, str) and len(parts) > 1 and fold(parts[0]) == fold(alias) else parts


def _kept(
    struct: StructType,
    above: FieldPath,
    paths: list[FieldPath],
    spelled: Callable[[str], str],
    *,
    everything: bool,
) -> Iterator[StructField]:
    for field in struct.fields:
        path = (*above, spelled(field.name))
        inside = any(other[: len(path)] == path for other in paths)
        if path in paths or (everything and not (inside and isinstance(field.dataType, StructType))):
            yield field
        elif inside and isinstance(field.dataType, StructType):
            inner = StructType(list(_kept(field.dataType, path, paths, spelled, everything=everything)))
            if inner.fields:
                yield StructField(field.name, inner, field.nullable, field.metadata)
