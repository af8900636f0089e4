"""Checks that a column which is dropped, renamed or changed is not used by rules, partitioning or clustering."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from anabranch.commands.definition.clustering import clustering_columns
from anabranch.errors.alterations import (
    ColumnInUseError,
    ConstrainedTypeError,
    GeneratedFromColumnError,
    GeneratedFromTypeError,
    PartitionColumnDropError,
)
from anabranch.errors.constraints import UntrustedExpressionError
from anabranch.predicates.stored_sql import read_stored_sql
from anabranch.schema.enforcement import Fill, fill_of
from anabranch.schema.paths import FieldPath, child, find, fold, quoted
from anabranch.schema.write_rules import check_owner, row_rules
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.write.row_rules import generation_owner


def check_no_rule_uses(snapshot: Snapshot, path: FieldPath, *, change: str, table: str) -> None:
    """Raises `ColumnInUseError` where a constraint or an invariant reads the column, a subclass for generated columns.

    `change` is the word of the message for the change, such as "dropped".
    """
    _check_unused(snapshot, path, change, (ColumnInUseError, GeneratedFromColumnError), table)


def check_types_unused(snapshot: Snapshot, schema: StructType, *, table: str) -> None:
    """Raises `ConstrainedTypeError` or `GeneratedFromTypeError` where `schema`, to which a write changes the
    table's, has another type for a column that a rule reads: existing rows may then violate the rule.
    """
    for path, kind in _retyped(snapshot.schema, schema, ()):
        change = f"given the type {kind.simpleString()} of the data"
        _check_unused(snapshot, path, change, (ConstrainedTypeError, GeneratedFromTypeError), table)


def check_constraints_find_columns(snapshot: Snapshot, schema: StructType, *, table: str) -> None:
    """Raises `ColumnInUseError` where `schema`, which replaces the table's own, lacks a column that a constraint reads.

    Invariants and generation expressions are removed with their columns, but CHECK constraints stay.
    """
    users: dict[FieldPath, list[str]] = {}
    for name, expression in sorted(snapshot.properties.constraints.items()):
        owner = check_owner(name)
        for column in read_stored_sql(expression, snapshot.schema, table=table, owner=owner).columns:
            if find(schema, column) is None:
                users.setdefault(column, []).append(f"{owner} ({expression})")
    for column, owners in sorted(users.items()):
        raise ColumnInUseError(table=table, column=quoted(column), change="dropped", users=tuple(owners))


def check_no_layout_uses(snapshot: Snapshot, path: FieldPath, *, change: str, table: str) -> None:
    """Raises `ColumnInUseError` where the table is partitioned or clustered by the column."""
    users: list[str] = []
    if len(path) == 1 and path[0] in snapshot.partition_columns:
        users.append("the partitioning of the table")
    if any(_overlap(path, clustering) for clustering in clustering_columns(snapshot)):
        users.append("the clustering of the table")
    if users:
        partition = change == "dropped" and len(path) == 1 and path[0] in snapshot.partition_columns
        in_use = PartitionColumnDropError if partition else ColumnInUseError
        raise in_use(table=table, column=quoted(path), change=change, users=tuple(users))


def _check_unused(
    snapshot: Snapshot,
    path: FieldPath,
    change: str,
    errors: tuple[type[ColumnInUseError], type[ColumnInUseError]],
    table: str,
) -> None:
    """Raises the first of `errors` where a constraint reads the column, the second where only generated columns do."""
    constraints = [
        (rule.owner, rule.expression) for rule in row_rules(snapshot.schema, snapshot.properties.constraints)
    ]
    generated = [
        (generation_owner(field.name), expression)
        for field in snapshot.schema.fields
        for fill, expression in [fill_of(field)]
        if fill is Fill.GENERATED and expression is not None and fold(field.name) != fold(path[0])
    ]
    constraining, generating = (
        [f"{owner} ({text})" for owner, text in rules if _reads(snapshot, text, path, table, owner)]
        for rules in (constraints, generated)
    )
    if constraining or generating:
        error = errors[0 if constraining else 1]
        raise error(table=table, column=quoted(path), change=change, users=(*constraining, *generating))


def _retyped(before: DataType, after: DataType, path: FieldPath) -> Iterator[tuple[FieldPath, DataType]]:
    """The columns and fields whose types differ. An array or a map counts as one field with its elements."""
    if isinstance(before, StructType) and isinstance(after, StructType):
        for old in before.fields:
            new = child(after, old.name, case_sensitive=True)
            if new is not None:
                yield from _retyped(old.dataType, new.dataType, (*path, old.name))
    elif isinstance(before, ArrayType) and isinstance(after, ArrayType):
        if any(_retyped(before.elementType, after.elementType, path)):
            yield path, after
    elif isinstance(before, MapType) and isinstance(after, MapType):
        parts = ((before.keyType, after.keyType), (before.valueType, after.valueType))
        if any(change for old_part, new_part in parts for change in _retyped(old_part, new_part, path)):
            yield path, after
    elif before != after:
        yield path, after


def _reads(snapshot: Snapshot, expression: str, path: FieldPath, table: str, owner: str) -> bool:
    try:
        columns = read_stored_sql(expression, snapshot.schema, table=table, owner=owner).columns
    except UntrustedExpressionError:
        # An expression that cannot be read may use every column that it names.
        return fold(path[0]) in {fold(word) for word in re.findall(r"\w+", expression)}
    return any(_overlap(path, column) for column in columns)


def _overlap(one: FieldPath, other: FieldPath) -> bool:
    """Whether one of the columns is the other, or part of it."""
    return all(fold(a) == fold(b) for a, b in zip(one, other, strict=False))
