"""`anabranch history`: the commits of a table, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.cli.commit_words import by_whom, metrics_in_words, parameters_in_words, reads_in_words
from anabranch.cli.output import console, table_of
from anabranch.cli.words import count, iso_time, local_time, plain
from anabranch.log.history import HistoryEntry
from anabranch.snapshot.snapshots import Snapshots


def history_document(table: str, entries: Sequence[HistoryEntry]) -> dict[str, Any]:
    """For programs: everything that the commits say of themselves, by the protocol's names."""
    return {"table": table, "versions": [_entry_document(entry) for entry in entries]}


def print_history(snapshots: Snapshots, entries: Sequence[HistoryEntry], *, limit: int | None) -> None:
    """For people: one row a commit."""
    out = console()
    table = table_of("version", "time", "operation", "what it did", "read", "by", right=("version",))
    for entry in entries:
        info = entry.info
        if info is None:
            table.add_row(str(entry.version), local_time(entry.timestamp_ms), "not said", "", "", "")
            continue
        operation = plain(info.operation or "not said")
        parameters = parameters_in_words(info.operation_parameters)
        told = f"{operation}\n{parameters}" if parameters else operation
        done = metrics_in_words(info.operation_metrics)
        if info.user_metadata:
            done = f"{done}\n“{plain(info.user_metadata, 80)}”".lstrip("\n")
        row = (local_time(entry.timestamp_ms), told, done, reads_in_words(info), by_whom(info))
        table.add_row(str(entry.version), *row)
    out.print(table)
    latest = snapshots.cached()
    if limit is not None and latest is not None and entries and entries[-1].version > 0 and len(entries) >= limit:
        out.print(f"The newest {count(len(entries), 'commit')}; --limit shows more.", style="dim")


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
