"""The line that the log of a program gets for each commit."""

from __future__ import annotations

from anabranch.protocol.actions import AddFile, CommitInfo, RemoveFile
from anabranch.text_format import count
from anabranch.transactions.commit.commit_attempt import CommitDraft
from anabranch.transactions.conflicts.latest_state import LatestState
from anabranch.transactions.conflicts.rebase_report import version_ranges

_ROW_METRICS = {
    "numTargetRowsInserted": "inserted",
    "numTargetRowsUpdated": "updated",
    "numUpdatedRows": "updated",
    "numTargetRowsDeleted": "deleted",
    "numDeletedRows": "deleted",
    "numOutputRows": "written",
}
"""Metrics of commits that count rows, with what happened to the rows."""


def commit_message(draft: CommitDraft, latest: LatestState, *, attempts: int, elapsed_ms: int) -> str:
    """The line for a commit: table, version, operation, rows, files, time, and the commits that landed first.

    `latest` is the table right before it.
    """
    info = next((action for action in draft.actions if isinstance(action, CommitInfo)), None)
    adds = [action for action in draft.actions if isinstance(action, AddFile)]
    removes = [action for action in draft.actions if isinstance(action, RemoveFile)]
    parts = [
        *_rows(info),
        f"{count(len(adds), 'file')} added ({sum(add.size for add in adds)} bytes)",
        f"{count(len(removes), 'file')} removed",
        f"{elapsed_ms} ms",
    ]
    if latest.winners:
        versions = version_ranges(winner.version for winner in latest.winners)
        parts.append(f"rebased over versions {versions} in {attempts} attempts")
    operation = (info and info.operation) or "commit"
    return f"{latest.table}: version {draft.version}, {operation}: {', '.join(parts)}"


def _rows(info: CommitInfo | None) -> list[str]:
    """The rows that the commit counts, such as `3 rows deleted`. Rows that were only copied are left out."""
    metrics = (info and info.operation_metrics) or {}
    counted = {name: metrics[name] for name in _ROW_METRICS if metrics.get(name, "0") != "0"}
    if "numOutputRows" in counted and ("numTargetRowsInserted" in metrics or "numUpdatedRows" in metrics):
        del counted["numOutputRows"]
    return [f"{count(int(number), 'row')} {_ROW_METRICS[name]}" for name, number in counted.items()]
