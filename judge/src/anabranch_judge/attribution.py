"""Which statement made which version, and which version's rows it had seen."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from anabranch_judge.effects import Difference, effect
from anabranch_judge.faults import Fault
from anabranch_judge.recorded_history import Read, Statement
from anabranch_judge.rows import Rows, matching
from anabranch_judge.table_log import TableLog

ORDER = {"committed": 0, "unknown": 1, "conflict": 2}
"""Statements that are certainly in the log are searched there first."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Attribution:
    """The versions of a log, each with the statement that made it."""

    statements: Mapping[int, Statement]
    """By version. A version without a statement is maintenance, such as a compaction, or a fault."""
    effects_seen: Mapping[int, int]
    """For versions whose difference is what their statement does: the latest version on whose rows it does that."""
    first: int
    """The last version before the history: the versions up to it are not judged."""
    faults: Sequence[Fault]


class Attributor:
    """The search for the statement of each version."""

    def __init__(self, log: TableLog, statements: Sequence[Statement], key: Sequence[str], first: int | None) -> None:
        self.log, self.statements, self.key = log, statements, key
        self.by_version: dict[int, Statement] = {}
        self.faults: list[Fault] = []
        self._first = first
        self._effects: dict[tuple[str, int], Difference] = {}

    def attribution(self) -> Attribution:
        """The statements by version. First what writers and commits say, then what their effects show."""
        named = [statement for statement in self.statements if self._by_name(statement)]
        first = self._first if self._first is not None else self._last_before_the_history()
        rest = [s for s in self.statements if s not in named and s.changes]
        self._by_effect(sorted(rest, key=lambda statement: ORDER[statement.outcome]), first)
        self.faults += [fault for statement in rest if (fault := self._fault_of_missing(statement, first)) is not None]
        for version, statement in self.by_version.items():
            if statement.outcome == "conflict":
                text = f"{statement} was refused, and version {version} has its changes"
                self.faults.append(Fault("refused and written", version, statement.name, text))
        seen = {version: self.seen(statement, version, first) for version, statement in self.by_version.items()}
        return Attribution(
            statements=self.by_version,
            effects_seen={version: number for version, number in seen.items() if number is not None},
            first=first,
            faults=self.faults,
        )

    def seen(self, statement: Statement, version: int, first: int) -> int | None:
        """The latest version before `version` on whose rows the statement does what `version` did; None without one."""
        difference = self.log.versions[version].difference
        for number in range(version - 1, floor_of(statement, first) - 1, -1):
            if self._effect(statement, number) == difference:
                return number
        return None

    def _effect(self, statement: Statement, version: int) -> Difference:
        """What the statement would do to the rows of a version, computed once."""
        if (statement.name, version) not in self._effects:
            self._effects[statement.name, version] = effect(statement, self.log.versions[version].rows, self.key)
        return self._effects[statement.name, version]

    def _by_name(self, statement: Statement) -> bool:
        """Whether the statement's writer or the commit itself says which version it made."""
        versions = [version.number for version in self.log.versions if version.says(statement.name)]
        if len(versions) > 1:
            text = f"{statement} is in the log {len(versions)} times, as versions {versions}"
            self.faults.append(Fault("written twice", versions[-1], statement.name, text))
        if statement.version is None and not versions:
            return False
        number = versions[0] if versions else statement.version
        assert number is not None
        if statement.version not in {None, number}:
            text = f"{statement} was acknowledged as version {statement.version}, and version {number} carries its name"
            self.faults.append(Fault("wrong version", number, statement.name, text))
        if number >= len(self.log.versions):
            text = f"{statement} was acknowledged as version {number}, which the log does not have"
            self.faults.append(Fault("lost write", None, statement.name, text))
        elif number in self.by_version:
            text = f"{statement} and {self.by_version[number]} were both acknowledged as version {number}"
            self.faults.append(Fault("lost write", number, statement.name, text))
        else:
            self.by_version[number] = statement
        return True

    def _last_before_the_history(self) -> int:
        """The earliest version that a statement read, or the one before the first that a statement made."""
        read = [read.version for s in self.statements for read in s.reads if read.version is not None]
        made = [version - 1 for version in self.by_version]
        return max(0, min([*read, *made], default=0))

    def _by_effect(self, statements: Sequence[Statement], first: int) -> None:
        """A maximum matching of the statements with versions that no other statement made, by their differences."""
        open_versions = [
            version.number
            for version in self.log.versions[first + 1 :]
            if version.difference and version.number not in self.by_version
        ]
        candidates = {
            id(statement): [version for version in open_versions if self.seen(statement, version, first) is not None]
            for statement in statements
        }
        matched: dict[int, Statement] = {}

        def match(statement: Statement, visited: set[int]) -> bool:
            for version in candidates[id(statement)]:
                if version not in visited:
                    visited.add(version)
                    if version not in matched or match(matched[version], visited):
                        matched[version] = statement
                        return True
            return False

        for statement in statements:
            match(statement, set())
        self.by_version |= matched

    def _fault_of_missing(self, statement: Statement, first: int) -> Fault | None:
        """A fault if an acknowledged statement is in no version and would change rows of all that it may have seen."""
        if statement.outcome != "committed" or statement in self.by_version.values():
            return None
        start = floor_of(statement, first)
        if not all(self._effect(statement, version) for version in range(start, len(self.log.versions))):
            return None
        text = f"{statement} was acknowledged, and no version has its changes"
        return Fault("lost write", None, statement.name, text)


def floor_of(statement: Statement, first: int) -> int:
    """The earliest version whose rows the statement may have seen."""
    return max([first, *(read.version for read in statement.reads if read.version is not None)])


def reads_seen(statement: Statement, log: TableLog, *, before: int, first: int) -> int | None:
    """The latest version before `before` with the rows of all reads of the statement; None without one."""
    if any(read.version is not None and read.version >= before for read in statement.reads):
        return None
    expected = [(read.where, _rows_of(read, log)) for read in statement.reads]
    for number in range(before - 1, floor_of(statement, first) - 1, -1):
        if all(matching(log.versions[number].rows, where) == rows for where, rows in expected):
            return number
    return None


def _rows_of(read: Read, log: TableLog) -> Rows:
    """The rows that a read returned, or that the version has which it read."""
    if read.rows is not None:
        return read.rows
    assert read.version is not None
    return matching(log.versions[read.version].rows, read.where)


def difference_of(statement: Statement, log: TableLog, version: int, key: Sequence[str]) -> Difference:
    """What the statement would do to the rows of the version before."""
    return effect(statement, log.versions[version - 1].rows, key)
