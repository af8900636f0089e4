"""What a version did that its statement does not explain: updates that it lost, rows that it brought back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from anabranch_judge.attribution import Attribution, difference_of, floor_of
from anabranch_judge.effects import Difference, effect
from anabranch_judge.faults import Fault
from anabranch_judge.recorded_history import Statement
from anabranch_judge.rows import Row, key_of, text_of
from anabranch_judge.table_log import TableLog


class Explainer:
    """The reasons for what a version did beyond its statement."""

    def __init__(self, log: TableLog, attribution: Attribution, key: Sequence[str]) -> None:
        self.log, self.attribution, self.key = log, attribution, key

    def name(self, version: int) -> str:
        """A version with its statement."""
        statement = self.attribution.statements.get(version)
        return f"version {version}" if statement is None else f"version {version} of {statement}"

    def faults_of_version(self, version: int) -> list[Fault]:
        """What is wrong with a version's difference from the one before."""
        difference = self.log.versions[version].difference
        statement = self.attribution.statements.get(version)
        if version in self.attribution.effects_seen or (statement is None and not difference):
            return []
        expected = Difference(removed=Counter(), added=Counter())
        if statement is not None:
            expected = difference_of(statement, self.log, version, self.key)
        surplus = Difference(removed=difference.removed - expected.removed, added=difference.added - expected.added)
        missing = Difference(removed=expected.removed - difference.removed, added=expected.added - difference.added)
        faults = self._faults_of_surplus(version, statement, surplus)
        stale = {key_of(row, self.key) for row in surplus.added} if statement is not None else set()
        absent = [row for row in sorted(missing.rows, key=repr) if key_of(row, self.key) not in stale]
        if absent:
            text = f"{self.name(version)} lacks a part of the statement: nothing happened to {_texts(absent)}"
            faults.append(Fault("part of a statement", version, statement.name if statement else None, text))
        return faults

    def _faults_of_surplus(self, version: int, statement: Statement | None, surplus: Difference) -> list[Fault]:
        replaced = {key_of(row, self.key): row for row in surplus.removed}
        before = {key_of(row, self.key): row for row in self.log.versions[version - 1].rows}
        faults = []
        for row in sorted(surplus.added, key=repr):
            faults.append(self._fault_of_added(version, statement, row, before.get(key_of(row, self.key))))
            replaced.pop(key_of(row, self.key), None)
        lost = sorted(replaced.values(), key=repr)
        if lost:
            inserted = {self.name(u) for row in lost if (u := self._last(version, row, added=True)) is not None}
            origin = f", which came with {', '.join(sorted(inserted))}" if inserted else ""
            text = f"{self.name(version)} removes {_texts(lost)}{origin}; no recorded statement does that here"
            faults.append(Fault("lost row", version, statement.name if statement else None, text))
        return faults

    def _fault_of_added(self, version: int, statement: Statement | None, row: Row, before: Row | None) -> Fault:
        """What it means that a version has a row that its statement does not make of the version before."""
        name = statement.name if statement else None
        stale = self._stale_version(version, statement, row)
        if stale is not None and before is not None:
            others = [self.name(u) for u in range(stale + 1, version) if self._touches(u, row)]
            text = (
                f"{self.name(version)} writes {text_of(row)}, computed from version {stale}. What {', '.join(others)} "
                f"made of that row, {text_of(before)}, is lost"
            )
            return Fault("lost update", version, name, text)
        gone = self._last(version, row, added=False)
        if gone is not None and before is not None:
            text = f"{self.name(version)} brings {text_of(row)} back; what {self.name(gone)} made of it is lost"
            return Fault("lost update", version, name, text)
        if gone is not None:
            text = f"{self.name(version)} brings back {text_of(row)}, which {self.name(gone)} had removed"
            return Fault("resurrected row", version, name, text)
        text = f"{self.name(version)} adds {text_of(row)}, which no recorded statement writes here"
        again = [s.name for v, s in self.attribution.statements.items() if v < version and self._touches(v, row)]
        if statement is None and again and before == row:
            text = f"version {version} adds {text_of(row)} a second time, after {', '.join(again)}"
            return Fault("written twice", version, name, text)
        return Fault("unexplained row", version, name, text)

    def _stale_version(self, version: int, statement: Statement | None, row: Row) -> int | None:
        if statement is None:
            return None
        floor = floor_of(statement, self.attribution.first)
        for number in range(version - 2, floor - 1, -1):
            if row in effect(statement, self.log.versions[number].rows, self.key).added:
                return number
        return None

    def _last(self, version: int, row: Row, *, added: bool) -> int | None:
        """The last version before that added the row, or removed it."""
        for number in range(version - 1, -1, -1):
            difference = self.log.versions[number].difference
            if row in (difference.added if added else difference.removed):
                return number
        return None

    def _touches(self, version: int, row: Row) -> bool:
        key = key_of(row, self.key)
        return any(key_of(changed, self.key) == key for changed in self.log.versions[version].difference.rows)


def _texts(rows: Sequence[Row]) -> str:
    shown = "; ".join(f"({text_of(row)})" for row in rows[:5])
    return shown if len(rows) <= 5 else f"{shown} and {len(rows) - 5} more rows"
