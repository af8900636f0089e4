"""REPLACE ON and REPLACE USING: rows of the table go for which a condition holds with one of the rows written."""

from __future__ import annotations

import contextlib
import dataclasses
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from anabranch.commands.merge.merge_source import freeze
from anabranch.commands.table_access import TableRef
from anabranch.commands.write.write_options import MatchCondition, ReplacedRows, SaveMode, WriteOptions
from anabranch.errors.dml import (
    AmbiguousReplaceOnError,
    MisalignedReplaceUsingError,
    UnknownReplaceUsingColumnError,
    UnresolvedReplaceOnError,
)
from anabranch.schema.enforcement import WriteApi
from anabranch.schema.paths import fold
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.conditions.column_names import alias_of, alias_of_text
from anabranch.spark.conditions.repeatable_rows import CachedRows
from anabranch.spark.conditions.user_condition import empty_frame
from anabranch.spark.native.plan_reading import versions_read
from anabranch.spark.session.table_identifiers import quote

_OLD, _NEW = "__anabranch_old", "__anabranch_new"

ViewOf = Callable[[DataFrame], str]
"""Gives a frame a name by which Spark finds it while the write lasts."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceOn:
    """A condition on rows of both."""

    condition: MatchCondition | str
    """To hand to Spark."""
    written: str
    """As the user wrote it."""
    target_alias: str | None
    source_alias: str | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceUsing:
    """Columns in which rows of both are equal; null equals nothing."""

    columns: tuple[str, ...]
    written: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Replacing:
    """Rows that are evaluated once: those that decide are those that are written."""

    rows: DataFrame
    options: WriteOptions
    kept: tuple[CachedRows, ...]

    def close(self) -> None:
        """Let go of what Spark keeps."""
        for rows in self.kept:
            rows.release()


def replacing(
    table: TableRef,
    rows: DataFrame,
    how: ReplaceOn | ReplaceUsing,
    options: WriteOptions,
    *,
    view_of: ViewOf,
    renamed: Callable[[DataFrame], DataFrame] = lambda frame: frame,
) -> Replacing:
    """The rows, frozen, and how to write them; `renamed` gives them the names under which they are written.

    Raises `UnknownReplaceUsingColumnError`.
    """
    read = versions_read(rows, table.path)
    frozen = freeze(rows)
    named = renamed(frozen.frame)
    if isinstance(how, ReplaceOn):
        replaced = _replaced_on(how, frozen.frame, view_of, read)
    else:
        _check_columns(how, "The query", named.columns)
        _check_columns(how, table.label, table.latest().schema.fieldNames())
        replaced = _replaced_using(how, view_of(named), read)
    chosen = dataclasses.replace(options, replaced=replaced, dynamic_partition_overwrite=False)
    return Replacing(rows=named, options=chosen, kept=frozen.kept)


def _replaced_on(how: ReplaceOn, rows: DataFrame, view_of: ViewOf, read: frozenset[int]) -> ReplacedRows:
    exists: Column | str
    if isinstance(how.condition, str):
        view = view_of(rows)
        source = quote(view) if how.source_alias is None else f"{quote(view)} AS {quote(how.source_alias)}"
        exists = f"EXISTS (SELECT 1 FROM {source} WHERE {how.condition})"  # noqa: S608 - the user's own words
    else:
        exists = how.condition.exists(rows, how.source_alias)
    return ReplacedRows(
        condition=exists, alias=how.target_alias, told={"replaceOnCond": how.written}, versions_read=read
    )


def _replaced_using(how: ReplaceUsing, view: str, read: frozenset[int]) -> ReplacedRows:
    equal = " AND ".join(f"{_NEW}.{quote(each)} = {_OLD}.{quote(each)}" for each in how.columns)
    exists = f"EXISTS (SELECT 1 FROM {quote(view)} AS {_NEW} WHERE {equal})"  # noqa: S608 - quoted names
    told = {"replaceUsingCols": f"({how.written})"}
    return ReplacedRows(condition=exists, alias=_OLD, told=told, versions_read=read)


def _check_columns(how: ReplaceUsing, owner: str, known: Sequence[str]) -> None:
    for column in how.columns:
        if fold(column) not in map(fold, known):
            raise UnknownReplaceUsingColumnError(table=owner, column=column, available=tuple(known))


@contextlib.contextmanager
def chosen_rows(
    table: TableRef, frame: DataFrame, options: WriteOptions, api: WriteApi, snapshot: Snapshot | None
) -> Iterator[tuple[DataFrame, WriteOptions]]:
    """What a DataFrame writer writes, and how, with its options replaceOn and replaceUsing carried out.

    Raises `NotADeltaTableError` where there is no table yet, and the errors of `errors.dml`.
    """
    if not options.replaces_matches or options.mode is not SaveMode.OVERWRITE:
        yield frame, options
        return
    snapshot = snapshot or table.latest()
    views: list[str] = []

    def view_of(rows: DataFrame) -> str:
        name = f"__anabranch_{uuid.uuid4().hex}"
        rows.createOrReplaceTempView(name)
        views.append(name)
        return name

    how = _asked(table, snapshot, frame, options, api)
    names = snapshot.schema.fieldNames() if api is WriteApi.SQL_BY_POSITION else []

    def renamed(rows: DataFrame) -> DataFrame:
        # INSERT … REPLACE USING speaks of the table's columns, whatever the query calls its own.
        return rows.toDF(*names) if len(names) == len(rows.columns) else rows

    found = replacing(table, frame, how, options, view_of=view_of, renamed=renamed)
    try:
        yield found.rows, found.options
    finally:
        found.close()
        for name in views:
            table.session.spark.catalog.dropTempView(name)


def _asked(
    table: TableRef, snapshot: Snapshot, frame: DataFrame, options: WriteOptions, api: WriteApi
) -> ReplaceOn | ReplaceUsing:
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
        _check_places(table, snapshot, frame, how)
    return how


def _check_condition(
    table: TableRef, snapshot: Snapshot, frame: DataFrame, options: WriteOptions, alias: str | None
) -> None:
    """Every column of the condition must be one of the table's or of the rows', and not of both."""
    written = str(options.replace_on)
    facts: dict[str, Any] = {"table": table.label, "predicate": written}
    if alias is not None and fold(alias) in map(fold, frame.columns):
        # In a subquery a field of that column would go before a column of the table.
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


def _check_places(table: TableRef, snapshot: Snapshot, frame: DataFrame, how: ReplaceUsing) -> None:
    """Where columns are matched by position, those that decide must be the same ones by name."""
    known = [fold(name) for name in snapshot.schema.fieldNames()]
    given = [fold(name) for name in frame.columns]
    _check_columns(how, table.label, snapshot.schema.fieldNames())
    _check_columns(how, "The DataFrame", frame.columns)
    misplaced = tuple(name for name in how.columns if known.index(fold(name)) != given.index(fold(name)))
    if misplaced:
        raise MisalignedReplaceUsingError(table=table.label, columns=misplaced)
