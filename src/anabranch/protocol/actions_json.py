"""Actions to and from the JSON lines of a commit. See "Delta Log Entries" and "Actions".

A line is decoded straight into its type. Where that fails, because of a field that the protocol did not define
when this was written or because an old writer was lax, the line is decoded as plain JSON and corrected.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from anabranch.errors.protocol import MalformedActionError
from anabranch.protocol.actions import (
    PARQUET,
    Action,
    AddCDCFile,
    AddFile,
    CheckpointMetadata,
    CommitInfo,
    DeletionVectorDescriptor,
    DomainMetadata,
    Format,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
    Sidecar,
)

# Making an action out of JSON that strict decoding refused.
#
# Three things are corrected, because logs with them exist and every reader accepts them: unknown fields
# (kept in `unknown`), required collections that are null or missing, and scalars of the wrong JSON type.


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
"""The value of a required field that is null or missing, as in Delta's own reader."""
_NESTED: Final[dict[tuple[type[Action], str], type[Action]]] = {
    (AddFile, "deletionVector"): DeletionVectorDescriptor,
    (RemoveFile, "deletionVector"): DeletionVectorDescriptor,
    (Metadata, "format"): Format,
}
_STRING_MAPS: Final = frozenset({"partitionValues", "tags", "configuration", "options"})


@functools.cache
def _field_names(kind: type[Action]) -> frozenset[str]:
    """The names of the fields of an action, as in JSON."""
    return frozenset(field.encode_name for field in msgspec.structs.fields(kind)) - {UNKNOWN}


class UnfitActionError(Exception):
    """The JSON cannot be made an action. Only `actions_json` catches this, and adds the line to the error."""


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
    field_names = _field_names(kind)
    fields = dict(_DEFAULTS.get(kind, {}))
    unknown: dict[str, Any] = {}
    for name, value in raw.items():
        if value is None:
            continue
        if name not in field_names:
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
            raise UnfitActionError(f"`{name}` has a value that is not a string")


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


LINE_BYTES_MAX: Final = 256 * 1024 * 1024
"""No writer comes near this: a schema of 100,000 columns takes some 20 MB."""
ODD_LINE_BYTES_MAX: Final = 32 * 1024 * 1024
"""The limit for a line that strict decoding refused: it becomes Python objects, of many times its size."""
EXCERPT_CHARACTERS: Final = 120

TYPE_BY_KEY: Final[dict[str, type[Action]]] = {
    "add": AddFile,
    "remove": RemoveFile,
    "commitInfo": CommitInfo,
    "cdc": AddCDCFile,
    "metaData": Metadata,
    "protocol": Protocol,
    "txn": SetTransaction,
    "domainMetadata": DomainMetadata,
    "sidecar": Sidecar,
    "checkpointMetadata": CheckpointMetadata,
}
"""The one key of a line, and the type of the action below it."""
KEY_BY_TYPE: Final[dict[type[Action], str]] = {action: key for key, action in TYPE_BY_KEY.items()}

_DECODERS: Final[dict[bytes, msgspec.json.Decoder[Any]]] = {
    key.encode(): msgspec.json.Decoder(
        msgspec.defstruct("Line", [("action", action, msgspec.field(name=key))], forbid_unknown_fields=True)
    )
    for key, action in TYPE_BY_KEY.items()
}
"""One decoder for each kind. It refuses a line with anything beside its one key; that is decoded as plain JSON."""
_ANY_JSON: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder()
_ENCODER: Final = msgspec.json.Encoder()
_FIRST_KEY: Final = re.compile(rb'\s*\{\s*"(\w+)"\s*:')
_BLANK: Final = b" \t\r\n"


def parse_action(line: bytes, *, line_number: int = 1) -> Action | None:
    """The action of one line; None for an unknown kind, which the protocol says to ignore.

    Raises `MalformedActionError`.
    """
    first = _FIRST_KEY.match(line) if len(line) <= LINE_BYTES_MAX else None
    decoder = _DECODERS.get(first[1]) if first else None
    if decoder is not None:
        try:
            action: Action = decoder.decode(line).action
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            pass
        else:
            if _is_plain(action):
                return action
    return _parse_any(line, line_number)


def parse_actions(data: bytes) -> Iterator[Action]:
    """The actions of a commit, in order. Blank lines and actions of unknown kinds are skipped.

    Raises `MalformedActionError` when it reaches a line that is no action; a last line that was cut
    off is such a line.
    """
    for line_number, line in enumerate(_lines(data), start=1):
        if line.strip(_BLANK):
            action = parse_action(line, line_number=line_number)
            if action is not None:
                yield action


def _parse_any(line: bytes, line_number: int) -> Action | None:
    """The action of a line that strict decoding refused, or that has further keys; None for an unknown kind."""
    fields = _load_object(line, line_number)
    kinds = [key for key in TYPE_BY_KEY if fields.get(key) is not None]
    if len(kinds) > 1:
        reason = f"it has several actions ({', '.join(kinds)})"
        raise MalformedActionError(line_number=line_number, reason=reason, excerpt=_excerpt(line))
    if not kinds:
        return None
    kind = kinds[0]
    try:
        return build_action(TYPE_BY_KEY[kind], fields[kind])
    except UnfitActionError as error:
        raise MalformedActionError(
            line_number=line_number, reason=f"in `{kind}`, {error}", excerpt=_excerpt(line)
        ) from error


def encode_action(action: Action) -> bytes:
    """One line, without the line break: UTF-8, nulls only in maps, unknown fields as they were read."""
    key = KEY_BY_TYPE[type(action)]
    if _is_plain(action):
        return _ENCODER.encode({key: action})
    return _ENCODER.encode({key: _with_unknown(msgspec.to_builtins(action))})


def encode_actions(actions: Iterable[Action]) -> bytes:
    """The content of a commit, in the order of `actions`; every line ends with a line break.

    "In-Commit Timestamps" requires `commitInfo` to be first; the caller sees to that.
    """
    return b"".join([encode_action(action) + b"\n" for action in actions])


def _lines(data: bytes) -> Iterator[bytes]:
    """The lines of `data`, without holding all of them in memory."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start)
        if end < 0:
            end = len(data)
        yield data[start:end]
        start = end + 1


def _is_plain(action: Action) -> bool:
    """Whether the action has no unknown fields."""
    nested: Action | None = None
    if isinstance(action, AddFile | RemoveFile):
        nested = action.deletion_vector
    elif isinstance(action, Metadata):
        nested = action.format
    return action.unknown is msgspec.UNSET and (nested is None or nested.unknown is msgspec.UNSET)


def _load_object(line: bytes, line_number: int) -> dict[str, Any]:
    bytes_max = min(LINE_BYTES_MAX, ODD_LINE_BYTES_MAX)
    if len(line) > bytes_max:
        reason = f"it has {len(line)} bytes, more than {bytes_max}"
        raise MalformedActionError(line_number=line_number, reason=reason, excerpt=_excerpt(line))
    try:
        decoded = _ANY_JSON.decode(line)
    except RecursionError:
        reason = "its JSON is nested too deeply"
        raise MalformedActionError(line_number=line_number, reason=reason, excerpt=_excerpt(line)) from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        reason = f"it is not JSON ({error})"
        raise MalformedActionError(line_number=line_number, reason=reason, excerpt=_excerpt(line)) from error
    if not isinstance(decoded, dict):
        reason = "it is not a JSON object"
        raise MalformedActionError(line_number=line_number, reason=reason, excerpt=_excerpt(line))
    return decoded


def _with_unknown(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields with the unknown ones back beside them, also one level down."""
    unknown = fields.pop("__unknown__", None) or {}
    for name in ("deletionVector", "format"):
        if isinstance(nested := fields.get(name), dict):
            fields[name] = _with_unknown(nested)
    return fields | {name: value for name, value in unknown.items() if name not in fields}


def _excerpt(line: bytes) -> str:
    return line[:EXCERPT_CHARACTERS].decode("utf-8", errors="replace")
