"""Finding our own scans in the plan of a DataFrame."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

from anabranch.predicates.catalyst import from_catalyst
from anabranch.predicates.expressions import Predicate, conjunction

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
            location = _location(leaves.apply(i))
            if location is not None:
                yield location


def _location(leaf: Any) -> str | None:
    """What the file index of a relation says of itself; None for other operators."""
    if leaf.getClass().getSimpleName() != "LogicalRelation":
        return None
    relation = leaf.relation()
    return str(relation.location().toString()) if relation.getClass().getSimpleName() == "HadoopFsRelation" else None


def predicates_read(frame: DataFrame, table_root: str) -> list[Predicate] | None:
    """The conditions under which the frame reads a table, one a scan, in the names of the plan's attributes.

    None where scans are not all found in the plan that Spark made, as behind cached rows.
    """
    execution = frame._jdf.queryExecution()
    wanted = sum(_is_of(location, table_root) for location in _locations(execution.analyzed()))
    optimized = execution.optimizedPlan()
    zone = frame.sparkSession.conf.get("spark.sql.session.timeZone") or "UTC"
    nested = optimized.subqueriesAll()
    found = [
        conjunction(filters)
        for part in (optimized, *(nested.apply(i) for i in range(nested.size())))
        for location, filters in _scans(part, (), zone)
        if _is_of(location, table_root)
    ]
    return found if len(found) == wanted else None


def _scans(plan: Any, filters: tuple[Predicate, ...], zone: str) -> Iterator[tuple[str, tuple[Predicate, ...]]]:
    """Our scans below, with the filters right above each: those above anything else may speak of other columns."""
    if plan.nodeName() == "Filter":
        condition = plan.condition()
        here = from_catalyst(condition.toJSON(), session_time_zone=zone, sql=condition.sql())
        yield from _scans(plan.child(), (*filters, here), zone)
        return
    location = _location(plan)
    if location is not None:
        yield location, filters
    children = plan.children()
    for i in range(children.size()):
        yield from _scans(children.apply(i), (), zone)


def _is_of(location: str, table_root: str) -> bool:
    match = _DESCRIPTION.fullmatch(location)
    return match is not None and match[2] == table_root and match[1] != "past"
