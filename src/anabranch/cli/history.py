"""`anabranch history`: the commits of a table, newest first."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from anabranch.cli.output import table_of
from anabranch.log.commit_history import HistoryEntry
from anabranch.snapshot.snapshot_cache import SnapshotCache
from anabranch.table_report.commit_text import metrics_in_words, parameters_in_words, reads_in_words, user_and_engine
from anabranch.text_format import count, iso_time, local_time, plain

if TYPE_CHECKING:
    from rich.console import Console

TABLE_WIDTH_MIN = 120
"""In a narrower terminal a table would break words."""


def read_history(snapshots: SnapshotCache, *, limit: int | None) -> History:
    """The newest `limit` commits, or all of them. Raises `TableNotFoundError`, `StorageError`."""
    return History(table=snapshots.store.root, entries=tuple(snapshots.history(limit)), limit=limit)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Commits of a table, newest first."""

    table: str
    entries: tuple[HistoryEntry, ...]
    limit: int | None

    def document(self) -> dict[str, Any]:
        """Everything that the commits record, under the protocol's names."""
        return {"table": self.table, "versions": [_entry_document(entry) for entry in self.entries]}

    def print_to(self, out: Console) -> None:
        """One row a commit, or a few lines where the terminal is narrow."""
        if out.width >= TABLE_WIDTH_MIN:
            _print_table(out, self.entries)
        else:
            _print_lines(out, self.entries)
        number = len(self.entries)
        if self.limit is not None and self.entries and self.entries[-1].version > 0 and number >= self.limit:
            out.print(f"The newest {count(number, 'commit')}; --limit shows more.", style="dim")


def _print_table(out: Console, entries: tuple[HistoryEntry, ...]) -> None:
    table = table_of("version", "time", "operation", "what it did", "read", "by", right=("version",))
    for entry in entries:
        words = _in_words(entry)
        table.add_row(
            str(entry.version),
            local_time(entry.timestamp_ms),
            "\n".join(filter(None, (words.operation, words.parameters))),
            "\n".join(filter(None, (words.metrics, words.note))),
            words.read,
            words.by,
        )
    out.print(table)


def _print_lines(out: Console, entries: tuple[HistoryEntry, ...]) -> None:
    from rich.padding import Padding  # noqa: PLC0415 - JSON needs no rich

    for entry in entries:
        words = _in_words(entry)
        out.print(f"{entry.version}  {local_time(entry.timestamp_ms)}  {words.operation}", style="bold")
        read = words.read and f"read {words.read}"
        for line in (words.parameters, words.metrics, words.note, "; ".join(filter(None, (read, words.by)))):
            if line:
                out.print(Padding(line, (0, 0, 0, 4)))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _CommitWords:
    """A commit in words; a part is empty where the commit does not record it."""

    operation: str
    parameters: str = ""
    metrics: str = ""
    note: str = ""
    read: str = ""
    by: str = ""


def _in_words(entry: HistoryEntry) -> _CommitWords:
    info = entry.info
    if info is None:
        return _CommitWords(operation="not recorded")
    return _CommitWords(
        operation=plain(info.operation or "not recorded"),
        parameters=parameters_in_words(info.operation_parameters),
        metrics=metrics_in_words(info.operation_metrics),
        note=f"“{plain(info.user_metadata, 80)}”" if info.user_metadata else "",
        read=reads_in_words(info),
        by=user_and_engine(info),
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
