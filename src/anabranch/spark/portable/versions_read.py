"""Finding our own scans in a DataFrame.

Every read of ours carries an option that says which version of which table it reads. On Spark Connect the frame itself
is searched for it, as the client holds it; on a classic session the analysed plan.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

MARK_OPTION = "anabranch.read"
_MARK = re.compile(r"anabranch: version (\d+|past) of ([^\0\n]*)\n")


def mark(version: int | None, table_root: str) -> str:
    """What a read says of itself; None is for time travel."""
    return f"anabranch: version {'past' if version is None else version} of {table_root}\n"


def versions_read(frame: DataFrame, table_root: str) -> frozenset[int]:
    """See `Engine.versions_read`. On Connect, reads behind a temporary view do not show."""
    found = (match.groups() for text in _texts(frame) for match in _MARK.finditer(text))
    return frozenset(int(version) for version, root in found if root == table_root and version != "past")


def _texts(frame: Any) -> Iterator[str]:
    if type(frame).__module__.startswith("pyspark.sql.connect"):
        plan = frame._plan.to_proto(frame._session.client)
        yield plan.SerializeToString().decode("utf-8", errors="replace")
        return
    analysed = frame._jdf.queryExecution().analyzed()
    nested = analysed.subqueriesAll()
    for part in (analysed, *(nested.apply(i) for i in range(nested.size()))):
        leaves = part.collectLeaves()
        for i in range(leaves.size()):
            yield from _options(leaves.apply(i))


def _options(leaf: Any) -> Iterator[str]:
    if leaf.getClass().getSimpleName() != "LogicalRelation":
        return
    relation = leaf.relation()
    if relation.getClass().getSimpleName() == "HadoopFsRelation":
        option = relation.options().get(MARK_OPTION)
        if option.isDefined():
            yield str(option.get())
