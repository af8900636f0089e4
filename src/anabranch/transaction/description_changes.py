"""Which changes of protocol and metadata leave a commit right that was made before them.

Only what is proven harmless is listed; anything else makes the commit fail and be made anew.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from anabranch.protocol.actions import Metadata

ADDED_WITHOUT_HARM = frozenset(
    {
        "appendOnly",  # takes effect through its property, which is judged on its own
        "clustering",
        "deletionVectors",
        "domainMetadata",
        "inCommitTimestamp",
        "invariants",
        "rowTracking",
        "timestampNtz",
        "typeWidening",
        "v2Checkpoint",
        "vacuumProtocolCheck",
        "variantType",
    }
)
"""Features that ask nothing of data files already written, or only what is filled in with each attempt: row
ids, timestamps. The types and column changes among them come with a new schema, which is judged on its own."""

TURNED_ON_WITHOUT_HARM = frozenset(
    {"delta.enableDeletionVectors", "delta.enableInCommitTimestamps", "delta.enableRowTracking"}
)
"""May become true. Vectors are allowed then, not demanded; ids and timestamps are filled in with each attempt."""

NOTED_ONCE_WITHOUT_HARM = frozenset(
    {
        "delta.inCommitTimestampEnablementTimestamp",
        "delta.inCommitTimestampEnablementVersion",
        "delta.rowTracking.materializedRowCommitVersionColumnName",
        "delta.rowTracking.materializedRowIdColumnName",
    }
)
"""May appear: notes of those features. Files that lack the row id columns have nothing to say about them."""

FREE_TO_CHANGE = frozenset(
    {
        "delta.autoOptimize",
        "delta.autoOptimize.autoCompact",
        "delta.autoOptimize.optimizeWrite",
        "delta.checkpoint.writeStatsAsJson",
        "delta.checkpoint.writeStatsAsStruct",
        "delta.checkpointInterval",
        "delta.checkpointPolicy",
        "delta.checkpointRetentionDuration",
        "delta.deletedFileRetentionDuration",
        "delta.enableExpiredLogCleanup",
        "delta.enableFullRetentionRollback",
        "delta.logRetentionDuration",
        "delta.parquet.compression.codec",
        "delta.randomPrefixLength",
        "delta.randomizeFilePrefixes",
        "delta.sampleRetentionDuration",
        "delta.targetFileSize",
    }
)
"""About upkeep, or about how files written later look."""


def harmful_features(before: frozenset[str], after: frozenset[str]) -> tuple[list[str], list[str]]:
    """Features dropped, and features added that may ask something of files already written."""
    return sorted(before - after), sorted(after - before - ADDED_WITHOUT_HARM)


def same_schema_and_layout(before: Metadata, after: Metadata) -> bool:
    """Whether rows look and lie the same. Two spellings of one schema are one schema."""
    same_schema = before.schema_string == after.schema_string or (
        msgspec.json.decode(before.schema_string) == msgspec.json.decode(after.schema_string)
    )
    same_layout = before.partition_columns == after.partition_columns
    return same_schema and same_layout and before.format == after.format


def harmful_properties(before: Mapping[str, str | None], after: Mapping[str, str | None]) -> list[str]:
    """Names of the properties whose change may make a commit wrong that was made before it."""
    names = before.keys() | after.keys()
    changed = [name for name in names if before.get(name) != after.get(name)]
    return sorted(name for name in changed if not _is_harmless(name, before.get(name), after.get(name)))


def _is_harmless(name: str, before: str | None, after: str | None) -> bool:
    if name in TURNED_ON_WITHOUT_HARM:
        return after is not None and after.lower() == "true"
    if name in NOTED_ONCE_WITHOUT_HARM:
        return before is None
    return name in FREE_TO_CHANGE or not name.lower().startswith("delta.")
