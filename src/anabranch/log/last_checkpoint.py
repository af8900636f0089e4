"""The file `_last_checkpoint`: a hint to the newest checkpoint. See "Last Checkpoint File Schema"."""

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
"""A hint embeds at most a schema and sidecars, and delta-spark leaves out long ones. A larger file is ignored."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LastCheckpoint:
    """The hint, as the writer of the newest checkpoint wrote it."""

    version: int
    size: int
    """The number of actions in the checkpoint."""
    parts: int | None = None
    size_bytes: int | None = None
    num_of_add_files: int | None = None


def read_last_checkpoint(store: LogStore) -> LastCheckpoint | None:
    """The hint; None where it is absent, cut off, or has a wrong checksum."""
    try:
        data = store.read(LAST_CHECKPOINT_PATH, size_max=HINT_BYTES_MAX)
    except (FileMissingError, FileTooLargeError):
        return None
    try:
        fields = _parse(data.decode())
        if not isinstance(fields, dict):
            return None
        checksum = fields.get("checksum")
        # Half of a surrogate pair cannot be encoded as UTF-8, so it has no checksum: that is a `ValueError` too.
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
    """The checksum of a JSON object. Raises `ValueError` for text that is no JSON, repeats a key or is no Unicode.

    See "JSON checksum".
    """
    return hashlib.md5(canonical_json(text).encode(), usedforsecurity=False).hexdigest()


def canonical_json(text: str) -> str:
    """The canonical form of a JSON object, which is hashed. See "JSON checksum"."""
    document = _parse(text)
    if isinstance(document, dict):
        document.pop("checksum", None)
    pairs = sorted(_leaves(document, ()), key=lambda pair: "+".join(pair[0]).encode())
    return ",".join(f"{'+'.join(path)}={value}" for path, value in pairs)


class _Number(str):
    """The text of a number, which is its canonical form."""

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
        raise ValueError("a key is repeated")
    return fields


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    if isinstance(value, dict):
        for name, nested in value.items():
            yield from _leaves(nested, (*path, _percent_encoded(name)))
    elif isinstance(value, list):
        for position, nested in enumerate(value):
            yield from _leaves(nested, (*path, str(position)))
    elif isinstance(value, _Number):
        yield path, str(value)
    elif isinstance(value, str):
        yield path, _percent_encoded(value)
    else:
        yield path, {None: "null", True: "true", False: "false"}[value]


def _percent_encoded(text: str) -> str:
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
