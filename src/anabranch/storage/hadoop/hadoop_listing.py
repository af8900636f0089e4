"""Listings of Hadoop file systems, transferred from the JVM in bulk.

A call into the JVM takes about 0.1 ms, so there are no calls per file: one directory level takes a
dozen calls, for any number of files. The statuses are transferred in Hadoop's own serialised form (`Writable`), of
which four fields matter here. On Hadoop's local file system that form is slow, since it runs `ls` for each file to
read the permissions; local disks have `LocalStore`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

_DIRECTORY = 1
_FILE = 2


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HadoopFile:
    """A file or directory, not a link."""

    path: str
    """The fully qualified path, as `org.apache.hadoop.fs.Path` prints it."""
    is_directory: bool
    size_bytes: int
    modified_ms: int


def list_directories(gateway: Any, files: Any, directories: Sequence[str]) -> list[HadoopFile]:
    """The files and directories directly in `directories`; `files` is a Java `FileSystem`. Raises Py4J's errors."""
    jvm = gateway.jvm
    # No file name has a NUL, so the list is passed as one string.
    names = jvm.java.util.regex.Pattern.compile("\0").split("\0".join(directories))
    statuses = files.listStatus(jvm.org.apache.hadoop.util.StringUtils.stringToPath(names))
    count = len(statuses)
    # Py4J accepts no array of a subclass for a parameter that is an array of `Writable`.
    writables = gateway.new_array(jvm.org.apache.hadoop.io.Writable, count)
    jvm.java.lang.System.arraycopy(statuses, 0, writables, 0, count)
    status_class = jvm.py4j.reflection.ReflectionUtil.classForName("org.apache.hadoop.fs.FileStatus")
    buffer = jvm.java.io.ByteArrayOutputStream()
    array = jvm.org.apache.hadoop.io.ArrayWritable(status_class, writables)
    array.write(jvm.java.io.DataOutputStream(buffer))
    return list(decode_statuses(bytes(buffer.toByteArray())))


def decode_statuses(data: bytes) -> Iterator[HadoopFile]:
    """The statuses in an `ArrayWritable` of `FileStatus`: their number, then the length and the message of each."""
    count = int.from_bytes(data[:4], "big")
    position = 4
    for _ in range(count):
        end = position + 4 + int.from_bytes(data[position : position + 4], "big")
        if end > len(data):
            raise ValueError("a Hadoop listing is truncated")
        fields = _decode_message(data[position + 4 : end])
        if fields.get(1) in {_DIRECTORY, _FILE}:
            yield HadoopFile(
                path=_text(fields.get(2)),
                is_directory=fields.get(1) == _DIRECTORY,
                size_bytes=_number(fields.get(3)),
                modified_ms=_number(fields.get(7)),
            )
        position = end


def _decode_message(message: bytes) -> dict[int, int | bytes]:
    """The last value of each field of a protocol buffer, by number."""
    fields: dict[int, int | bytes] = {}
    position = 0
    while position < len(message):
        tag, position = _decode_varint(message, position)
        number, wire_type = tag >> 3, tag & 7
        match wire_type:
            case 0:
                fields[number], position = _decode_varint(message, position)
            case 2:
                length, position = _decode_varint(message, position)
                fields[number] = message[position : position + length]
                position += length
            case 1:
                position += 8
            case 5:
                position += 4
            case _:
                raise ValueError(f"a Hadoop listing has the unknown wire type {wire_type}")
    return fields


def _decode_varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def _number(value: int | bytes | None) -> int:
    return value if isinstance(value, int) else 0


def _text(value: int | bytes | None) -> str:
    return value.decode() if isinstance(value, bytes) else ""
