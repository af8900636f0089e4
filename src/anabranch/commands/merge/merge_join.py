"""MERGE as one join: which row of the table is matched, which clause applies to it, and what it becomes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from anabranch.commands.merge.merge_values import ClauseValues, output_name
from anabranch.schema.paths import quote
from anabranch.spark.conditions.column_names import BoundAttributes, RowNames, named_again
from anabranch.spark.engine import FILE_ID_COLUMN, ROW_INDEX_COLUMN
from anabranch.spark.gateway.jvm_classes import case_when, select
from anabranch.spark.rows.cached_rows import Size, not_broadcast, size_of

ACTION_COLUMN = "__anabranch_action"
"""The number of the clause that applies to the row: clauses of WHEN MATCHED are numbered first, then those of WHEN NOT
MATCHED BY SOURCE."""
INSERTION_COLUMN = "__anabranch_insertion"
"""The number of the clause that inserts the row, of `MergeJoin.written_at_once`."""
LEFT_ALONE = -1
"""The action of a matched row to which no clause applies."""
APPLIED = f"{ACTION_COLUMN} <> {LEFT_ALONE}"
"""The condition, as SQL, on rows to which a clause applies."""
POSITION = (FILE_ID_COLUMN, ROW_INDEX_COLUMN)
_IN_SOURCE = "__anabranch_in_source"
_DECIDED = "__anabranch_decided"
_MATCHED = "__anabranch_matched"
_JOIN_TYPES = {(False, False): "inner", (True, False): "right", (False, True): "left", (True, True): "full"}
"""By whether rows of the source that match none are needed, and whether those of the table are."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MergeConditions:
    """The conditions of a MERGE as Spark takes them."""

    on: Column | str
    matched: Sequence[Column | str | None] = ()
    not_matched: Sequence[Column | str | None] = ()
    not_matched_by_source: Sequence[Column | str | None] = ()


class MergeJoin:
    """Joins rows of the table, any of them, to the source, which is evaluated once."""

    def __init__(
        self,
        source: DataFrame,
        conditions: MergeConditions,
        *,
        alias: RowNames,
        has_keys: bool = False,
        source_is_small: bool = False,
    ) -> None:
        """`has_keys` says whether the condition compares columns of both for equality."""
        self.source = source
        self.conditions = conditions
        self.source_is_small = source_is_small
        self._alias = alias
        self._has_keys = has_keys

    def changed(self, rows: DataFrame) -> DataFrame:
        """The rows to which a clause applies, with their positions; a row that is matched twice may be there twice."""
        decided = self.decided(rows, {}, keeps=())
        return decided.where(APPLIED)

    def matched(self, rows: DataFrame, *, keeps: Sequence[str] = ()) -> DataFrame:
        """The matched rows, each once, with their positions and the columns `keeps`."""
        matches = rows.join(self._hinted(self.source), as_column(self.conditions.on), "left_semi")
        return matches.select(*(rows[quote(name)] for name in (*keeps, *POSITION)))

    def decided(
        self, rows: DataFrame, values: Mapping[int, ClauseValues], *, keeps: Sequence[str], outputs: Sequence[str] = ()
    ) -> DataFrame:
        """The rows that are matched or to which a clause applies: the columns `keeps`, positions, action and `outputs`.

        `values` are the updates by action; `outputs` are the columns that they compute, renamed by `output_name`.
        """
        number = len(self.conditions.matched)
        if not self.conditions.not_matched_by_source:
            pairs = self._pairs(rows, "inner")
            computed = _computed(values, range(number), outputs, _values_of(rows))
            return select(pairs, [*(rows[quote(name)] for name in (*keeps, *POSITION)), ACTION_COLUMN], computed)
        # Two steps, because clauses for rows that no source row matches may use only columns of the table.
        pairs = self._pairs(rows, "left")
        computed = _computed(values, range(number), outputs, _values_of(rows))
        of_table = select(pairs, [*(rows[quote(name)] for name in rows.columns), ACTION_COLUMN], computed)
        return self._with_unmatched(of_table, values, keeps=(*keeps, *POSITION), outputs=outputs)

    def _with_unmatched(
        self, rows: DataFrame, values: Mapping[int, ClauseValues], *, keeps: Sequence[str], outputs: Sequence[str]
    ) -> DataFrame:
        """Joined rows with the action and outputs of those that are not matched, but none to which no clause applies.

        Rows that are in no file are rows of the source.
        """
        number = len(self.conditions.matched)
        is_of_source = F.col(FILE_ID_COLUMN).isNull()
        unmatched = _first(self.conditions.not_matched_by_source, start=number, otherwise=None)
        action = F.when(~is_of_source, F.coalesce(F.col(ACTION_COLUMN), unmatched))
        decided = rows.withColumn(_DECIDED, action).where(is_of_source | F.col(_DECIDED).isNotNull())
        actions = range(number, number + len(self.conditions.not_matched_by_source))
        computed = _computed(values, actions, outputs, _values_of(rows), action=_DECIDED, otherwise=True)
        return select(decided, [*map(quote, keeps), F.col(_DECIDED).alias(ACTION_COLUMN)], computed)

    def written_at_once(
        self,
        rows: DataFrame,
        updates: Mapping[int, ClauseValues],
        inserts: Sequence[ClauseValues],
        *,
        keeps: Sequence[str],
        outputs: Sequence[str],
    ) -> DataFrame:
        """The rows of `decided` and, with NULL as their file, those of the source that match none.

        They have the columns of `decided`, and the number of the clause that inserts them, or NULL.
        """
        own, by_source = (*keeps, *POSITION), bool(self.conditions.not_matched_by_source)
        source = self.source.withColumn(_IN_SOURCE, F.lit(True)) if by_source else self.source
        pairs = self._joined(rows, source, _JOIN_TYPES[bool(inserts), by_source])
        is_matched = rows[FILE_ID_COLUMN].isNotNull()
        is_matched = is_matched & F.col(_IN_SOURCE) if by_source else is_matched
        action = _first(self.conditions.matched, start=0, otherwise=LEFT_ALONE)
        pairs = pairs.withColumn(ACTION_COLUMN, F.when(is_matched, action))
        computed = _computed(updates, range(len(self.conditions.matched)), outputs, _values_of(rows))
        # Clauses for new rows must not see columns of the table, nor those for unmatched ones columns of the source.
        aside, again = self._set_aside(rows, but=own) if by_source else ([], [])
        kept = [self.source["*"], *(rows[quote(name)] for name in own), *aside]
        both = select(pairs, [*kept, ACTION_COLUMN], computed)
        is_new = F.col(FILE_ID_COLUMN).isNull()
        both = both.withColumn(
            INSERTION_COLUMN, F.when(is_new, _first(self.conditions.not_matched, start=0, otherwise=None))
        )
        clauses = dict(enumerate(inserts))
        computed = _computed(clauses, range(len(inserts)), outputs, F.col, action=INSERTION_COLUMN, otherwise=True)
        both = select(both, [*map(quote, own), *again, ACTION_COLUMN, INSERTION_COLUMN], computed)
        if not by_source:
            return both
        return self._with_unmatched(
            named_again(both, self._alias), updates, keeps=(*own, INSERTION_COLUMN), outputs=outputs
        )

    def _set_aside(self, rows: DataFrame, *, but: Sequence[str]) -> tuple[list[Column], list[Column]]:
        """The other columns of the table under names that no clause uses, and then by their own names again."""
        names = [name for name in rows.columns if name not in but]
        if isinstance(self._alias, BoundAttributes):
            # Clauses use attributes and no names. Another name would replace the attribute.
            columns = [rows[quote(name)] for name in names]
            return columns, columns
        aside = {name: f"__anabranch_of_table_{index}" for index, name in enumerate(names)}
        return (
            [rows[quote(name)].alias(other) for name, other in aside.items()],
            [F.col(other).alias(name) for name, other in aside.items()],
        )

    def inserted(
        self,
        matched: DataFrame | None,
        values: Sequence[ClauseValues],
        outputs: Sequence[str],
        *,
        matched_are_few: bool = False,
    ) -> DataFrame:
        """The new rows, with the columns `outputs`.

        `matched` has at least the matched rows, with the columns of the condition; None where no row is matched.
        """
        source = self.source
        if matched is not None:
            rows = named_again(matched, self._alias)
            source = self._unmatched(rows, are_few=matched_are_few)
        numbered = source.withColumn(ACTION_COLUMN, _first(self.conditions.not_matched, start=0, otherwise=None))
        clauses = dict(enumerate(values))
        computed = _computed(clauses, range(len(values)), outputs, F.col)
        return select(numbered.where(f"{ACTION_COLUMN} IS NOT NULL"), [], computed)

    def _pairs(self, rows: DataFrame, how: str) -> DataFrame:
        """Pairs of rows of the table and the source, with the action of matched ones; NULL for others."""
        pairs = self._joined(rows, self.source.withColumn(_IN_SOURCE, F.lit(True)), how)
        action = _first(self.conditions.matched, start=0, otherwise=LEFT_ALONE)
        return pairs.withColumn(ACTION_COLUMN, F.when(F.col(_IN_SOURCE), action))

    def _joined(self, rows: DataFrame, source: DataFrame, how: str) -> DataFrame:
        """Joins rows of the table and the source, with hints to Spark."""
        on = as_column(self.conditions.on)
        if self._is_small(rows):
            return _in_one_task(rows, source, on, how)
        return rows.join(self._hinted(source), on, how)

    def _hinted(self, source: DataFrame) -> DataFrame:
        return F.broadcast(source) if self.source_is_small else not_broadcast(source)

    def _unmatched(self, rows: DataFrame, *, are_few: bool) -> DataFrame:
        """The rows of the source that match none of these rows."""
        on = as_column(self.conditions.on)
        if not self._is_small(rows):
            return self.source.join(F.broadcast(rows) if are_few else rows, on, "left_anti")
        # Spark would move an anti-join below what keeps its rows in one task.
        pairs = _in_one_task(self.source, rows.withColumn(_MATCHED, F.lit(True)), on, "left")
        return pairs.where(f"{_MATCHED} IS NULL").select(self.source["*"])

    def _is_small(self, rows: DataFrame) -> bool:
        return self._has_keys and Size.LARGE not in (size_of(rows), size_of(self.source))


def _in_one_task(left: DataFrame, right: DataFrame, on: Column, how: str) -> DataFrame:
    """The join of small frames by one job: without an exchange of rows, and a broadcast takes a job of its own."""
    return left.coalesce(1).join(right.coalesce(1).hint("shuffle_hash"), on, how)


def as_column(condition: Column | str) -> Column:
    """The condition as a Column, for calls that take no SQL."""
    return F.expr(condition) if isinstance(condition, str) else condition


def _values_of(rows: DataFrame) -> Callable[[str], Column]:
    return lambda name: rows[quote(name)]


def _first(conditions: Sequence[Column | str | None], *, start: int, otherwise: int | None) -> Column:
    """The number of the first condition that is true."""
    unconditional = next((index for index, condition in enumerate(conditions) if condition is None), None)
    chosen = F.lit(otherwise).cast("int") if unconditional is None else F.lit(start + unconditional)
    before = [condition for condition in conditions[:unconditional] if condition is not None]
    for index in range(len(before) - 1, -1, -1):
        chosen = F.when(as_column(before[index]), F.lit(start + index)).otherwise(chosen)
    return chosen


def _computed(
    values: Mapping[int, ClauseValues],
    actions: range,
    outputs: Sequence[str],
    current: Callable[[str], Column],
    *,
    action: str = ACTION_COLUMN,
    otherwise: bool = False,
) -> Any:
    """The outputs of the clause that applies, for `select`; with `otherwise`, those that another has computed stay."""
    computed = {number: values[number].outputs(current, outputs) for number in actions if number in values}
    return case_when(
        [F.expr(f"{action} = {number}") for number in computed],
        [[of_clause.get(name) for name in outputs] for of_clause in computed.values()],
        [output_name(index) for index in range(len(outputs))],
        otherwise=otherwise,
    )
