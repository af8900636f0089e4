"""What a statement calls the columns of its table: an alias and names, or the attributes of a resolved plan."""

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

    Columns made of the plan's expressions find them in frames that `named` has renamed.
    """

    attributes: Any
    """A Scala Seq."""
    metadata: Any = None
    """The attribute that it has for `_metadata` of the rows; None where the statement does not name that."""
    check: Callable[[Snapshot], None] = lambda _: None
    """Raises `SchemaChangedSinceAnalysisError` where the table has other columns at that version."""


RowNames = str | BoundAttributes | None
"""An alias, attributes, or the table's own names alone."""


def metadata_named(names: RowNames) -> list[str]:
    """The column `_metadata`, where the statement asks for it: rewriting the files changes what it says of a row."""
    return ["_metadata"] if isinstance(names, BoundAttributes) and names.metadata is not None else []


def check_resolved(names: RowNames, snapshot: Snapshot) -> None:
    """Raises `SchemaChangedSinceAnalysisError` where attributes are those of other columns than the version has."""
    if isinstance(names, BoundAttributes):
        names.check(snapshot)


def named(frame: DataFrame, names: RowNames) -> DataFrame:
    """The rows of a table, as they are read, under the statement's names."""
    if names is None:
        return frame
    if isinstance(names, str):
        return frame.alias(names)
    jvm: Any = frame.sparkSession._jvm
    session: Any = frame.sparkSession._jsparkSession
    plan = jvm.delta.Plans.under(frame._jdf.logicalPlan(), names.attributes, names.metadata)
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(session, plan), frame.sparkSession)


def named_again(frame: DataFrame, names: RowNames) -> DataFrame:
    """Rows made of a frame that `named` gave, under the same names. Attributes stay; an alias is lost on the way."""
    return frame.alias(names) if isinstance(names, str) else frame


def alias_of_text(names: RowNames) -> str | None:
    """What SQL text may call the table."""
    return names if isinstance(names, str) else None


# What a DataFrame is called, by `DataFrame.alias` or as a table.


def alias_of(frame: DataFrame) -> str | None:
    """The one name that may stand before all columns of the frame; None where they have none, or several."""
    try:
        output = frame._jdf.queryExecution().analyzed().output()
        names = set()
        for place in range(output.length()):
            qualifier = output.apply(place).qualifier()
            names.add(str(qualifier.apply(qualifier.length() - 1)) if qualifier.length() else None)
    except Py4JError:
        return None
    return names.pop() if len(names) == 1 else None
