"""What a commit says of itself, in words. See "Commit Provenance Information"."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from anabranch.cli.words import count, plain, size
from anabranch.protocol.actions import CommitInfo

PARAMETER_CHARACTERS = 60

_METRICS: tuple[tuple[str, str, str], ...] = (
    ("numOutputRows", "row written", "rows written"),
    ("numTargetRowsInserted", "row inserted", "rows inserted"),
    ("numTargetRowsUpdated", "row updated", "rows updated"),
    ("numTargetRowsDeleted", "row deleted", "rows deleted"),
    ("numUpdatedRows", "row updated", "rows updated"),
    ("numDeletedRows", "row deleted", "rows deleted"),
    ("numCopiedRows", "row copied", "rows copied"),
    ("numFiles", "file written", "files written"),
    ("numAddedFiles", "file added", "files added"),
    ("numTargetFilesAdded", "file added", "files added"),
    ("numRemovedFiles", "file removed", "files removed"),
    ("numTargetFilesRemoved", "file removed", "files removed"),
    ("numDeletionVectorsAdded", "deletion vector added", "deletion vectors added"),
    ("numTargetDeletionVectorsAdded", "deletion vector added", "deletion vectors added"),
    ("numDeletionVectorsRemoved", "deletion vector removed", "deletion vectors removed"),
    ("numRestoredFiles", "file restored", "files restored"),
    ("numConvertedFiles", "file converted", "files converted"),
    ("numCopiedFiles", "file copied", "files copied"),
    ("numDeletedFiles", "file deleted", "files deleted"),
    ("numVacuumedDirectories", "directory cleaned", "directories cleaned"),
)
"""Delta's metrics in the order in which they are told, with the words for one and for many."""
_BYTES = ("numOutputBytes", "numAddedBytes")
_OF_NO_INTEREST = {"", "[]", "{}", "null", "false", "None"}


def metrics_in_words(metrics: Mapping[str, Any] | None) -> str:
    """`12,000 rows written, 3 files written, 1.2 MB`; nothing for zeros and for what has no words."""
    if not metrics:
        return ""
    told = []
    rows_by_merge = "numTargetRowsInserted" in metrics
    for name, one, many in _METRICS:
        number = _whole(metrics.get(name))
        # Of a MERGE the output includes rows that were only copied.
        if number and not (rows_by_merge and name == "numOutputRows"):
            told.append(count(number, one, many))
    sizes = [_whole(metrics.get(name)) for name in _BYTES]
    told += [size(number) for number in sizes if number]
    return ", ".join(told)


def parameters_in_words(parameters: Mapping[str, Any] | None) -> str:
    """`mode: Append, partitionBy: date`, without those that say nothing, each cut to a line's length."""
    told = []
    for name, value in (parameters or {}).items():
        text = _parameter(value)
        if text not in _OF_NO_INTEREST:
            told.append(f"{plain(name, 40)}: {plain(text, PARAMETER_CHARACTERS)}")
    return ", ".join(told)


def reads_in_words(info: CommitInfo) -> str:
    """`version 13, WriteSerializable`, or that the operation read nothing."""
    told = []
    if info.is_blind_append:
        told.append("nothing (blind append)")
    elif info.read_version is not None:
        told.append(f"version {info.read_version}")
    if info.isolation_level:
        told.append(plain(info.isolation_level, 40))
    return ", ".join(told)


def by_whom(info: CommitInfo) -> str:
    """User and engine."""
    parts = (info.user_name or info.user_id, info.engine_info)
    return ", ".join(plain(part, 60) for part in parts if part)


def _parameter(value: Any) -> str:
    """Values are texts of JSON, or of JSON within JSON, or plain."""
    if isinstance(value, str):
        try:
            decoded = json.loads(value)
        except (ValueError, RecursionError):
            return value
        return _parameter(decoded) if not isinstance(decoded, str) else decoded
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, list):
        return ", ".join(_items(value)) if value else "[]"
    if isinstance(value, dict):
        return ", ".join(f"{key} = {below}" for key, below in value.items()) if value else "{}"
    return str(value)


def _items(values: list[Any]) -> Iterator[str]:
    for value in values:
        yield _parameter(value) if isinstance(value, list | dict) else str(value)


def _whole(value: Any) -> int | None:
    """Metrics are texts of whole numbers, mostly."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, str) and re.fullmatch(r"\d{1,18}", value) else None
