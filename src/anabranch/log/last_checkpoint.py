"""The hint that says where the newest checkpoint is. See "Last Checkpoint File Schema"."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from anabranch.errors.environment import FileMissingError, FileTooLargeError
from anabranch.protocol.log_paths import LAST_CHECKPOINT_PATH, VERSION_MAX
from anabranch.storage.log_store import LogStore

HINT_BYTES_MAX = 1024 * 1024
"""A hint embeds at most a schema and sidecars, of which delta-spark leaves out long ones. A larger file is none."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LastCheckpoint:
    """What the writer of the newest checkpoint noted."""

    version: int
    size: int
    """Number of actions."""
    parts: int | None = None
    size_bytes: int | None = None
    num_of_add_files: int | None = None


def read_last_checkpoint(store: LogStore) -> LastCheckpoint | None:
    """The hint, or None where there is none that can be trusted: absent, torn, or with a wrong checksum."""
    try:
        data = store.read(LAST_CHECKPOINT_PATH, size_max=HINT_BYTES_MAX)
    except (FileMissingError, FileTooLargeError):
        return None
    try:
        fields = _parse(data.decode())
        if not isinstance(fields, dict):
            return None
        checksum = fields.get("checksum")
        # Half a surrogate pair has no UTF-8, and so no checksum: that is a `ValueError` too.
        if checksum is not None and checksum != json_checksum(data.decode()):
            return None
    except (ValueError, RecursionError):
        return None
    return _hint_of(fields)


def write_last_checkpoint(store: LogStore, hint: LastCheckpoint) -> None:
    """Replace the hint, with its checksum. Raises `StorageError`."""
    store.put(LAST_CHECKPOINT_PATH, encode_last_checkpoint(hint))


def encode_last_checkpoint(hint: LastCheckpoint) -> bytes:
    """The JSON of the hint, with its checksum."""
    fields: dict[str, Any] = {"version": hint.version, "size": hint.size}
    if hint.parts is not None:
        fields["parts"] = hint.parts
    if hint.size_bytes is not None:
        fields["sizeInBytes"] = hint.size_bytes
    if hint.num_of_add_files is not None:
        fields["numOfAddFiles"] = hint.num_of_add_files
    fields["checksum"] = json_checksum(json.dumps(fields))
    return json.dumps(fields, separators=(",", ":")).encode()


def json_checksum(text: str) -> str:
    """See "JSON checksum". Raises `ValueError` for what is not JSON, names a key twice or is no Unicode."""
    return hashlib.md5(canonical_json(text).encode(), usedforsecurity=False).hexdigest()


def canonical_json(text: str) -> str:
    """The one form in which a JSON object is hashed. See "JSON checksum"."""
    document = _parse(text)
    if isinstance(document, dict):
        document.pop("checksum", None)
    pairs = sorted(_leaves(document, ()), key=lambda pair: "+".join(pair[0]).encode())
    return ",".join(f"{'+'.join(path)}={value}" for path, value in pairs)


class _Number(str):
    """A number as it was written: it is its own canonical form."""

    __slots__ = ()


def _parse(text: str) -> Any:
    return json.loads(
        text, parse_int=_Number, parse_float=_Number, parse_constant=_refuse, object_pairs_hook=_without_duplicates
    )


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("a key is there twice")
    return fields


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(value, dict):
        for name, nested in value.items():
            yield from _leaves(nested, (*path, _quoted(name)))
    elif isinstance(value, list):
        for position, nested in enumerate(value):
            yield from _leaves(nested, (*path, str(position)))
    elif isinstance(value, _Number):
        yield path, str(value)
    elif isinstance(value, str):
        yield path, _quoted(value)
    else:
        yield path, {None: "null", True: "true", False: "false"}[value]


def _quoted(text: str) -> str:
    return f'"{quote(text, safe="-._~")}"'


def _hint_of(fields: dict[str, Any]) -> LastCheckpoint | None:
    version, size = _whole(fields.get("version")), _whole(fields.get("size"))
    if version is None:
        return None
    return LastCheckpoint(
        version=version,
        size=0 if size is None else size,
        parts=_whole(fields.get("parts")),
        size_bytes=_whole(fields.get("sizeInBytes")),
        num_of_add_files=_whole(fields.get("numOfAddFiles")),
    )


def _whole(value: Any) -> int | None:
    """A number from 0 to the largest version, else None."""
    if not isinstance(value, _Number) or not value.isdecimal() or len(value) > 19:
        return None
    number = int(value)
    return number if number <= VERSION_MAX else None
