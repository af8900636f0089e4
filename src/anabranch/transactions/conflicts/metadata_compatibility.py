"""Which changes of protocol and metadata by a winner are no conflict for a commit.

Only changes that are proven harmless are listed; any other change is a conflict.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from anabranch.booleans import parse_boolean
from anabranch.protocol.actions import Metadata

ADDED_WITHOUT_HARM = frozenset(
    {
        "appendOnly",  # takes effect through its property, which is checked separately
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
"""Features that demand nothing of existing data files, or only row ids and timestamps, which are set at each attempt.
The types and column changes among them come with a new schema, which is checked separately."""

TURNED_ON_WITHOUT_HARM = frozenset(
    {"delta.enableDeletionVectors", "delta.enableInCommitTimestamps", "delta.enableRowTracking"}
)
"""Properties that may become true. They allow vectors but do not demand them; ids and timestamps are set at each
attempt."""

NOTED_ONCE_WITHOUT_HARM = frozenset(
    {
        "delta.inCommitTimestampEnablementTimestamp",
        "delta.inCommitTimestampEnablementVersion",
        "delta.rowTracking.materializedRowCommitVersionColumnName",
        "delta.rowTracking.materializedRowIdColumnName",
    }
)
"""Properties that may appear: those features record their enablement in them. A file without the materialized columns
of row ids stays valid."""

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
"""Properties of log maintenance, and of files that are written later."""


def harmful_features(before: frozenset[str], after: frozenset[str]) -> tuple[list[str], list[str]]:
    """The features that were dropped, and the added features that may demand something of existing files."""
    return sorted(before - after), sorted(after - before - ADDED_WITHOUT_HARM)


def same_schema_and_layout(before: Metadata, after: Metadata) -> bool:
    """Whether schema, partitioning and format are equal. Spelling of the JSON and comments of columns do not count."""
    same_schema = before.schema_string == after.schema_string or (
        _without_comments(msgspec.json.decode(before.schema_string))
        == _without_comments(msgspec.json.decode(after.schema_string))
    )
    same_layout = before.partition_columns == after.partition_columns
    return same_schema and same_layout and before.format == after.format


def _without_comments(schema: Any) -> Any:
    """The JSON of a schema without the comments of its fields, at any depth."""
    if isinstance(schema, list):
        return [_without_comments(element) for element in schema]
    if not isinstance(schema, dict):
        return schema
    entries = {key: _without_comments(value) for key, value in schema.items() if key != "metadata"}
    metadata = schema.get("metadata")
    if isinstance(metadata, dict):
        metadata = {key: value for key, value in metadata.items() if key != "comment"}
    return entries | ({"metadata": metadata} if "metadata" in schema else {})


def harmful_properties(before: Mapping[str, str | None], after: Mapping[str, str | None]) -> list[str]:
    """The names of changed properties for which the change may make a concurrent commit wrong."""
    names = before.keys() | after.keys()
    changed = [name for name in names if before.get(name) != after.get(name)]
    return sorted(name for name in changed if not _is_harmless(name, before.get(name), after.get(name)))


def _is_harmless(name: str, before: str | None, after: str | None) -> bool:
    if name in TURNED_ON_WITHOUT_HARM:
        return after is not None and parse_boolean(after) is True
    if name in NOTED_ONCE_WITHOUT_HARM:
        return before is None
    return name in FREE_TO_CHANGE or not name.lower().startswith("delta.")


# Two changes of the description that commute.


_ABSENT = object()


class _BothChangeError(Exception):
    """Both metadata change the same part, to different values."""


def merged_metadata(before: Metadata, theirs: Metadata, ours: Metadata, *, edited: frozenset[str]) -> Metadata | None:
    """The metadata with both changes; None where one of the two may make the other wrong.

    It is for statements that edit single parts of the metadata, each of which only one of the two changes. One of them
    must change only parts that no statement depends on: comments, names, properties of users and of upkeep. `edited`
    are the properties that ours sets, and `comment` for the table's description; the other change may not touch them,
    also where ours sets the value that they had already.
    """
    if any(_identity(metadata) != _identity(before) for metadata in (theirs, ours)):
        return None
    if not _changes_only_upkeep(before, theirs) and not _changes_only_upkeep(before, ours):
        return None
    configuration: dict[str, Any] = {}
    if "comment" in edited and theirs.description not in (before.description, ours.description):
        return None
    try:
        for name in dict.fromkeys([*theirs.configuration, *ours.configuration]):
            old, their_value, our_value = (
                metadata.configuration.get(name, _ABSENT) for metadata in (before, theirs, ours)
            )
            if name in edited and their_value not in (old, our_value):
                raise _BothChangeError
            value = _changed_by_one(old, their_value, our_value)
            if value is not _ABSENT:
                configuration[name] = value
        return msgspec.structs.replace(
            theirs,
            name=_changed_by_one(before.name, theirs.name, ours.name),
            description=_changed_by_one(before.description, theirs.description, ours.description),
            schema_string=_changed_by_one(before.schema_string, theirs.schema_string, ours.schema_string),
            configuration=configuration,
        )
    except _BothChangeError:
        return None


def _identity(metadata: Metadata) -> tuple[Any, ...]:
    return metadata.id, metadata.format, metadata.partition_columns, metadata.created_time


def _changes_only_upkeep(before: Metadata, after: Metadata) -> bool:
    """Whether no statement, and no other change of the description, depends on any of the changed parts."""
    names = before.configuration.keys() | after.configuration.keys()
    changed = [name for name in names if before.configuration.get(name) != after.configuration.get(name)]
    # The checkpoint policy needs a table feature, which a concurrent statement may drop.
    free = FREE_TO_CHANGE - {"delta.checkpointPolicy"}
    return same_schema_and_layout(before, after) and all(
        name in free or not name.lower().startswith("delta.") for name in changed
    )


def _changed_by_one(before: Any, theirs: Any, ours: Any) -> Any:
    """The value after both changes. Raises `_BothChangeError` where they differ."""
    if ours in (before, theirs):
        return theirs
    if theirs == before:
        return ours
    raise _BothChangeError
