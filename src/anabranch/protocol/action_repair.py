"""Making an action out of JSON that strict decoding refused.

Three things are put right, because logs with them exist and every reader takes them: fields unknown to
us (kept in `unknown`), required collections that are null or missing, and scalars of the wrong JSON type.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import msgspec

from anabranch.protocol.actions import (
    PARQUET,
    Action,
    AddCDCFile,
    AddFile,
    CommitInfo,
    DeletionVectorDescriptor,
    Format,
    Metadata,
    RemoveFile,
)

UNKNOWN: Final = "__unknown__"
EMPTY_SCHEMA: Final = '{"type":"struct","fields":[]}'

_DEFAULTS: Final[dict[type[Action], dict[str, Any]]] = {
    Metadata: {
        "format": {"provider": PARQUET.provider, "options": {}},
        "schemaString": EMPTY_SCHEMA,
        "partitionColumns": [],
        "configuration": {},
    },
    Format: {"provider": PARQUET.provider, "options": {}},
    AddFile: {"partitionValues": {}},
    AddCDCFile: {"partitionValues": {}, "dataChange": False},
    RemoveFile: {"dataChange": True},
}
"""What stands in for a required field that is null or missing, as Delta's own reader has it."""
_NESTED: Final[dict[tuple[type[Action], str], type[Action]]] = {
    (AddFile, "deletionVector"): DeletionVectorDescriptor,
    (RemoveFile, "deletionVector"): DeletionVectorDescriptor,
    (Metadata, "format"): Format,
}
_STRING_MAPS: Final = frozenset({"partitionValues", "tags", "configuration", "options"})


@functools.cache
def _field_names(kind: type[Action]) -> frozenset[str]:
    """Names as in JSON."""
    return frozenset(field.encode_name for field in msgspec.structs.fields(kind)) - {UNKNOWN}


class UnfitActionError(Exception):
    """The JSON cannot be made an action. Only `actions_json` sees this; it knows the line."""


def build_action(kind: type[Action], raw: Any) -> Action:
    """An action of this kind from the JSON below its key. Raises `UnfitActionError`."""
    fields = _prepare(kind, raw)
    if kind is CommitInfo:
        return _build_commit_info(fields)
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError:
        pass
    try:
        # Some writers quote numbers and booleans.
        return msgspec.convert(fields, kind, strict=False)
    except msgspec.ValidationError as error:
        raise UnfitActionError(str(error)) from error


def _prepare(kind: type[Action], raw: Any) -> dict[str, Any]:
    """Set defaults, make string maps of scalars, and gather unknown fields under one name."""
    if not isinstance(raw, dict):
        raise UnfitActionError("there is no JSON object")
    known = _field_names(kind)
    fields = dict(_DEFAULTS.get(kind, {}))
    unknown: dict[str, Any] = {}
    for name, value in raw.items():
        if value is None:
            continue
        if name not in known:
            unknown[name] = value
        elif nested := _NESTED.get((kind, name)):
            fields[name] = _prepare(nested, value)
        elif name in _STRING_MAPS and kind is not CommitInfo:
            fields[name] = _string_map(name, value)
        else:
            fields[name] = value
    if unknown:
        fields[UNKNOWN] = unknown
    return fields


def _string_map(name: str, value: Any) -> dict[str, str | None]:
    if not isinstance(value, dict):
        raise UnfitActionError(f"`{name}` is not a JSON object")
    return {key: _string(name, item) for key, item in value.items()}


def _string(name: str, value: Any) -> str | None:
    match value:
        case None | str():
            return value
        case bool() | int() | float():
            return msgspec.json.encode(value).decode()
        case _:
            raise UnfitActionError(f"`{name}` holds something that is not a string")


def _build_commit_info(fields: dict[str, Any]) -> CommitInfo:
    """Commit provenance may be any JSON, so a field of the wrong type counts as unknown."""
    unknown: dict[str, Any] = dict(fields.pop(UNKNOWN, {}))
    fitting: dict[str, Any] = {}
    for name, value in fields.items():
        try:
            msgspec.convert({name: value}, CommitInfo, strict=False)
        except msgspec.ValidationError:
            unknown[name] = value
        else:
            fitting[name] = value
    if unknown:
        fitting[UNKNOWN] = unknown
    return msgspec.convert(fitting, CommitInfo, strict=False)
