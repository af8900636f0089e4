"""The judge of a soak: every version of a table must follow from the one before by the statement that its commit names.

Under Serializable that is so without exception. Under WriteSerializable a statement may precede blind appends that
it has not seen. What was reported to writers is compared with the log: what was acknowledged is there once, or changes
nothing; what was refused is not there; what was killed is there once or not at all.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path
from typing import Any

from anabranch.storage.local.local_store import LocalStore
from soak.descriptions import problems_of_description
from soak.model import EFFECTS, KEEPING, Inapplicable, Row, State, Statement
from soak.refusals import problem_of_refusal
from soak.statements import level_of
from soak.versions import Values, Version, Versions, row_of
from transactions.log_linter import lint

MAINTENANCE = frozenset({"OPTIMIZE", "VACUUM START", "VACUUM END", "REORG", "ROW TRACKING BACKFILL"})
"""Operations that change no row, of any writer."""
REORDERED = frozenset({"update", "delete", "merge", "insert_select", "replace_where", "overwrite"})


@dataclasses.dataclass
class Begun:
    """A statement that a writer says it began, and the result that it got."""

    name: str
    statement: Statement
    newest: int
    """The newest version before it began."""
    ended: dict[str, Any] | None = None
    """None while it runs, and for good where its writer was killed."""
    versions: list[int] = dataclasses.field(default_factory=list)
    """Those that name it."""


class TableJudge:
    """Judges one table as it grows."""

    def __init__(self, path: Path, kind: str) -> None:
        self.kind, self.path = kind, path
        self.versions = Versions(path)
        self.states: list[State] = []
        self.appended: dict[int, int] = {}
        """Ids that a blind append brought, and its version."""
        self.infos: list[dict[str, Any]] = []
        self.begun: dict[str, Begun] = {}
        self.unjudged: dict[str, Begun] = {}
        self.counts: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.example: dict[str, str] = {}
        self.last: Version | None = None

    def begin(self, begun: Begun) -> None:
        self.begun[begun.name] = self.unjudged[begun.name] = begun

    def end(self, name: str, ended: dict[str, Any]) -> Statement:
        """The result of a statement that was reported to its writer."""
        self.begun[name].ended = ended
        return self.begun[name].statement

    def follow(self, newest: int) -> list[str]:
        """Judge what is new in the log, up to the version `newest`."""
        problems = []
        while self.versions.next <= newest and (version := self.versions.new()) is not None:
            before = self.states[-1] if self.states else State()
            of_version = self._judge(version, before)
            of_version += problems_of_description(version)
            self.last = version
            problems += [
                f"{self.kind} version {version.version} ({version.info.get('operation')}): {problem}"
                for problem in of_version
            ]
        return problems

    def lint(self) -> list[str]:
        return [f"{self.kind}: {problem}" for problem in lint(LocalStore(str(self.path)))]

    def _judge(self, version: Version, before: State) -> list[str]:
        self.infos.append({**version.info, "version": version.version})
        begun = self.begun.get(version.statement or "")
        if begun is None:
            self.states.append(before)
            return [f"no writer began {version.statement}"]
        begun.versions.append(version.version)
        statement = begun.statement
        if statement["kind"] in KEEPING or version.info.get("operation") in MAINTENANCE:
            return self._compare(version, statement, before, [before])
        problems = self._compare(version, statement, before, self._expected(statement, version, before))
        landed = [at for at in begun.versions if self.infos[at].get("operation") not in MAINTENANCE]
        if len(landed) > 1:
            problems.append(f"{begun.name} landed more than once: {landed}")
        if statement["kind"].startswith("insert") and version.info.get("isBlindAppend"):
            self.appended.update({row["id"]: version.version for row in statement["rows"]})
        return problems

    def _expected(self, statement: Statement, version: Version, before: State) -> list[State]:
        """The states that may follow."""
        possible = [self._after(statement, before)]
        if level_of(self.kind) == "WriteSerializable" and statement["kind"] in REORDERED:
            read = version.info.get("readVersion", version.version - 1)
            unseen = {key: row for key, row in before.rows.items() if self.appended.get(key, -1) > read}
            seen = {key: row for key, row in before.rows.items() if key not in unseen}
            early = self._after(statement, dataclasses.replace(before, rows=seen))
            if early is not None:
                possible.append(dataclasses.replace(early, rows={**early.rows, **unseen}))
        return [state for state in possible if state is not None]

    def _after(self, statement: Statement, before: State) -> State | None:
        if statement["kind"] == "restore":
            at = statement["version"]
            return self.states[at] if at < len(self.states) else None
        try:
            return EFFECTS[statement["kind"]](before, statement)
        except Inapplicable:
            return None

    def _compare(self, version: Version, statement: Statement, before: State, expected: list[State]) -> list[str]:
        self.counts[statement["kind"]] += 1
        fitting = [state for state in expected if state.columns == version.columns and _rows(state) == version.rows]
        if fitting:
            self.states.append(fitting[0])
            return [*_problems_of_rules(version, fitting[0]), *_problems_of_changes(version, before, fitting[0])]
        rows = {dict(row)["id"]: dict(row) for row in version.rows}
        rules = expected[0].rules if expected else before.rules
        self.states.append(State(columns=version.columns, rows=rows, rules=rules))  # type: ignore[arg-type]
        if not expected:
            return [f"{statement} does not fit the version before it: {before.columns}, {before.rules}"]
        return [f"{statement} should have led to {_difference(expected[0], version)}"]

    def judge_ended(self, *, final: bool) -> list[str]:
        """Judge the statements that have ended, as soon as the log has been followed to where they did."""
        problems = []
        for begun in list(self.unjudged.values()):
            if begun.ended is not None and (final or begun.ended["newest"] < len(self.states)):
                del self.unjudged[begun.name]
                problems += [f"{self.kind}, {begun.name}: {it}" for it in self._judge_answer(begun, begun.ended)]
        return problems

    def _judge_answer(self, begun: Begun, ended: dict[str, Any]) -> list[str]:
        statement, error = begun.statement, ended.get("error")
        outside = [version for version in begun.versions if not begun.newest < version <= ended["newest"]]
        problems = [f"landed as {outside}, though it ran from {begun.newest} to {ended['newest']}"] if outside else []
        if error is not None:
            refusal = f"{statement['kind']}: {error.get('condition') or error['type']}"
            self.refused[refusal] += 1
            self.example.setdefault(refusal, error["message"])
            if begun.versions and statement["kind"] not in KEEPING:
                problems.append(f"was refused, and landed as {begun.versions}: {error}")
            seen = self.states[max(0, begun.newest) : ended["newest"] + 1]
            fits = all(self._after(statement, state) is not None for state in seen)
            winners = self.infos[begun.newest + 1 : ended["newest"] + 1]
            problem = problem_of_refusal(statement, error, winners, seen=seen, fits_always=fits)
            return [*problems, *([f"{statement}: {problem}: {error}"] if problem else [])]
        if statement["kind"] == "read":
            return [*problems, *self._judge_reading(begun, ended)]
        if not begun.versions and not self._was_needless(begun, ended):
            problems.append(f"was acknowledged, and is not in the log: {statement}")
        return problems

    def _was_needless(self, begun: Begun, ended: dict[str, Any]) -> bool:
        """Whether it changes nothing at some version that it may have seen."""
        if begun.statement["kind"] in KEEPING:
            return True
        if begun.statement["kind"] == "create":
            return ended["newest"] >= 0
        states = self.states[max(0, begun.newest) : ended["newest"] + 1]
        return any(self._after(begun.statement, state) == state for state in states)

    def _judge_reading(self, begun: Begun, ended: dict[str, Any]) -> list[str]:
        at = begun.statement["version"]
        possible = range(max(0, begun.newest), ended["newest"] + 1) if at is None else [at]
        columns = tuple(ended["columns"])
        rows = Counter(row_of(dict(zip(columns, row, strict=True))) for row in ended["rows"])
        self.counts["read"] += 1
        if any(self.states[it].columns == columns and _rows(self.states[it]) == rows for it in possible):
            return []
        return [f"read {columns}, {len(ended['rows'])} rows, which are those of no version of {list(possible)}"]


def _rows(state: State) -> Counter[Values]:
    return Counter(map(row_of, state.rows.values()))


def _difference(expected: State, version: Version) -> str:
    wanted = _rows(expected)
    missing, unwanted = list((wanted - version.rows).elements()), list((version.rows - wanted).elements())
    return (
        f"{expected.columns} and is {version.columns}; {len(missing)} rows are missing: {missing[:3]}, "
        f"{len(unwanted)} should not be there: {unwanted[:3]}"
    )


def _problems_of_rules(version: Version, state: State) -> list[str]:
    """The constraints of the log are those of the model, and hold."""
    prefix = "delta.constraints."
    constraints = {name.removeprefix(prefix) for name in version.configuration if name.startswith(prefix)}
    problems = (
        [] if constraints == set(state.rules) else [f"constraints are {constraints}, and should be {set(state.rules)}"]
    )
    for name, (column, least) in state.rules.items():
        broken = [row for row in state.rows.values() if _is_below(row, column, least)]
        problems += [f"{len(broken)} rows violate {name}: {broken[:3]}"] if broken else []
    return problems


def _is_below(row: Row, column: str, least: int) -> bool:
    value = row[column]
    return value is not None and value < least


def _problems_of_changes(version: Version, before: State, after: State) -> list[str]:
    """What the change files say is what has changed, where rows before and after have the same columns."""
    if version.changes is None or before.columns != after.columns:
        return []
    expected = _rows(after)
    expected.subtract(_rows(before))
    wanted = {row: count for row, count in expected.items() if count}
    recorded = {row: count for row, count in version.changes.items() if count}
    return [] if wanted == recorded else [f"the change feed says {recorded}, and the rows {wanted}"]
