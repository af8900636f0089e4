"""A commit's `commitInfo` in words. See "Commit Provenance Information"."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from anabranch.protocol.actions import CommitInfo
from anabranch.text_format import count, listed, plain, size
from anabranch.transactions.conflicts.rebase_report import (
    LANDED_AFTER_TAG,
    LOST_TO_TAG,
    parsed_versions,
    reconciliation_of,
)

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
"""Delta's metrics in the order of output, each with its singular and plural."""
_BYTES = ("numOutputBytes", "numAddedBytes")
_EMPTY_VALUES = {"", "[]", "{}", "null", "false", "None"}


def metrics_in_words(metrics: Mapping[str, Any] | None) -> str:
    """`12,000 rows written, 3 files written, 1.2 MB`, without zeros and metrics that are not in the table above."""
    if not metrics:
        return ""
    phrases = []
    rows_by_merge = "numTargetRowsInserted" in metrics
    for name, one, many in _METRICS:
        number = _whole(metrics.get(name))
        # The output rows of a MERGE include rows that were only copied.
        if number and not (rows_by_merge and name == "numOutputRows"):
            phrases.append(count(number, one, many))
    sizes = [_whole(metrics.get(name)) for name in _BYTES]
    phrases += [size(number) for number in sizes if number]
    return ", ".join(phrases)


def parameters_in_words(parameters: Mapping[str, Any] | None) -> str:
    """`mode: Append, partitionBy: date`, without empty values, each cut to `PARAMETER_CHARACTERS`."""
    phrases = []
    for name, value in (parameters or {}).items():
        text = _parameter(value)
        if text not in _EMPTY_VALUES:
            phrases.append(f"{plain(name, 40)}: {plain(text, PARAMETER_CHARACTERS)}")
    return ", ".join(phrases)


def reads_in_words(info: CommitInfo) -> str:
    """`version 13, WriteSerializable`, or `nothing (blind append)`."""
    phrases = []
    if info.is_blind_append:
        phrases.append("nothing (blind append)")
    elif info.read_version is not None:
        phrases.append(f"version {info.read_version}")
    if info.isolation_level:
        phrases.append(plain(info.isolation_level, 40))
    return ", ".join(phrases)


def user_and_engine(info: CommitInfo) -> str:
    """`ann, Apache-Spark/4.1`, as far as the commit records them."""
    parts = (info.user_name or info.user_id, info.engine_info)
    return ", ".join(plain(part, 60) for part in parts if part)


def _parameter(value: Any) -> str:
    """A parameter's value as text. Engines write plain strings, JSON, or JSON inside JSON."""
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
    """The value of a metric, which is usually a string of digits; None for anything but a whole number."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, str) and re.fullmatch(r"\d{1,18}", value) else None


# How a commit was reconciled with the commits that landed first, in words. See "Commit Provenance Information".


_NAMED_MAX = 4


def landed_after(info: CommitInfo) -> tuple[int, ...]:
    """The versions that other writers committed between the one read and this one, as the commit's tags record."""
    return parsed_versions((info.tags or {}).get(LANDED_AFTER_TAG))


def landed_after_in_words(info: CommitInfo) -> str:
    """`landed after versions 14 and 15, committed by others in the meantime`; empty if no other commit landed first."""
    versions = landed_after(info)
    return f"landed after {_versions(versions)}, committed by others in the meantime" if versions else ""


def reconciled_in_words(info: CommitInfo) -> Iterator[str]:
    """How the commit was reconciled with them, one step a line."""
    how = reconciliation_of(info.tags)
    for version, rows in sorted(how.moved_rows.items()):
        yield f"followed {count(rows, 'hidden row')} through the compaction of version {version}"
    for version, rows in sorted(how.relocated_rows.items()):
        yield (
            f"searched again for {count(rows, 'row')}: "
            f"the compaction of version {version} does not record where it moved them"
        )
    if how.united_vectors:
        yield f"merged its deletion vectors with those of other commits in {count(how.united_vectors, 'file')}"
    if how.serialized_before:
        noun = "an append" if len(how.serialized_before) == 1 else "appends"
        yield f"is ordered before {_versions(how.serialized_before)}, {noun} that it did not read"
    if how.carried_rows:
        yield f"carried {count(how.carried_rows, 'hidden row')} of other commits over into the files that it wrote"
    if how.left_out_bins:
        yield f"left out {count(how.left_out_bins, 'group of files', 'groups of files')} that other commits had changed"
    if lost_to := parsed_versions((info.tags or {}).get(LOST_TO_TAG)):
        yield f"was executed again after conflicts with {_versions(lost_to)}"


def reconciliation_document(info: CommitInfo) -> dict[str, Any]:
    """The same in JSON's terms."""
    how = reconciliation_of(info.tags)
    return {
        "movedRows": _by_version(how.moved_rows),
        "foundRows": _by_version(how.relocated_rows),
        "unitedVectors": how.united_vectors,
        "standsBefore": list(how.serialized_before),
        "carriedRows": how.carried_rows,
        "leftOutBins": how.left_out_bins,
        "lostTo": list(parsed_versions((info.tags or {}).get(LOST_TO_TAG))),
    }


def _by_version(rows: Mapping[int, int]) -> dict[str, int]:
    return {str(version): number for version, number in sorted(rows.items())}


def _versions(versions: Sequence[int]) -> str:
    if len(versions) == 1:
        return f"version {versions[0]}"
    if len(versions) <= _NAMED_MAX:
        return f"versions {listed([str(version) for version in versions])}"
    whole = max(versions) - min(versions) + 1 == len(versions)
    return f"versions {versions[0]} to {versions[-1]}" + ("" if whole else ", not all of them")
