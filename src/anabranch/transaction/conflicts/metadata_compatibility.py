"""Which changes of protocol and metadata leave a commit right that was made before them.

Only what is proven harmless is listed; anything else makes the commit fail and be made anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from pyspark.sql.types import StructField

from anabranch.booleans import parse_boolean
from anabranch.errors.base import DeltaError
from anabranch.protocol.actions import AddFile, DomainMetadata, Metadata, Protocol
from anabranch.protocol.features import supported
from anabranch.protocol.iceberg_compat import COMPAT_TAG, compat_versions
from anabranch.protocol.properties import TableProperties
from anabranch.schema.column_mapping import ColumnMappingMode, logical_path
from anabranch.schema.paths import FieldPath, quoted, walk
from anabranch.schema.serialization import parse_schema

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
    if any(_made_as(each) != _made_as(before) for each in (theirs, ours)):
        return None
    if not _is_looked_at_by_nobody(before, theirs) and not _is_looked_at_by_nobody(before, ours):
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


def _made_as(metadata: Metadata) -> tuple[Any, ...]:
    return metadata.id, metadata.format, metadata.partition_columns, metadata.created_time


def _is_looked_at_by_nobody(before: Metadata, after: Metadata) -> bool:
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


# What the description of a table asks: of its files, and of the parts of the description itself.
#
# A statement that changes the description has looked at what was there when it read. Whatever landed since is
# judged by the same rules for all such statements, so that none of them has to remember what it looked at.


CLUSTERING_DOMAIN = "delta.clustering"


def unfit_file(add: AddFile, metadata: Metadata, protocol: Protocol) -> str | None:
    """Why a file may not be in a table of this description, in words; None where it may.

    What the log does not tell of a file, as how Iceberg finds its columns, it is not taken to have.
    """
    properties = TableProperties(metadata.configuration)
    has_vector = add.deletion_vector is not None
    if has_vector and not supported(protocol, "deletionVectors"):
        return f"{add.path} hides rows by a deletion vector, which the table is not to support"
    if has_vector and properties.symlink_manifests_enabled:
        return f"{add.path} hides rows by a deletion vector, of which symlink manifests know nothing"
    if properties.row_tracking_enabled and add.base_row_id is None:
        return f"{add.path} has no row ids, and all rows are to have one"
    for version in compat_versions(properties)[:1]:
        if has_vector or (add.tags or {}).get(COMPAT_TAG) != str(version):
            return f"{add.path} was not written as version {version} of Iceberg compatibility asks"
    return None


def faults_of_description(metadata: Metadata, domains: Mapping[str, DomainMetadata], *, table: str) -> Iterator[str]:
    """What in a description contradicts itself. See "Clustered Table"."""
    columns = _clustering(domains.get(CLUSTERING_DOMAIN))
    if not columns:
        return
    if metadata.partition_columns:
        yield "the table would be both partitioned and clustered"
    schema = parse_schema(metadata.schema_string, table)
    mode = ColumnMappingMode.parse(TableProperties(metadata.configuration).column_mapping_mode)
    for path in columns:
        if logical_path(schema, path, mode) is None:
            yield f"the table would be clustered by {'.'.join(path)}, which is no column of its schema"


def _clustering(domain: DomainMetadata | None) -> list[tuple[str, ...]]:
    """Physical paths; none where the domain is not to be understood, which readers take for no clustering."""
    if domain is None or domain.removed:
        return []
    try:
        told = msgspec.json.decode(domain.configuration)
        return [tuple(map(str, path)) for path in told.get("clusteringColumns", [])]
    except (msgspec.MsgspecError, AttributeError, TypeError):
        return []


# What a commit changed in the description of a table, in words.


NAMES_MAX = 5
"""So many columns of each kind are named; the rest are counted."""


def differences(before: Metadata, after: Metadata, *, table: str) -> str | None:
    """Columns that came, went or changed, the partitioning, properties; None where nothing can be told."""
    try:
        parts = list(_differences(_columns(before, table), _columns(after, table)))
    except DeltaError:
        return None
    if before.partition_columns != after.partition_columns:
        parts.append(f"partitioned by ({', '.join(after.partition_columns)})")
    names = before.configuration.keys() | after.configuration.keys()
    changed = sorted(name for name in names if before.configuration.get(name) != after.configuration.get(name))
    if changed:
        parts.append(_listed("set", changed))
    return "; ".join(parts) or None


def _columns(metadata: Metadata, table: str) -> dict[FieldPath, StructField]:
    return dict(walk(parse_schema(metadata.schema_string, table)))


def _differences(before: dict[FieldPath, StructField], after: dict[FieldPath, StructField]) -> Iterator[str]:
    added = [quoted(path) for path in after if path not in before and path[:-1] not in after.keys() - before.keys()]
    dropped = [quoted(path) for path in before if path not in after and path[:-1] not in before.keys() - after.keys()]
    changed = [
        quoted(path) for path, field in after.items() if path in before and not _is_the_same(field, before[path])
    ]
    for what, names in (("added", added), ("dropped", dropped), ("changed", changed)):
        if names:
            yield _listed(what, names)


def _is_the_same(after: StructField, before: StructField) -> bool:
    """Whether the field itself is as it was; what lies in a struct is told on its own."""
    same = after.nullable == before.nullable and after.metadata == before.metadata
    nested = (
        after.dataType.typeName() in ("struct", "array", "map")
        and after.dataType.typeName() == before.dataType.typeName()
    )
    return same and (nested or after.dataType == before.dataType)


def _listed(what: str, names: list[str]) -> str:
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    return f"{what} {', '.join(names[:NAMES_MAX])}{more}"
