"""`anabranch fsck`: checks a table from its log to its last file, and changes nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

from anabranch.cli.fsck.fsck_data import Leftovers, check_data_files, check_vectors, leftovers, list_data
from anabranch.cli.fsck.fsck_findings import Finding, FindingKind, Item, Steps
from anabranch.cli.fsck.fsck_log import (
    LogFiles,
    check_checkpoints,
    check_checksums,
    check_commits,
    check_gaps,
    check_hint,
)
from anabranch.clock import SystemClock
from anabranch.errors.base import DeltaError
from anabranch.errors.log import CorruptCheckpointError, CorruptCommitError, LogGapError
from anabranch.errors.protocol import UnsupportedFeatureError
from anabranch.log.log_segment import find_segment
from anabranch.progress.progress_events import add_done, begin_phase, reporting
from anabranch.protocol.features import check_readable, check_writable
from anabranch.snapshot.replay import TableState, load_newest
from anabranch.snapshot.snapshot_cache import SnapshotCache
from anabranch.storage.log_store import LogStore
from anabranch.text_format import count, listed, plain, size

if TYPE_CHECKING:
    from rich.console import Console

SHOWN_OF_A_KIND = 10
"""Further findings of one kind are only counted; JSON lists all."""
_REPORTED_BY_FILE = (CorruptCommitError, CorruptCheckpointError, LogGapError)
"""Errors about the newest version that the checks of single files report in more detail."""

_SINGULAR = {
    "commits": "commit",
    "checkpoints": "checkpoint",
    "compactions": "compaction",
    "dataFiles": "data file",
    "deletionVectors": "deletion vector",
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """The result of a check."""

    table: str
    version: int
    """The newest version that a file of the log names."""
    rebuilt: bool
    """Whether that version could be rebuilt; if not, its files were not checked."""
    problems: tuple[Finding, ...]
    notes: tuple[str, ...]
    """Sentences about what is worth knowing but no problem."""
    checked: dict[str, int]
    """How many commits, checkpoints, data files and so on were checked."""
    left_over: Leftovers | None

    def document(self) -> dict[str, Any]:
        left = self.left_over
        return {
            "table": self.table,
            "version": self.version,
            "clean": not self.problems,
            "newestVersionReadable": self.rebuilt,
            "problems": [finding.document() for finding in self.problems],
            "notes": list(self.notes),
            "checked": self.checked,
            "unreferenced": None if left is None else {"files": left.files, "bytes": left.size_bytes},
            "ofEarlierVersions": None
            if left is None
            else {"files": left.files_of_history, "bytes": left.history_bytes},
        }

    def print_to(self, out: Console) -> None:
        _print_problems(out, self.problems)
        for note in self.notes:
            out.print(f"Note: {plain(note)}", style="yellow")
        if self.left_over is not None:
            _print_leftovers(out, self.left_over)
        checked = [count(number, _SINGULAR[name]) for name, number in self.checked.items() if number]
        out.print(f"Checked version {self.version} of {plain(self.table)}: {listed(checked)}.")
        if not self.rebuilt:
            out.print("The newest version cannot be rebuilt, so its files were not checked.", style="red")
        if self.problems:
            out.print(f"{count(len(self.problems), 'problem')} found.", style="bold red")
        else:
            out.print("No problem found.", style="bold green")


def check_table(store: LogStore) -> CheckReport:
    """Check log, data files and deletion vectors.

    Raises `TableNotFoundError`, and `StorageError` where the storage itself fails.
    """
    steps: Steps[Any] = _counted
    with reporting("fsck", store.root):
        log = LogFiles.of(store)
        problems = [*check_gaps(log), *check_commits(log, steps), *check_checkpoints(log, steps), *check_hint(log)]
        begin_phase("rebuild the newest version")
        state, state_problems = _newest_state(log)
        problems += state_problems
        notes: list[str] = []
        left_over = None
        checked = {
            "commits": len(log.listing.commits),
            "checkpoints": len(log.listing.checkpoints),
            "compactions": len(log.listing.compactions),
        }
        if state is not None and state.protocol is not None:
            unsupported = _unsupported_features(store, state)
            problems += unsupported
            if not unsupported:
                notes += _not_writable(store, state)
                problems += check_checksums(log, SnapshotCache(store, SystemClock()), steps)
            begin_phase("list files")
            stored = list_data(store)
            problems += [*check_data_files(store, state, stored, steps), *check_vectors(store, state, steps)]
            left_over = leftovers(store, state, stored)
            checked |= {"dataFiles": state.files.count, "deletionVectors": state.files.summary.deletion_vectors}
    return CheckReport(
        table=store.root,
        version=log.listing.latest_version or 0,
        rebuilt=state is not None,
        problems=tuple(problems),
        notes=tuple(notes),
        checked=checked,
        left_over=left_over,
    )


def _print_problems(out: Console, problems: tuple[Finding, ...]) -> None:
    by_kind = sorted(problems, key=lambda finding: list(FindingKind).index(finding.kind))
    for kind, group in groupby(by_kind, key=lambda finding: finding.kind):
        findings = list(group)
        for finding in findings[:SHOWN_OF_A_KIND]:
            where = f" {plain(finding.path)}" if finding.path else ""
            out.print(f"{kind.value}{where}", style="bold red")
            out.print(f"  {plain(finding.problem)}.")
            out.print(f"  {plain(finding.way_out)}.", style="dim")
        if len(findings) > SHOWN_OF_A_KIND:
            out.print(f"  … and {len(findings) - SHOWN_OF_A_KIND:,} more of this kind; --json lists all.")


def _print_leftovers(out: Console, left: Leftovers) -> None:
    if left.files_of_history:
        files = f"{count(left.files_of_history, 'file')} ({size(left.history_bytes)})"
        out.print(
            f"{files} are needed by earlier versions only. They are kept for time travel until VACUUM.", style="dim"
        )
    if left.files:
        files = f"{count(left.files, 'file')} ({size(left.size_bytes)})"
        out.print(f"{files} belong neither to this version nor to an earlier one; VACUUM may delete them.", style="dim")


def _newest_state(log: LogFiles) -> tuple[TableState | None, list[Finding]]:
    """The newest version, or None and why it cannot be rebuilt where no other check reports the reason."""
    try:
        segment, state = load_newest(log.store, find_segment(log.store))
    except _REPORTED_BY_FILE:
        return None, []
    except DeltaError as error:
        return None, [_state_finding(error.explain(), log.listing.latest_version)]
    actions = {"protocol": state.protocol, "metaData": state.metadata}
    missing = [name for name, action in actions.items() if action is None]
    if missing:
        problem = f"Version {segment.version} has no {' and no '.join(missing)} action, so it cannot be read"
        return None, [_state_finding(problem, segment.version)]
    return state, []


def _state_finding(problem: str, version: int | None) -> Finding:
    return Finding(
        kind=FindingKind.STATE_INCOMPLETE,
        path="",
        version=version,
        problem=problem.rstrip("."),
        way_out="Put the files that are missing from _delta_log back from a backup",
    )


def _unsupported_features(store: LogStore, state: TableState) -> list[Finding]:
    """A finding if the table needs features that this anabranch cannot read."""
    assert state.protocol is not None
    try:
        check_readable(state.protocol, table=store.root)
    except UnsupportedFeatureError as error:
        finding = Finding(
            kind=FindingKind.FEATURE_UNSUPPORTED,
            path="",
            problem=f"The table needs features that this release of anabranch cannot read: {_needed(error)}",
            way_out="Upgrade anabranch, or use an engine that supports them. The table itself may be intact",
        )
        return [finding]
    return []


def _not_writable(store: LogStore, state: TableState) -> list[str]:
    """A note if the table needs features that this anabranch cannot write."""
    assert state.protocol is not None
    try:
        check_writable(state.protocol, table=store.root)
    except UnsupportedFeatureError as error:
        return [f"This release of anabranch can read the table but cannot write to it: {_needed(error)}."]
    return []


def _needed(error: UnsupportedFeatureError) -> str:
    versions = f"reader version {error.min_reader_version}, writer version {error.min_writer_version}"
    return f"{', '.join(error.features)} ({versions})" if error.features else versions


def _counted(items: Iterable[Item], what: str, total: int | None) -> Iterator[Item]:
    """The items, which the progress counts."""
    begin_phase(f"check {what}", files=total)
    for item in items:
        yield item
        add_done(files=1)
