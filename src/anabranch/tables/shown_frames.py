"""Results of commands, which a notebook shows as tables."""

from __future__ import annotations

import weakref
from typing import Any

from pyspark.sql import DataFrame

from anabranch.display_tables import html_paragraph, html_table

ROWS_MAX = 20


def shown_as_table(frame: DataFrame) -> DataFrame:
    """The same DataFrame. A notebook shows its first rows, and not only the names of its columns, as it does for others
    unless `spark.sql.repl.eagerEval.enabled` is set.
    """
    weak = weakref.ref(frame)
    vars(frame)["_repr_html_"] = lambda: _html(weak())
    return frame


def _html(frame: Any) -> str | None:
    if frame is None:
        return None
    by_spark: str | None = type(frame)._repr_html_(frame)
    if by_spark is not None:
        return by_spark
    rows = frame.limit(ROWS_MAX + 1).collect()
    texts = [["" if value is None else str(value) for value in row] for row in rows[:ROWS_MAX]]
    more = html_paragraph(f"The first {ROWS_MAX} rows.") if len(rows) > ROWS_MAX else ""
    return f"{html_table(frame.columns, texts)}{more}"
