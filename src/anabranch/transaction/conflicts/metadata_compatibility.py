"""Which changes of protocol and metadata leave a commit right that was made before them.

Only what is proven harmless is listed; anything else makes the commit fail and be made anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from anabranch.booleans import parse_boolean
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
    """Whether rows look and lie the same: schemas that differ in spelling or comments are one schema."""
    same_schema = before.schema_string == after.schema_string or (
        _without_comments(msgspec.json.decode(before.schema_string))
        == _without_comments(msgspec.json.decode(after.schema_string))
    )
    same_layout = before.partition_columns == after.partition_columns
    return same_schema and same_layout and before.format == after.format


def _without_comments(schema: Any) -> Any:
    """A schema's JSON less the comments of its fields, at any depth."""
    if isinstance(schema, list):
        return [_without_comments(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _without_comments(value) for key, value in schema.items() if key != "metadata"}
    said = schema.get("metadata")
    if isinstance(said, dict):
        said = {key: value for key, value in said.items() if key != "comment"}
    return found | ({"metadata": said} if "metadata" in schema else {})


def harmful_properties(before: Mapping[str, str | None], after: Mapping[str, str | None]) -> list[str]:
    """Names of the properties whose change may make a commit wrong that was made before it."""
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
    """Both give one thing another value."""


def merged_metadata(before: Metadata, theirs: Metadata, ours: Metadata, *, edited: frozenset[str]) -> Metadata | None:
    """The metadata with both changes; None where one of the two may make the other wrong.

    For statements that edit single things, each of which only one of the two changes. One of them must change nothing
    but what no statement looks at: comments, names, properties of users and of upkeep. `edited` are the properties that
    ours states, `comment` for the table's description: also one that had this value already is not theirs to change.
    """
    if any(_identity(each) != _identity(before) for each in (theirs, ours)):
        return None
    if not _changes_only_upkeep(before, theirs) and not _changes_only_upkeep(before, ours):
        return None
    configuration: dict[str, Any] = {}
    if "comment" in edited and theirs.description not in (before.description, ours.description):
        return None
    try:
        for name in dict.fromkeys([*theirs.configuration, *ours.configuration]):
            was, there, here = (each.configuration.get(name, _ABSENT) for each in (before, theirs, ours))
            if name in edited and there not in (was, here):
                raise _BothChangeError
            value = _changed_by_one(was, there, here)
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
    """Whether all that changed is such that no statement, and no other change of the description, depends on it."""
    names = before.configuration.keys() | after.configuration.keys()
    changed = [name for name in names if before.configuration.get(name) != after.configuration.get(name)]
    # The policy needs a table feature, which a statement beside it may drop.
    free = FREE_TO_CHANGE - {"delta.checkpointPolicy"}
    return same_schema_and_layout(before, after) and all(
        name in free or not name.lower().startswith("delta.") for name in changed
    )


def _changed_by_one(before: Any, theirs: Any, ours: Any) -> Any:
    if ours in (before, theirs):
        return theirs
    if theirs == before:
        return ours
    raise _BothChangeError
