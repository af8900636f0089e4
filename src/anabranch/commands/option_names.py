"""The names of the options of reads, writes and streams, and the check for misspelled ones."""

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
_BY_LOWER_NAME = {name.lower(): name for name in (*OF_WRITES, *OF_READS, *OF_STREAMS)}
_SPARK_OPTIONS = frozenset({"paths"})
"""Names of Spark's own options that are similar to one of these."""
_SIMILARITY_MIN = 0.86
"""How similar two names must be, of 1, for one to be taken for a misspelling of the other."""


def check_names(options: Mapping[str, str]) -> None:
    """Refuse an option that looks like a misspelling of one of Delta's, as it would be ignored otherwise.

    Other names are allowed: Spark and file systems have their own options, most of them with a dot in the name. Raises
    `InvalidOptionError`.
    """
    for name, value in options.items():
        lower = name.lower()
        if lower in _BY_LOWER_NAME or lower in _SPARK_OPTIONS or "." in lower:
            continue
        similar = difflib.get_close_matches(lower, _BY_LOWER_NAME, n=1, cutoff=_SIMILARITY_MIN)
        if similar:
            problem = f"Delta has no option of this name (did you mean {_BY_LOWER_NAME[similar[0]]}?)"
            raise InvalidOptionError(option=name, value=value, problem=problem)
