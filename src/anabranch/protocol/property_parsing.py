"""Values of table properties, from text. Every parser raises ValueError for what it does not take."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from anabranch.protocol.isolation import IsolationLevel

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_BYTE_UNITS: Final = {"": 0, "b": 0, "k": 10, "kb": 10, "m": 20, "mb": 20, "g": 30, "gb": 30, "t": 40, "tb": 40}
_CODECS: Final = frozenset({"uncompressed", "none", "snappy", "gzip", "lz4", "lz4_raw", "zstd"})
_NAME_PART: Final = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^\s`.,]+))\s*")


def parse_boolean(text: str) -> bool:
    """`true` or `false`, in any letter case."""
    match text.lower():
        case "true":
            return True
        case "false":
            return False
        case _:
            raise ValueError(text)


def integer_between(low: int, high: int) -> Callable[[str], int]:
    """A parser of whole numbers, both limits included."""

    def parse(text: str) -> int:
        if not _INTEGER.fullmatch(text) or not low <= (value := int(text)) <= high:
            raise ValueError(text)
        return value

    return parse


def one_of(*values: str) -> Callable[[str], str]:
    """A parser that takes these words in any case and gives them as spelled here."""
    spelled = {value.lower(): value for value in values}

    def parse(text: str) -> str:
        if text.lower() not in spelled:
            raise ValueError(text)
        return spelled[text.lower()]

    return parse


def parse_isolation_level(text: str) -> IsolationLevel:
    """The two levels a table may have, in any letter case."""
    for level in IsolationLevel:
        if level.value.lower() == text.lower():
            return level
    raise ValueError(text)


def parse_codec(text: str) -> str:
    """A Parquet compression codec, in small letters."""
    if text.lower() not in _CODECS:
        raise ValueError(text)
    return text.lower()


def parse_parquet_version(text: str) -> str:
    """See `delta.parquet.format.version` in "Table Properties"."""
    if text != "1.0.0" and not re.fullmatch(r"2\.[0-9]+\.[0-9]+", text):
        raise ValueError(text)
    return text


def parse_bytes(text: str) -> int:
    """`134217728`, `128m`, `128mb`."""
    match = re.fullmatch(r"\s*([0-9]{1,18})\s*([a-z]*)\s*", text.lower())
    if match is None or match[2] not in _BYTE_UNITS:
        raise ValueError(text)
    if not 0 < (value := int(match[1]) << _BYTE_UNITS[match[2]]) <= LONG_MAX:
        raise ValueError(text)
    return value


def parse_formats(text: str) -> tuple[str, ...]:
    """Comma-separated table formats, each at most once."""
    formats = tuple(part.strip().lower() for part in text.split(",")) if text else ()
    if len(set(formats)) != len(formats) or not set(formats) <= {"iceberg", "hudi"}:
        raise ValueError(text)
    return formats


def parse_string_map(text: str) -> dict[str, str]:
    """A JSON object of strings."""
    try:
        return msgspec.json.decode(text or "{}", type=dict[str, str])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(text) from error


def parse_column_list(text: str) -> tuple[tuple[str, ...], ...]:
    """Column paths, separated by commas: ``a, b.c, `d.e`.f`` gives (a,), (b, c), (d.e, f).

    Parts with other characters than letters, digits and underscores need backticks.
    """
    columns: list[tuple[str, ...]] = []
    parts: list[str] = []
    position = 0
    while text.strip():
        match = _NAME_PART.match(text, position)
        if match is None or (match[2] and not re.fullmatch(r"\w+", match[2])):
            raise ValueError(text)
        parts.append(match[1].replace("``", "`") if match[1] else match[2])
        position = match.end()
        separator = text[position : position + 1]
        if separator != ".":
            columns.append(tuple(parts))
            parts = []
        if not separator:
            break
        if separator not in ".,":
            raise ValueError(text)
        position += 1
    return tuple(columns)


def parse_text(text: str) -> Any:
    """Any text, unchanged."""
    return text
