"""Names of options of reads, writes and streams, and names that are a slip of the pen away from one of them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from anabranch.errors.arguments import InvalidOptionError

OF_WRITES = (
    "compression",
    "conflictRetries",
    "dataChange",
    "maxRecordsPerFile",
    "mergeSchema",
    "optimizeWrite",
    "overwriteSchema",
    "partitionOverwriteMode",
    "replaceOn",
    "replaceUsing",
    "replaceWhere",
    "targetAlias",
    "txnAppId",
    "txnVersion",
    "userMetadata",
)
OF_READS = (
    "endingTimestamp",
    "endingVersion",
    "path",
    "readChangeData",
    "readChangeFeed",
    "startingTimestamp",
    "startingVersion",
    "timestampAsOf",
    "versionAsOf",
)
OF_STREAMS = (
    "allowSourceColumnDrop",
    "allowSourceColumnRename",
    "allowSourceColumnTypeChange",
    "checkpointLocation",
    "excludeRegex",
    "failOnDataLoss",
    "ignoreChanges",
    "ignoreDeletes",
    "ignoreFileDeletion",
    "maxBytesPerTrigger",
    "maxFilesPerTrigger",
    "schemaLocation",
    "schemaTrackingLocation",
    "skipChangeCommits",
    "streamingSourceTrackingId",
    "withEventTimeOrder",
)
_KNOWN = {name.lower(): name for name in (*OF_WRITES, *OF_READS, *OF_STREAMS)}
_SPARKS = frozenset({"paths"})
"""Spark's own names that are near one of these."""
_NEAR = 0.86
"""The part of two names that is the same in names that may be taken for one another."""


def check_names(options: Mapping[str, str]) -> None:
    """Refuse an option whose name is nearly that of one of Delta's, which would be ignored otherwise.

    Others pass: Spark and file systems have options of their own, most of them with a dot in their names. Raises
    `InvalidOptionError`.
    """
    for name, value in options.items():
        lower = name.lower()
        if lower in _KNOWN or lower in _SPARKS or "." in lower:
            continue
        near = difflib.get_close_matches(lower, _KNOWN, n=1, cutoff=_NEAR)
        if near:
            problem = f"Delta has no option of this name (did you mean {_KNOWN[near[0]]}?)"
            raise InvalidOptionError(option=name, value=value, problem=problem)
