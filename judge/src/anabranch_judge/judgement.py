"""The judgement of one history."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from anabranch_judge.attribution import Attribution, Attributor, reads_seen
from anabranch_judge.explanations import Explainer
from anabranch_judge.faults import Fault
from anabranch_judge.feeds import faults_of_feeds
from anabranch_judge.isolation import LEVELS, Isolation
from anabranch_judge.recorded_history import History, Statement
from anabranch_judge.rows import matching, text_of
from anabranch_judge.table_log import TableLog


@dataclasses.dataclass(frozen=True, kw_only=True)
class Judgement:
    """What the judge says of a history."""

    first: int
    last: int
    outcomes: Mapping[str, int]
    """The number of statements with each outcome."""
    faults: Sequence[Fault]
    witnesses: Mapping[str, str | None]
    """For each isolation level why the history does not satisfy it; None if it does."""

    @property
    def level(self) -> str | None:
        """The highest level that the history satisfies."""
        return next((level for level in LEVELS if self.witnesses[level] is None), None)


def judge(log: TableLog, history: History, *, key: Sequence[str], first: int | None = None) -> Judgement:
    """The judgement of a history by the table's log. `key` are the columns that identify a row.

    Versions up to `first` are not judged: by default those before the first that a statement read or made.
    """
    attribution = Attributor(log, history.statements, key, first).attribution()
    explainer = Explainer(log, attribution, key)
    of_versions = [
        fault
        for version in log.versions[attribution.first + 1 :]
        for fault in explainer.faults_of_version(version.number)
    ]
    of_files = [
        Fault("wrong file", version.number, None, f"{explainer.name(version.number)}: {text}")
        for version in log.versions[attribution.first + 1 :]
        for text in version.wrong_files
    ]
    of_reads = _faults_of_reads(log, history.statements, attribution)
    isolation = Isolation(log, attribution, key)
    already = {fault.version for fault in of_versions if fault.kind == "lost update"}
    lost_updates = [
        Fault("lost update", version, attribution.statements[version].name, text)
        for version, text in isolation.lost_updates()
        if version not in already
    ]
    faults = [
        *attribution.faults,
        *of_versions,
        *of_files,
        *of_reads,
        *lost_updates,
        *faults_of_feeds(log, history.feeds, first=attribution.first),
    ]
    wrong_rows = next(
        (fault.text for fault in (*attribution.faults, *of_versions) if fault.kind != "wrong version"), None
    )
    wrong_snapshot = next((fault.text for fault in (*of_reads, *lost_updates)), None)
    return Judgement(
        first=attribution.first,
        last=len(log.versions) - 1,
        outcomes={
            name: sum(s.outcome == name for s in history.statements) for name in ("committed", "conflict", "unknown")
        },
        faults=faults,
        witnesses={
            "Serializable": wrong_rows or _first(of_reads) or isolation.not_serializable(),
            "WriteSerializable": wrong_rows or _first(of_reads) or isolation.not_write_serializable(),
            "SnapshotIsolation": wrong_rows or wrong_snapshot,
        },
    )


def _first(faults: Sequence[Fault]) -> str | None:
    return faults[0].text if faults else None


def _faults_of_reads(log: TableLog, statements: Sequence[Statement], attribution: Attribution) -> list[Fault]:
    """Reads of rows that no version has, or that no single version has together."""
    versions = {id(statement): version for version, statement in attribution.statements.items()}
    faults = []
    for statement in statements:
        version = versions.get(id(statement))
        before = len(log.versions) if version is None else version
        for read in statement.reads:
            if read.version is not None and read.version >= len(log.versions):
                text = f"{statement} read version {read.version}, which does not exist"
                faults.append(Fault("torn read", version, statement.name, text))
                break
            if read.version is not None and read.rows is not None:
                expected = matching(log.versions[read.version].rows, read.where)
                if expected != read.rows:
                    rows = sorted((read.rows - expected) + (expected - read.rows), key=repr)
                    text = (
                        f"{statement} read version {read.version} where {text_of(read.where)}; what it got differs "
                        f"from that version in ({text_of(rows[0])})"
                    )
                    faults.append(Fault("torn read", version, statement.name, text))
                    break
        else:
            if statement.reads and reads_seen(statement, log, before=before, first=attribution.first) is None:
                text = f"{statement} read rows that no single version before its own has together"
                faults.append(Fault("torn read", version, statement.name, text))
    return faults
