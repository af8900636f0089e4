"""Finding our own scans in the plan of a DataFrame."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

_DESCRIPTION = re.compile(r"anabranch: version (\d+|past) of (.*)", re.DOTALL)


def description_of(version: int | None, table_root: str) -> str:
    """How the file index of a scan describes itself; `versions_read` reads it back."""
    return f"anabranch: version {'past' if version is None else version} of {table_root}"


def versions_read(frame: DataFrame, table_root: str) -> frozenset[int]:
    """See `Engine.versions_read`. Subqueries and cached frames count; what went through a checkpoint does not show."""
    found = set()
    for location in _locations(frame._jdf.queryExecution().analyzed()):
        match = _DESCRIPTION.fullmatch(location)
        if match is not None and match[2] == table_root and match[1] != "past":
            found.add(int(match[1]))
    return frozenset(found)


def _locations(plan: Any) -> Iterator[str]:
    """What the file indexes of the plan, its subqueries included, say of themselves."""
    nested = plan.subqueriesAll()
    for part in (plan, *(nested.apply(i) for i in range(nested.size()))):
        leaves = part.collectLeaves()
        for i in range(leaves.size()):
            leaf = leaves.apply(i)
            if leaf.getClass().getSimpleName() != "LogicalRelation":
                continue
            relation = leaf.relation()
            if relation.getClass().getSimpleName() == "HadoopFsRelation":
                yield str(relation.location().toString())
