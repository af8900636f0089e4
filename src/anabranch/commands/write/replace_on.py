"""REPLACE ON and REPLACE USING: a write replaces the rows of the table that match one of the written rows."""

from __future__ import annotations

import contextlib
import dataclasses
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from anabranch.commands.table_access import TableRef
from anabranch.commands.write.write_options import MatchCondition, ReplacedRows, WriteOptions
from anabranch.errors.dml import (
    AmbiguousReplaceOnError,
    MisalignedReplaceUsingError,
    UnknownReplaceUsingColumnError,
    UnresolvedReplaceOnError,
)
from anabranch.schema.paths import fold, quote
from anabranch.schema.write_rules import WriteApi
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.conditions.column_names import alias_of, alias_of_text
from anabranch.spark.conditions.user_condition import empty_frame
from anabranch.spark.native.plan_reading import versions_read
from anabranch.spark.rows.cached_rows import CachedRows, materialize, release

_OLD, _NEW = "__anabranch_old", "__anabranch_new"

ViewOf = Callable[[DataFrame], str]
"""Registers a frame as a temporary view for the time of the write, and returns the name of the view."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceOn:
    """A condition on rows of the table and written rows."""

    condition: MatchCondition | str
    """The condition as Spark takes it."""
    written: str
    """The condition as the user wrote it."""
    target_alias: str | None
    source_alias: str | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceUsing:
    """Columns in which rows of the table and written rows are equal; NULL equals nothing."""

    columns: tuple[str, ...]
    written: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReplacingWrite:
    """The rows of a write, which are evaluated once to choose the replaced rows and to be written."""

    rows: DataFrame
    options: WriteOptions
    cached: CachedRows

    def close(self) -> None:
        """Release the cached rows."""
        release([self.cached])


def replacing(
    table: TableRef,
    rows: DataFrame,
    how: ReplaceOn | ReplaceUsing,
    options: WriteOptions,
    *,
    view_of: ViewOf,
    renamed: Callable[[DataFrame], DataFrame] = lambda frame: frame,
) -> ReplacingWrite:
    """The rows, to be evaluated once, and the options to write them; `renamed` renames their columns for the write.

    Raises `UnknownReplaceUsingColumnError`.
    """
    versions = versions_read(rows, table.path)
    source = materialize(rows)
    named = renamed(source.frame)
    if isinstance(how, ReplaceOn):
        replaced = _replaced_on(how, source.frame, view_of, versions)
    else:
        _check_columns(how, "The query", named.columns)
        _check_columns(how, table.label, table.latest().schema.fieldNames())
        replaced = _replaced_using(how, view_of(named), versions)
    resolved = dataclasses.replace(options, replaced=replaced, dynamic_partition_overwrite=False)
    return ReplacingWrite(rows=named, options=resolved, cached=source)


def _replaced_on(how: ReplaceOn, rows: DataFrame, view_of: ViewOf, versions: frozenset[int]) -> ReplacedRows:
    exists: Column | str
    if isinstance(how.condition, str):
        view = view_of(rows)
        source = quote(view) if how.source_alias is None else f"{quote(view)} AS {quote(how.source_alias)}"
        exists = f"EXISTS (SELECT 1 FROM {source} WHERE {how.condition})"  # noqa: S608 - the user's own words
    else:
        exists = how.condition.exists(rows, how.source_alias)
    return ReplacedRows(
        condition=exists,
        alias=how.target_alias,
        log_parameters={"replaceOnCond": how.written},
        versions_read=versions,
    )


def _replaced_using(how: ReplaceUsing, view: str, versions: frozenset[int]) -> ReplacedRows:
    equal = " AND ".join(f"{_NEW}.{quote(column)} = {_OLD}.{quote(column)}" for column in how.columns)
    exists = f"EXISTS (SELECT 1 FROM {quote(view)} AS {_NEW} WHERE {equal})"  # noqa: S608 - quoted names
    parameters = {"replaceUsingCols": f"({how.written})"}
    return ReplacedRows(condition=exists, alias=_OLD, log_parameters=parameters, versions_read=versions)


def _check_columns(how: ReplaceUsing, owner: str, columns: Sequence[str]) -> None:
    """Raises `UnknownReplaceUsingColumnError` for a column that `owner`, which has these columns, lacks."""
    for column in how.columns:
        if fold(column) not in map(fold, columns):
            raise UnknownReplaceUsingColumnError(table=owner, column=column, available=tuple(columns))


@contextlib.contextmanager
def replacement_resolved(
    table: TableRef, frame: DataFrame, options: WriteOptions, api: WriteApi, snapshot: Snapshot | None
) -> Iterator[tuple[DataFrame, WriteOptions]]:
    """The rows of a DataFrame writer and its options, with replaceOn and replaceUsing resolved.

    Raises `NotADeltaTableError` where there is no table yet, and the errors of replaceOn and replaceUsing
    (`errors.dml`).
    """
    snapshot = snapshot or table.latest()
    views: list[str] = []

    def view_of(rows: DataFrame) -> str:
        name = f"__anabranch_{uuid.uuid4().hex}"
        rows.createOrReplaceTempView(name)
        views.append(name)
        return name

    how = _replacement(table, snapshot, frame, options, api)
    names = snapshot.schema.fieldNames() if api is WriteApi.SQL_BY_POSITION else []

    def renamed(rows: DataFrame) -> DataFrame:
        # The columns of INSERT … REPLACE USING are the table's, and those of the query are matched by position.
        return rows.toDF(*names) if len(names) == len(rows.columns) else rows

    write = replacing(table, frame, how, options, view_of=view_of, renamed=renamed)
    try:
        yield write.rows, write.options
    finally:
        write.close()
        for name in views:
            table.session.spark.catalog.dropTempView(name)


def _replacement(
    table: TableRef, snapshot: Snapshot, frame: DataFrame, options: WriteOptions, api: WriteApi
) -> ReplaceOn | ReplaceUsing:
    """The option that is set, checked."""
    if options.replace_on is not None:
        alias = alias_of_text(options.target_alias)
        _check_condition(table, snapshot, frame, options, alias)
        return ReplaceOn(
            condition=options.replace_on_read or options.replace_on,
            written=options.replace_on,
            target_alias=alias,
            source_alias=alias_of(frame),
        )
    how = ReplaceUsing(columns=options.replace_using_columns, written=str(options.replace_using))
    if api is WriteApi.INSERT_INTO:
        _check_positions(table, snapshot, frame, how)
    return how


def _check_condition(
    table: TableRef, snapshot: Snapshot, frame: DataFrame, options: WriteOptions, alias: str | None
) -> None:
    """Check that every column of the condition is one of the table or of the rows, and not of both.

    Raises `AmbiguousReplaceOnError`, `UnresolvedReplaceOnError`.
    """
    written = str(options.replace_on)
    facts: dict[str, Any] = {"table": table.label, "predicate": written}
    if alias is not None and fold(alias) in map(fold, frame.columns):
        # In a subquery the name would mean a field of that column before it means a column of the table.
        reason = f"{alias} is the name of the table and of a column of the rows."
        raise AmbiguousReplaceOnError(**facts, reason=reason)
    target = empty_frame(table.session.spark, snapshot.schema, alias)
    try:
        condition = F.expr(written) if options.replace_on_read is None else options.replace_on_read.column
        target.join(frame, condition, "left_semi").schema  # noqa: B018 - has Spark resolve the condition
    except AnalysisException as error:
        reason = (error.getMessage() or str(error)).split(" SQLSTATE")[0].split("\n")[0]
        kind = str(error.getCondition())
        if kind.startswith("AMBIGUOUS_REFERENCE"):
            raise AmbiguousReplaceOnError(**facts, reason=reason) from error
        if kind.startswith("UNRESOLVED_COLUMN"):
            raise UnresolvedReplaceOnError(**facts, reason=reason) from error
        raise


def _check_positions(table: TableRef, snapshot: Snapshot, frame: DataFrame, how: ReplaceUsing) -> None:
    """Check that the columns are at the same positions in the table and the rows, which are matched by position.

    Raises `MisalignedReplaceUsingError`.
    """
    in_table = [fold(name) for name in snapshot.schema.fieldNames()]
    in_frame = [fold(name) for name in frame.columns]
    _check_columns(how, table.label, snapshot.schema.fieldNames())
    _check_columns(how, "The DataFrame", frame.columns)
    misplaced = tuple(name for name in how.columns if in_table.index(fold(name)) != in_frame.index(fold(name)))
    if misplaced:
        raise MisalignedReplaceUsingError(table=table.label, columns=misplaced)
