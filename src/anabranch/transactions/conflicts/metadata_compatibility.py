"""Which changes of protocol and metadata by a winner are no conflict for a commit.

Only changes that are proven harmless are listed; any other change is a conflict.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from anabranch.booleans import parse_boolean
from anabranch.protocol.actions import Metadata
from anabranch.schema.column_mapping import MAPPING_KEYS
from anabranch.schema.computed_columns import IDENTITY_HIGH_WATER_MARK, IDENTITY_STEP
from anabranch.schema.logical_types import DECLARED_TYPE
from anabranch.transactions.property_changes import PROPERTY_CHANGES, PropertyChange

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

_BESIDE_WRITERS = frozenset({PropertyChange.UPKEEP, PropertyChange.FEATURE, PropertyChange.STATISTICS})
"""Properties that change in any way without harm for a statement that writes rows at the same time."""
_BESIDE_CLUSTERING = frozenset({PropertyChange.UPKEEP, PropertyChange.FEATURE})
"""Those that say nothing of the columns by which a table may be clustered: these need statistics."""
_PLAIN_KEYS = MAPPING_KEYS | {"comment", DECLARED_TYPE}
"""The metadata of a column whose values are neither computed nor checked, apart from a length."""


def harmful_features(before: frozenset[str], after: frozenset[str]) -> tuple[list[str], list[str]]:
    """The features that were dropped, and the added features that may demand something of existing files."""
    return sorted(before - after), sorted(after - before - ADDED_WITHOUT_HARM)


def same_schema_and_layout(before: Metadata, after: Metadata) -> bool:
    """Whether schema, partitioning and format are equal. Spelling of the JSON and comments of columns do not count.

    Nor do the high-water marks of identity columns, which only matter to a commit that moves them.
    """
    same_schema = before.schema_string == after.schema_string or (
        _without_comments(msgspec.json.decode(before.schema_string))
        == _without_comments(msgspec.json.decode(after.schema_string))
    )
    same_layout = before.partition_columns == after.partition_columns
    return same_schema and same_layout and before.format == after.format


def _without_comments(schema: Any) -> Any:
    """The JSON of a schema without the comments of its fields and the marks of identity columns, at any depth."""
    return _without_keys(schema, frozenset({"comment", IDENTITY_HIGH_WATER_MARK}))


def _without_keys(schema: Any, keys: frozenset[str]) -> Any:
    if isinstance(schema, list):
        return [_without_keys(element, keys) for element in schema]
    if not isinstance(schema, dict):
        return schema
    entries = {key: _without_keys(value, keys) for key, value in schema.items() if key != "metadata"}
    metadata = schema.get("metadata")
    if isinstance(metadata, dict):
        metadata = {key: value for key, value in metadata.items() if key not in keys}
    return entries | ({"metadata": metadata} if "metadata" in schema else {})


def adds_only_columns(before: Metadata, after: Metadata) -> bool:
    """Whether `after` has all columns of `before`, in the same order, and more that old files may lack.

    A new column, also in a struct, allows NULL at every depth, and the table neither computes nor checks its values.
    """
    return (
        before.partition_columns == after.partition_columns
        and before.format == after.format
        and _adds_only_fields(
            _without_comments(msgspec.json.decode(before.schema_string)),
            _without_comments(msgspec.json.decode(after.schema_string)),
        )
    )


def _adds_only_fields(before: Any, after: Any) -> bool:
    """Whether one type, or one field, is the other with more fields in its structs. Keys of maps are the same."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return bool(before == after)
    parts = {"type", "fields", "elementType", "valueType"}
    if {key: value for key, value in before.items() if key not in parts} != {
        key: value for key, value in after.items() if key not in parts
    }:
        return False
    if "fields" not in before or "fields" not in after:
        return all(_adds_only_fields(before.get(part), after.get(part)) for part in parts)
    names = [field["name"] for field in before["fields"]]
    kept = [field for field in after["fields"] if field["name"] in names]
    new = [field for field in after["fields"] if field["name"] not in names]
    return (
        before.get("type") == after.get("type")
        and names == [field["name"] for field in kept]
        and all(map(_adds_only_fields, before["fields"], kept))
        and all(map(_may_be_missing, new))
    )


def _may_be_missing(field: Mapping[str, Any]) -> bool:
    """Whether files may lack this field, which is NULL for their rows then."""
    return (field.get("metadata") or {}).keys() <= _PLAIN_KEYS and _allows_nulls(field)


def _allows_nulls(part: Any) -> bool:
    """Whether nothing in a field or type forbids NULL, or has metadata that demand something of its values."""
    if isinstance(part, list):
        return all(map(_allows_nulls, part))
    if not isinstance(part, dict):
        return True
    flags = (part.get(name, True) for name in ("nullable", "containsNull", "valueContainsNull"))
    plain = (part.get("metadata") or {}).keys() <= _PLAIN_KEYS
    return plain and all(flags) and all(_allows_nulls(value) for key, value in part.items() if key != "metadata")


def harmful_properties(before: Mapping[str, str | None], after: Mapping[str, str | None]) -> list[str]:
    """The names of changed properties for which the change may make a concurrent commit wrong."""
    return _changed_but(before, after, _BESIDE_WRITERS)


def redefining_properties(before: Mapping[str, str | None], after: Mapping[str, str | None]) -> list[str]:
    """The names of changed properties that may matter to the columns by which another statement clusters the table."""
    return _changed_but(before, after, _BESIDE_CLUSTERING)


def _changed_but(
    before: Mapping[str, str | None], after: Mapping[str, str | None], free: frozenset[PropertyChange]
) -> list[str]:
    names = before.keys() | after.keys()
    changed = [name for name in names if before.get(name) != after.get(name)]
    return sorted(name for name in changed if not _is_harmless(name, before.get(name), after.get(name), free))


def _is_harmless(name: str, before: str | None, after: str | None, free: frozenset[PropertyChange]) -> bool:
    match _kind_of(name):
        case PropertyChange.TURNED_ON:
            return after is not None and parse_boolean(after) is True
        case PropertyChange.FIRST_SET:
            return before is None
        case PropertyChange.INCREASED:
            return after is not None and after.isdecimal() and int(after) >= int(before or 0)
        case kind:
            return kind in free


def _kind_of(name: str) -> PropertyChange:
    """How a change of the property affects others; that of one that Delta does not define affects none."""
    return PROPERTY_CHANGES.get(name) or (
        PropertyChange.CONFLICT if name.lower().startswith("delta.") else PropertyChange.UPKEEP
    )


# The high-water marks of identity columns. See "Identity Columns".


def changes_only_marks(before: Metadata, after: Metadata) -> bool:
    """Whether the metadata differ in nothing but the high-water marks of identity columns."""
    one, other = (msgspec.structs.replace(metadata, schema_string="") for metadata in (before, after))
    return one == other and _changes_only_marks(before.schema_string, after.schema_string)


def _changes_only_marks(before: str, after: str) -> bool:
    keys = frozenset({IDENTITY_HIGH_WATER_MARK})
    one, other = (_without_keys(msgspec.json.decode(text), keys) for text in (before, after))
    return bool(one == other)


def moved_marks(before: Metadata, after: Metadata) -> dict[str, int]:
    """The new marks of the columns for which a commit has generated values, if it changes nothing else of the metadata.

    A mark that falls, as that of a table which is replaced, is another change.
    """
    if not changes_only_marks(before, after):
        return {}
    old, new = (_identity_fields(metadata.schema_string) for metadata in (before, after))
    moved = {name: _mark(new[name]) for name in changed_marks(before, after)}
    advanced = {
        name: mark
        for name, mark in moved.items()
        if mark is not None and _is_after(mark, _mark(old[name]), step=new[name]["metadata"][IDENTITY_STEP])
    }
    return advanced if advanced.keys() == moved.keys() else {}


def changed_marks(before: Metadata, after: Metadata) -> set[str]:
    """The identity columns of both that have another mark."""
    old, new = (_identity_fields(metadata.schema_string) for metadata in (before, after))
    return {name for name in old.keys() & new.keys() if _mark(old[name]) != _mark(new[name])}


def mark_covers(metadata: Metadata, name: str, number: int) -> bool:
    """Whether the mark of an identity column is at this number or behind it, so that nobody generates the number."""
    field = _identity_fields(metadata.schema_string).get(name)
    mark = None if field is None else _mark(field)
    if field is None or mark is None:
        return False
    return mark == number or _is_after(mark, number, step=field["metadata"][IDENTITY_STEP])


def with_marks(metadata: Metadata, marks: Mapping[str, int]) -> Metadata:
    """The metadata with these marks."""
    schema = msgspec.json.decode(metadata.schema_string)
    for field in schema["fields"]:
        if field["name"] in marks:
            field["metadata"][IDENTITY_HIGH_WATER_MARK] = marks[field["name"]]
    return msgspec.structs.replace(metadata, schema_string=msgspec.json.encode(schema).decode())


def _identity_fields(schema_string: str) -> dict[str, dict[str, Any]]:
    if IDENTITY_STEP not in schema_string:
        return {}
    fields = msgspec.json.decode(schema_string)["fields"]
    return {field["name"]: field for field in fields if IDENTITY_STEP in (field.get("metadata") or {})}


def _mark(field: Mapping[str, Any]) -> int | None:
    mark = (field.get("metadata") or {}).get(IDENTITY_HIGH_WATER_MARK)
    return mark if isinstance(mark, int) else None


def _is_after(mark: int, before: int | None, *, step: int) -> bool:
    return before is None or (mark > before if step > 0 else mark < before)


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
            schema_string=_merged_schema(before, theirs, ours),
            configuration=configuration,
        )
    except _BothChangeError:
        return None


def _merged_schema(before: Metadata, theirs: Metadata, ours: Metadata) -> str:
    """The schema with both changes, of which one may only have moved marks of columns that the other has kept."""
    changed = (before.schema_string, theirs.schema_string, ours.schema_string)
    if len(set(changed)) < 3 or not _changes_only_marks(before.schema_string, theirs.schema_string):
        return str(_changed_by_one(*changed))
    old, new, kept = map(_identity_fields, changed)
    marks = {name: mark for name, field in new.items() if (mark := _mark(field)) != _mark(old[name])}
    if any(mark is None or not _is_same_column(old[name], kept.get(name)) for name, mark in marks.items()):
        raise _BothChangeError
    return with_marks(ours, {name: mark for name, mark in marks.items() if mark is not None}).schema_string


def _is_same_column(before: Mapping[str, Any], after: Mapping[str, Any] | None) -> bool:
    """Whether the identity column is unchanged but for its comment."""
    return after is not None and _without_keys(before, frozenset({"comment"})) == _without_keys(
        after, frozenset({"comment"})
    )


def _identity(metadata: Metadata) -> tuple[Any, ...]:
    return metadata.id, metadata.format, metadata.partition_columns, metadata.created_time


def _changes_only_upkeep(before: Metadata, after: Metadata) -> bool:
    """Whether no statement, and no other change of the description, depends on any of the changed parts."""
    names = before.configuration.keys() | after.configuration.keys()
    changed = [name for name in names if before.configuration.get(name) != after.configuration.get(name)]
    return same_schema_and_layout(before, after) and all(_kind_of(name) is PropertyChange.UPKEEP for name in changed)


def _changed_by_one(before: Any, theirs: Any, ours: Any) -> Any:
    """The value after both changes. Raises `_BothChangeError` where they differ."""
    if ours in (before, theirs):
        return theirs
    if theirs == before:
        return ours
    raise _BothChangeError
