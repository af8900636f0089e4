"""Which isolation levels a history satisfies, with a witness where it does not.

A version is a node. An edge leads from one to another that must come later in a serial order: because the later one
read or overwrote what the earlier one wrote, or because the earlier one read rows as they were before the later one.

- `Serializable`: the order of the log is a serial order: each statement depends only on rows that are in the version
  before its own as it saw them.
- `WriteSerializable`: the statements that write have some serial order: the edges form no cycle.
- `SnapshotIsolation`: each statement read one version, and no other changed the same rows between that and its own.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Mapping, Sequence

from anabranch_judge.attribution import Attribution, reads_seen
from anabranch_judge.effects import conditions
from anabranch_judge.rows import Condition, Row, key_of, matches, text_of
from anabranch_judge.table_log import TableLog

LEVELS = ("Serializable", "WriteSerializable", "SnapshotIsolation")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dependency:
    """Rows that the statement of a version depends on, and the last version whose rows it saw."""

    where: Condition
    seen: int
    is_read: bool
    """Whether its writer recorded the read; otherwise it is the condition of a change."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Edge:
    """One version must come before another in every serial order."""

    before: int
    after: int
    reason: str


class Isolation:
    """The dependencies between the versions of a history."""

    def __init__(self, log: TableLog, attribution: Attribution, key: Sequence[str]) -> None:
        self.log, self.attribution, self.key = log, attribution, key
        self.dependencies = {version: self._dependencies(version) for version in sorted(attribution.statements)}

    def name(self, version: int) -> str:
        """A version with its statement, or without."""
        statement = self.attribution.statements.get(version)
        return f"version {version}" if statement is None else f"{statement}, version {version},"

    def _dependencies(self, version: int) -> list[Dependency]:
        statement, found = self.attribution.statements[version], list[Dependency]()
        effect_seen = self.attribution.effects_seen.get(version)
        if effect_seen is not None:
            wheres = conditions(statement, self.key)
            found += [Dependency(where=where, seen=effect_seen, is_read=False) for where in wheres]
        seen = reads_seen(statement, self.log, before=version, first=self.attribution.first)
        if seen is not None:
            found += [Dependency(where=read.where, seen=seen, is_read=True) for read in statement.reads]
        return found

    def _changed(self, version: int, where: Condition) -> Row | None:
        """A row of the condition that the version added or removed."""
        rows = sorted(self.log.versions[version].difference.rows, key=repr)
        return next((row for row in rows if matches(row, where)), None)

    def _keys(self, version: int) -> Mapping[Row, Row]:
        """The keys that a version changed, each with a row."""
        return {key_of(row, self.key): row for row in sorted(self.log.versions[version].difference.rows, key=repr)}

    def not_serializable(self) -> str | None:
        """Why the order of the log is no serial order; None if it is one."""
        for version, dependencies in self.dependencies.items():
            for dependency in dependencies:
                for other in range(dependency.seen + 1, version):
                    row = self._changed(other, dependency.where)
                    if row is not None:
                        return (
                            f"{self.name(version)} depends on rows where {text_of(dependency.where)} as version "
                            f"{dependency.seen} has them, and {self.name(other)} changed them since: ({text_of(row)})"
                        )
        return None

    def lost_updates(self) -> list[tuple[int, str]]:
        """The versions that overwrite rows which changed after their statement had read them."""
        lost = []
        for version, dependencies in self.dependencies.items():
            keys = self._keys(version)
            for seen in {dependency.seen for dependency in dependencies if dependency.is_read}:
                for other in range(seen + 1, version):
                    common = sorted(keys.keys() & self._keys(other).keys(), key=repr)
                    if common:
                        text = (
                            f"{self.name(version)} had read version {seen} and changes the row {text_of(common[0])}, "
                            f"which {self.name(other)} had changed to ({text_of(self._keys(other)[common[0]])})"
                        )
                        lost.append((version, text))
                        break
        return lost

    def not_write_serializable(self) -> str | None:
        """Why no order of the statements explains the log; None if one does."""
        if self.not_serializable() is None:
            return None
        edges = self._edges()
        cycles = [[back, *path] for back in self._back_edges(edges) if (path := _path(edges, back.after, back.before))]
        if not cycles:
            return None
        shortest = min(cycles, key=len)
        return "there is no serial order: " + "; ".join(
            f"{self.name(edge.before)} must come before {self.name(edge.after)} since {edge.reason}"
            for edge in shortest
        )

    def _back_edges(self, edges: Mapping[int, list[Edge]]) -> list[Edge]:
        return [edge for outgoing in edges.values() for edge in outgoing if edge.after < edge.before]

    def _edges(self) -> dict[int, list[Edge]]:
        """All edges, by the version that must come first."""
        edges: dict[int, list[Edge]] = {}
        nodes = [v.number for v in self.log.versions[self.attribution.first + 1 :] if v.difference]

        def add(before: int, after: int, reason: str) -> None:
            edges.setdefault(before, []).append(Edge(before=before, after=after, reason=reason))

        last: dict[Row, int] = {}
        for version in nodes:
            for key in self._keys(version):
                if key in last:
                    add(last[key], version, f"both change the row {text_of(key)}")
                last[key] = version
        for version, dependencies in self.dependencies.items():
            for dependency in dependencies:
                for other in nodes:
                    row = self._changed(other, dependency.where) if other != version else None
                    if row is not None and other <= dependency.seen:
                        add(other, version, f"the second depends on ({text_of(row)}) of the first")
                    elif row is not None:
                        add(
                            version,
                            other,
                            f"the first depends on rows as they were before the second: ({text_of(row)})",
                        )
        return edges


def _path(edges: Mapping[int, list[Edge]], start: int, end: int) -> list[Edge]:
    """The shortest path from one version to another, empty if there is none."""
    paths: dict[int, list[Edge]] = {start: []}
    queue = deque([start])
    while queue:
        version = queue.popleft()
        for edge in edges.get(version, ()):
            if edge.after not in paths:
                paths[edge.after] = [*paths[version], edge]
                if edge.after == end:
                    return paths[end]
                queue.append(edge.after)
    return []
