"""Whether a DataFrame gives the same rows each time it runs, as far as its plan tells."""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql import DataFrame

from anabranch.spark.session_identity import is_connect
from anabranch.spark.unresolved.written_join import CHANCE_FUNCTIONS

_STEADY_LEAVES = frozenset({"LocalRelation", "LogicalRDD", "Range", "OneRowRelation", "InMemoryRelation"})
_CHANCE = re.compile(rb"\b(" + "|".join(sorted(CHANCE_FUNCTIONS)).encode() + rb")\b", re.IGNORECASE)


def gives_the_same_again(frame: DataFrame) -> bool:
    """Whether rows that were kept in a cache and lost are the same when they are computed anew.

    On Spark Connect the question is another: plans are resolved each time, and where that draws a new seed the cache
    is not found again. There, files that change are no danger to a frame that was cached.
    """
    if is_connect(frame.sparkSession):
        held: Any = frame
        # The client has the plan as it was written, names of functions and texts of SQL included.
        return _CHANCE.search(held._plan.to_proto(held._session.client).SerializeToString()) is None
    plan = frame._jdf.queryExecution().analyzed()
    if not plan.deterministic():
        return False
    leaves = plan.collectLeaves()
    return all(str(leaves.apply(place).nodeName()) in _STEADY_LEAVES for place in range(leaves.size()))
