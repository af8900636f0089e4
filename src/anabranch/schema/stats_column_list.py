"""`delta.dataSkippingStatsColumns` after columns that it names were renamed or dropped."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from anabranch.protocol.properties import TableProperties
from anabranch.schema.paths import FieldPath, fold, quoted

PROPERTY = "delta.dataSkippingStatsColumns"


def with_renamed_stats_column(properties: Mapping[str, str], path: FieldPath, new_name: str) -> dict[str, str]:
    """`properties` with the column, and what lies below it, under its new name."""

    def rename(named: FieldPath) -> FieldPath | None:
        return (*named[: len(path) - 1], new_name, *named[len(path) :]) if _is_below(named, path) else named

    return _rewritten(properties, rename)


def without_stats_column(properties: Mapping[str, str], path: FieldPath) -> dict[str, str]:
    """`properties` without the column and what lies below it."""
    return _rewritten(properties, lambda named: None if _is_below(named, path) else named)


def _rewritten(properties: Mapping[str, str], change: Callable[[FieldPath], FieldPath | None]) -> dict[str, str]:
    named = TableProperties(properties).stats_columns
    if named is None:
        return dict(properties)
    changed = [new for path in named if (new := change(path)) is not None]
    return {**properties, PROPERTY: ",".join(map(quoted, changed))}


def _is_below(named: FieldPath, path: FieldPath) -> bool:
    return [fold(part) for part in named[: len(path)]] == [fold(part) for part in path]
