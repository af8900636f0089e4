"""`anabranch fsck`: checks a table from its log to its last file, and changes nothing."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from anabranch.cli.fsck.fsck_data import Leftovers, check_data_files, check_vectors, leftovers, list_data
from anabranch.cli.fsck.fsck_findings import Finding, FindingKind, Item, Steps, without_progress
from anabranch.cli.fsck.fsck_log import (
    LogFiles,
    check_checkpoints,
    check_checksums,
    check_commits,
    check_gaps,
    check_hint,
)
from anabranch.cli.output import console, count, error_console, listed, plain, size
from anabranch.clock import SystemClock
from anabranch.errors.base import DeltaError
from anabranch.errors.log import CorruptCheckpointError, CorruptCommitError, LogGapError
from anabranch.errors.protocol import UnsupportedFeatureError
from anabranch.protocol.features import check_readable, check_writable
from anabranch.snapshot.replay import TableState, load_newest
from anabranch.snapshot.snapshot_cache import SnapshotCache
from anabranch.storage.log_store import LogStore

SHOWN_OF_A_KIND = 10
"""More of one kind of finding are only counted; JSON lists all."""
_FOUND_BY_FILE = (CorruptCommitError, CorruptCheckpointError, LogGapError)
"""Errors about the newest version that the checks of single files report better."""

_ONE = {
    "commits": "commit",
    "checkpoints": "checkpoint",
    "compactions": "compaction",
    "dataFiles": "data file",
    "deletionVectors": "deletion vector",
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a check came to."""

    table: str
    version: int
    """The newest that the log speaks of."""
    rebuilt: bool
    """Whether that version could be rebuilt; if not, its files were not checked."""
    problems: tuple[Finding, ...]
    notes: tuple[str, ...]
    """Sentences about what is no problem and yet worth knowing."""
    checked: dict[str, int]
    """How many of each were looked at."""
    left_over: Leftovers | None


def check_table(store: LogStore, *, show_progress: bool = False) -> Report:
    """Raises `TableNotFoundError`, and `StorageError` where the storage itself fails."""
    with _progress(shown=show_progress) as steps:
        log = LogFiles.of(store)
        problems = [*check_gaps(log), *check_commits(log, steps), *check_checkpoints(log, steps), *check_hint(log)]
        state, found = _newest_state(log)
        problems += found
        notes: list[str] = []
        left_over = None
        checked = {
            "commits": len(log.listing.commits),
            "checkpoints": len(log.listing.checkpoints),
            "compactions": len(log.listing.compactions),
        }
        if state is not None and state.protocol is not None:
            features, readable = _check_features(store, state)
            problems += features
            notes += _not_writable(store, state) if readable else []
            if readable:
                problems += check_checksums(log, SnapshotCache(store, SystemClock()), steps)
            stored = list_data(store)
            problems += [*check_data_files(store, state, stored, steps), *check_vectors(store, state, steps)]
            left_over = leftovers(store, state, stored)
            checked |= {"dataFiles": state.files.count, "deletionVectors": state.files.summary.deletion_vectors}
    return Report(
        table=store.root,
        version=log.listing.latest_version or 0,
        rebuilt=state is not None,
        problems=tuple(problems),
        notes=tuple(notes),
        checked=checked,
        left_over=left_over,
    )


def report_document(report: Report) -> dict[str, Any]:
    """For programs."""
    left = report.left_over
    return {
        "table": report.table,
        "version": report.version,
        "clean": not report.problems,
        "newestVersionReadable": report.rebuilt,
        "problems": [finding.document() for finding in report.problems],
        "notes": list(report.notes),
        "checked": report.checked,
        "unreferenced": None if left is None else {"files": left.files, "bytes": left.size_bytes},
        "ofEarlierVersions": None if left is None else {"files": left.files_of_history, "bytes": left.history_bytes},
    }


def print_report(report: Report) -> None:
    """For people."""
    out = console()
    by_kind = sorted(report.problems, key=lambda finding: list(FindingKind).index(finding.kind))
    for kind, group in groupby(by_kind, key=lambda finding: finding.kind):
        found = list(group)
        for finding in found[:SHOWN_OF_A_KIND]:
            where = f" {plain(finding.path)}" if finding.path else ""
            out.print(f"{kind.value}{where}", style="bold red")
            out.print(f"  {plain(finding.problem)}.")
            out.print(f"  {plain(finding.way_out)}.", style="dim")
        if len(found) > SHOWN_OF_A_KIND:
            out.print(f"  … and {len(found) - SHOWN_OF_A_KIND:,} more of this kind; --json lists all.")
    for note in report.notes:
        out.print(f"Note: {plain(note)}", style="yellow")
    _print_leftovers(report)
    checked = [count(number, _ONE[name]) for name, number in report.checked.items() if number]
    out.print(f"Checked version {report.version} of {plain(report.table)}: {listed(checked)}.")
    if not report.rebuilt:
        out.print("The newest version cannot be rebuilt, so its files were not checked.", style="red")
    if report.problems:
        out.print(f"{count(len(report.problems), 'problem')} found.", style="bold red")
    else:
        out.print("No problem found.", style="bold green")


def _print_leftovers(report: Report) -> None:
    left = report.left_over
    if left is None:
        return
    out = console()
    if left.files_of_history:
        told = f"{count(left.files_of_history, 'file')} ({size(left.history_bytes)})"
        out.print(
            f"{told} are needed by earlier versions only. They are kept for time travel until VACUUM.", style="dim"
        )
    if left.files:
        told = f"{count(left.files, 'file')} ({size(left.size_bytes)})"
        out.print(
            f"{told} belong neither to this version nor to an earlier one; VACUUM may delete them.",
            style="dim",
        )


def _newest_state(log: LogFiles) -> tuple[TableState | None, list[Finding]]:
    try:
        segment, state = load_newest(log.store)
    except _FOUND_BY_FILE:
        return None, []
    except DeltaError as error:
        return None, [_state_finding(error.explain(), log.listing.latest_version)]
    missing = [name for name, one in (("protocol", state.protocol), ("metaData", state.metadata)) if one is None]
    if missing:
        problem = f"Version {segment.version} holds no {' and no '.join(missing)} action, so it cannot be interpreted"
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


def _check_features(store: LogStore, state: TableState) -> tuple[list[Finding], bool]:
    """Features that this version cannot read, and whether there are none."""
    assert state.protocol is not None
    try:
        check_readable(state.protocol, table=store.root)
    except UnsupportedFeatureError as error:
        finding = Finding(
            kind=FindingKind.FEATURE_UNSUPPORTED,
            path="",
            problem=f"The table needs what this anabranch cannot read: {_needed(error)}",
            way_out="Upgrade anabranch, or use an engine that knows it. The table itself may be well",
        )
        return [finding], False
    return [], True


def _not_writable(store: LogStore, state: TableState) -> list[str]:
    assert state.protocol is not None
    try:
        check_writable(state.protocol, table=store.root)
    except UnsupportedFeatureError as error:
        return [f"This anabranch reads the table and does not write it: {_needed(error)}."]
    return []


def _needed(error: UnsupportedFeatureError) -> str:
    versions = f"reader version {error.min_reader_version}, writer version {error.min_writer_version}"
    return f"{', '.join(error.features)} ({versions})" if error.features else versions


@contextlib.contextmanager
def _progress(*, shown: bool) -> Iterator[Steps[Any]]:
    """A bar on standard error, where that is a terminal."""
    out = error_console() if shown else None
    if out is None or not out.is_terminal:
        yield without_progress
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn  # noqa: PLC0415 - slow to import

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=out, transient=True) as progress:

        def steps(items: Iterable[Item], what: str, total: int | None) -> Iterable[Item]:
            return progress.track(items, total=total, description=f"Checking {what}")

        yield steps
