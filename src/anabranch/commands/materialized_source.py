"""The source of a statement, evaluated once however many jobs read it."""

from __future__ import annotations

import dataclasses

from pyspark.sql import DataFrame

from anabranch.spark.conditions.repeatable_rows import is_repeatable, keep
from anabranch.spark.engine import KeptRows


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FrozenSource:
    """The rows of a source, which stay what they are until the statement is done."""

    frame: DataFrame
    """Its columns are called what they were, also by Columns taken from the user's frame."""
    kept: tuple[KeptRows, ...]
    """What is to be let go of at the end: nothing where the user had cached the frame before."""


def freeze(source: DataFrame, *, counts: bool = True) -> FrozenSource:
    """The source, to be evaluated by the first job that reads it. Observations of it are completed as `keep` says."""
    level = source.storageLevel
    if level.useMemory or level.useDisk or level.useOffHeap:
        return FrozenSource(frame=source, kept=())
    if is_repeatable(source):
        rows = keep(source, counts=counts)
        return FrozenSource(frame=rows.frame, kept=(rows,))
    # Rows of a checkpoint are never computed again.
    return FrozenSource(frame=source.localCheckpoint(eager=False), kept=())
