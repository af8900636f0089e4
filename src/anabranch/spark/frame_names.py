"""What a DataFrame is called, by `DataFrame.alias` or as a table."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

from anabranch.spark.session_identity import is_connect

_SAME_NAMES = frozenset({"Deduplicate", "Filter", "Limit", "Offset", "Repartition", "Sort"})
"""Operators of Spark Connect whose columns are called as those of their input."""


def alias_of(frame: DataFrame) -> str | None:
    """The one name that may stand before all columns of the frame; None where they have none, or several."""
    if is_connect(frame.sparkSession):
        plan: Any = frame._plan
        while type(plan).__name__ in _SAME_NAMES:
            plan = plan._child
        alias = getattr(plan, "_alias", None)
        return alias if isinstance(alias, str) else None
    try:
        output = frame._jdf.queryExecution().analyzed().output()
        names = set()
        for place in range(output.length()):
            qualifier = output.apply(place).qualifier()
            names.add(str(qualifier.apply(qualifier.length() - 1)) if qualifier.length() else None)
    except Py4JError:
        return None
    return names.pop() if len(names) == 1 else None
