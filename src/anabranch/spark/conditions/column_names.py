"""The names by which a statement uses its table's columns: an alias and names, or attributes of a resolved plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

from anabranch.snapshot.snapshot import Snapshot


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class BoundAttributes:
    """The attributes that a resolved plan has for a table's first columns, in order.

    Columns made from the plan's expressions refer to them, and are resolved in frames that `named` has returned.
    """

    attributes: Any
    """A Scala Seq."""
    metadata: Any = None
    """The plan's attribute for `_metadata` of the rows; None where the statement does not use that column."""
    check: Callable[[Snapshot], None] = lambda _: None
    """Raises `SchemaChangedSinceAnalysisError` where the table has other columns at that version."""
    version: int | None = None
    """The version that was looked up for just this statement, which reads nothing else of the table; else None."""
    lacks_columns: Callable[[Snapshot], bool] = lambda _: False
    """Whether the table has more columns at that version, behind these, and else the same. Raises as `check`."""


RowNames = str | BoundAttributes | None
"""An alias, attributes, or None for the table's own names alone."""


def metadata_columns(names: RowNames) -> list[str]:
    """`_metadata`, if the statement reads it, else nothing. Rewriting the files of a table changes its values."""
    return ["_metadata"] if isinstance(names, BoundAttributes) and names.metadata is not None else []


def named(frame: DataFrame, names: RowNames) -> DataFrame:
    """The frame, which has a table's columns first, with the statement's names for them."""
    if names is None:
        return frame
    if isinstance(names, str):
        return frame.alias(names)
    jvm: Any = frame.sparkSession._jvm
    rows = jvm.anabranch.PlanFunctions.named(frame._jdf, names.attributes, names.metadata)
    return DataFrame(rows, frame.sparkSession)


def named_again(frame: DataFrame, names: RowNames) -> DataFrame:
    """A frame made from one that `named` returned, under the same names: attributes stay, but an alias is lost."""
    return frame.alias(names) if isinstance(names, str) else frame


def alias_of_text(names: RowNames) -> str | None:
    """The alias that SQL text may use for the table; None where there is none."""
    return names if isinstance(names, str) else None


def alias_of(frame: DataFrame) -> str | None:
    """The qualifier of all columns of the frame, an alias or a table's name; None where they have none, or several."""
    try:
        output = frame._jdf.queryExecution().analyzed().output()
        names = set()
        for index in range(output.length()):
            qualifier = output.apply(index).qualifier()
            names.add(str(qualifier.apply(qualifier.length() - 1)) if qualifier.length() else None)
    except Py4JError:
        return None
    return names.pop() if len(names) == 1 else None
