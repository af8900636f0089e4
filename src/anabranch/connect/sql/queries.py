"""`spark.sql` over Delta tables: each table a query reads becomes a DataFrame of one fixed version."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame

from anabranch.connect.sql.reads import DeltaRead, Reader, with_placeholders
from anabranch.spark.delta_session import DeltaSession
from anabranch.sql.call import OwnSql
from anabranch.sql.parameters import Parameters, markers


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenQuery:
    """A statement whose Delta tables are placeholders, for PySpark to fill with DataFrames."""

    text: str
    frames: dict[str, DataFrame]
    parameters: Parameters

    def run(self, own_sql: OwnSql, fields: Mapping[str, Any]) -> DataFrame:
        """Hand the statement to PySpark, its DataFrames as format fields."""
        return own_sql(self.text, self.parameters.args, **fields, **self.frames)


def rewrite_query(
    session: DeltaSession,
    text: str,
    *,
    has_fields: bool,
    parameters: Parameters | None = None,
    named: Mapping[str, DataFrame] | None = None,
) -> RewrittenQuery | None:
    """The statement with its Delta tables replaced; None where it reads none.

    With `has_fields` the text is a format string already: `{df}` stands for a DataFrame and braces are
    doubled. Tables named twice at one version become one DataFrame, so that a statement sees one snapshot.
    `named` are DataFrames that the text may name as tables.
    """
    given = parameters or Parameters()
    reads = Reader(session, named).reads(text, given)
    if not reads:
        return None
    rewritten, frames = with_placeholders(text, reads, has_fields=has_fields)
    return RewrittenQuery(text=rewritten, frames=frames, parameters=given.without(_used_for_names(text, reads)))


def _used_for_names(text: str, reads: list[DeltaRead]) -> list[int]:
    """Numbers of the `?` that stand where the text is replaced."""
    places = [marker.start for marker in markers(text) if marker.name is None]
    gone = [(read.reference.start, read.reference.end) for read in reads]
    return [number for number, at in enumerate(places) if any(start <= at < end for start, end in gone)]
