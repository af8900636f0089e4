"""MERGE as one join: which row of the table is matched, which clause applies to it, and what it becomes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from anabranch.commands.merge.merge_values import ClauseValues
from anabranch.spark.conditions.column_names import RowNames, named_again
from anabranch.spark.engine import FILE_ID_COLUMN, ROW_INDEX_COLUMN
from anabranch.spark.session.table_identifiers import quote

ACTION_COLUMN = "__anabranch_action"
"""Number of the clause that applies to the row: first those of WHEN MATCHED, then of WHEN NOT MATCHED BY SOURCE."""
LEFT_ALONE = -1
"""Action of a row that is matched and to which no clause applies."""
POSITION = (FILE_ID_COLUMN, ROW_INDEX_COLUMN)
_IN_SOURCE = "__anabranch_in_source"
_DECIDED = "__anabranch_decided"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MergeConditions:
    """The conditions of a MERGE, to hand to Spark."""

    on: Column | str
    matched: Sequence[Column | str | None] = ()
    not_matched: Sequence[Column | str | None] = ()
    not_matched_by_source: Sequence[Column | str | None] = ()


class MergeJoin:
    """Joins rows of the table, any of them, to the frozen source."""

    def __init__(
        self, source: DataFrame, conditions: MergeConditions, *, alias: RowNames, source_is_small: bool = False
    ) -> None:
        self.source = source
        self.conditions = conditions
        self.source_is_small = source_is_small
        self._alias = alias

    def changed(self, rows: DataFrame) -> DataFrame:
        """The rows to which a clause applies, with their positions; those that are matched twice may come twice."""
        decided = self.decided(rows, {}, keeps=())
        return decided.where(F.col(ACTION_COLUMN) != LEFT_ALONE)

    def matched(self, rows: DataFrame, *, keeps: Sequence[str] = ()) -> DataFrame:
        """The rows that are matched, each once, with their positions and the columns named."""
        found = rows.join(self._hinted(), as_column(self.conditions.on), "left_semi")
        return found.select(*(rows[quote(name)] for name in (*keeps, *POSITION)))

    def decided(
        self, rows: DataFrame, values: Mapping[int, ClauseValues], *, keeps: Sequence[str], outputs: Sequence[str] = ()
    ) -> DataFrame:
        """The rows that are matched or to which a clause applies, as `keeps`, positions, the action and `outputs`.

        `values` are the updates by action; `outputs` the columns that they make, called `output_name` of these.
        """
        number = len(self.conditions.matched)
        if not self.conditions.not_matched_by_source:
            pairs = self._pairs(rows, "inner")
            made = _made(values, range(number), outputs, _values_of(rows))
            return pairs.select(*(rows[quote(name)] for name in (*keeps, *POSITION)), ACTION_COLUMN, *made)
        # Two steps, as clauses for rows that no source row matches may name columns of the table alone.
        pairs = self._pairs(rows, "left")
        made = _made(values, range(number), outputs, _values_of(rows))
        of_table = pairs.select(*(rows[quote(name)] for name in rows.columns), ACTION_COLUMN, *made)
        action = _first(self.conditions.not_matched_by_source, start=number, otherwise=None)
        both = of_table.withColumn(_DECIDED, F.coalesce(F.col(ACTION_COLUMN), action)).where(f"{_DECIDED} IS NOT NULL")
        unmatched = range(number, number + len(self.conditions.not_matched_by_source))
        remade = _made(values, unmatched, outputs, _values_of(rows), action=_DECIDED, otherwise=True)
        decided = F.col(_DECIDED).alias(ACTION_COLUMN)
        return both.select(*(rows[quote(name)] for name in (*keeps, *POSITION)), decided, *remade)

    def inserted(self, matched: DataFrame | None, values: Sequence[ClauseValues], outputs: Sequence[str]) -> DataFrame:
        """The new rows, as `outputs`. `matched` holds at least the rows that are matched, with what the condition
        names; without it, none is.
        """
        source = self.source
        if matched is not None:
            rows = named_again(matched, self._alias)
            source = source.join(rows, as_column(self.conditions.on), "left_anti")
        chosen = source.withColumn(ACTION_COLUMN, _first(self.conditions.not_matched, start=0, otherwise=None))
        clauses = dict(enumerate(values))
        made = _made(clauses, range(len(values)), outputs, F.col)
        return chosen.where(f"{ACTION_COLUMN} IS NOT NULL").select(*made)

    def _pairs(self, rows: DataFrame, how: str) -> DataFrame:
        """Rows of the table beside rows of the source, with the action of matched ones; NULL for others."""
        source = self._hinted().withColumn(_IN_SOURCE, F.lit(True))
        pairs = rows.join(source, as_column(self.conditions.on), how)
        action = _first(self.conditions.matched, start=0, otherwise=LEFT_ALONE)
        return pairs.withColumn(ACTION_COLUMN, F.when(F.col(_IN_SOURCE), action))

    def _hinted(self) -> DataFrame:
        return F.broadcast(self.source) if self.source_is_small else self.source


def as_column(condition: Column | str) -> Column:
    """A condition for a call that takes no SQL."""
    return F.expr(condition) if isinstance(condition, str) else condition


def output_name(place: int) -> str:
    """What a frame calls the new value of a column, so that it is not taken for the old one."""
    return f"__anabranch_new_{place}"


def _values_of(rows: DataFrame) -> Callable[[str], Column]:
    return lambda name: rows[quote(name)]


def _first(conditions: Sequence[Column | str | None], *, start: int, otherwise: int | None) -> Column:
    """Number of the first condition that is true."""
    chosen = F.lit(otherwise).cast("int")
    for place in range(len(conditions) - 1, -1, -1):
        condition = conditions[place]
        number = F.lit(start + place)
        chosen = number if condition is None else F.when(as_column(condition), number).otherwise(chosen)
    return chosen


def _made(
    values: Mapping[int, ClauseValues],
    actions: range,
    outputs: Sequence[str],
    current: Callable[[str], Column],
    *,
    action: str = ACTION_COLUMN,
    otherwise: bool = False,
) -> list[Column]:
    """The outputs, by the clause that applies; with `otherwise` what another clause made stays."""
    chosen = {number: values[number].outputs(current) for number in actions if number in values}
    made = []
    for place, name in enumerate(outputs):
        value = F.col(output_name(place)) if otherwise else F.lit(None)
        for number in reversed(chosen):
            given = chosen[number].get(name, F.lit(None))
            value = F.when(F.col(action) == number, given).otherwise(value)
        made.append(value.alias(output_name(place)))
    return made
