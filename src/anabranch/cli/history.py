"""`anabranch history`: the commits of a table, newest first."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from anabranch.cli.commit_text import by_whom, metrics_in_words, parameters_in_words, reads_in_words
from anabranch.cli.output import console, count, iso_time, local_time, plain, table_of
from anabranch.log.commit_history import HistoryEntry
from anabranch.snapshot.snapshot_cache import SnapshotCache

if TYPE_CHECKING:
    from rich.console import Console

TABLE_WIDTH_MIN = 120
"""Below this a table would break its words."""


def history_document(table: str, entries: Sequence[HistoryEntry]) -> dict[str, Any]:
    """For programs: everything that the commits say of themselves, by the protocol's names."""
    return {"table": table, "versions": [_entry_document(entry) for entry in entries]}


def print_history(snapshots: SnapshotCache, entries: Sequence[HistoryEntry], *, limit: int | None) -> None:
    """For people: one row a commit, or a few lines where the terminal is narrow."""
    out = console()
    if out.width >= TABLE_WIDTH_MIN:
        _print_table(out, entries)
    else:
        _print_lines(out, entries)
    latest = snapshots.cached()
    if limit is not None and latest is not None and entries and entries[-1].version > 0 and len(entries) >= limit:
        out.print(f"The newest {count(len(entries), 'commit')}; --limit shows more.", style="dim")


def _print_table(out: Console, entries: Sequence[HistoryEntry]) -> None:
    table = table_of("version", "time", "operation", "what it did", "read", "by", right=("version",))
    for entry in entries:
        told = _told(entry)
        table.add_row(
            str(entry.version),
            local_time(entry.timestamp_ms),
            "\n".join(filter(None, (told.operation, told.parameters))),
            "\n".join(filter(None, (told.metrics, told.note))),
            told.read,
            told.by,
        )
    out.print(table)


def _print_lines(out: Console, entries: Sequence[HistoryEntry]) -> None:
    from rich.padding import Padding  # noqa: PLC0415 - JSON needs no rich

    for entry in entries:
        told = _told(entry)
        out.print(f"{entry.version}  {local_time(entry.timestamp_ms)}  {told.operation}", style="bold")
        read = told.read and f"read {told.read}"
        for line in (told.parameters, told.metrics, told.note, "; ".join(filter(None, (read, told.by)))):
            if line:
                out.print(Padding(line, (0, 0, 0, 4)))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """A commit in words."""

    operation: str
    parameters: str = ""
    metrics: str = ""
    note: str = ""
    read: str = ""
    by: str = ""


def _told(entry: HistoryEntry) -> _Told:
    info = entry.info
    if info is None:
        return _Told(operation="not said")
    return _Told(
        operation=plain(info.operation or "not said"),
        parameters=parameters_in_words(info.operation_parameters),
        metrics=metrics_in_words(info.operation_metrics),
        note=f"“{plain(info.user_metadata, 80)}”" if info.user_metadata else "",
        read=reads_in_words(info),
        by=by_whom(info),
    )


def _entry_document(entry: HistoryEntry) -> dict[str, Any]:
    info = entry.info
    document: dict[str, Any] = {
        "version": entry.version,
        "timestamp": iso_time(entry.timestamp_ms),
        "timestampMs": entry.timestamp_ms,
    }
    if info is None:
        return document
    return document | {
        "operation": info.operation,
        "operationParameters": info.operation_parameters,
        "operationMetrics": info.operation_metrics,
        "readVersion": info.read_version,
        "isolationLevel": info.isolation_level,
        "isBlindAppend": info.is_blind_append,
        "userId": info.user_id,
        "userName": info.user_name,
        "userMetadata": info.user_metadata,
        "engineInfo": info.engine_info,
        "txnId": info.txn_id,
        "tags": info.tags,
    }
