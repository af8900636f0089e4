"""Partition directories as Hive and Spark name them: `day=2024-01-01/kind=a%2Fb`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from anabranch.errors.protocol import PartitionValueError

NULL_DIRECTORY: Final = "__HIVE_DEFAULT_PARTITION__"
"""Stands for null and for the empty string."""

_ESCAPED: Final = frozenset([*map(chr, range(1, 0x20)), *'"#%*/:=?[\\]^{\x7f', "'"])
"""What Spark's `ExternalCatalogUtils` escapes; `}` is not among them."""
_ESCAPE: Final = re.compile("%([0-9A-Fa-f]{2})")


def escape(text: str) -> str:
    """A column name or value as a part of a directory name."""
    return "".join(f"%{ord(character):02X}" if character in _ESCAPED else character for character in text)


def unescape(text: str) -> str:
    """The reverse; a `%` that begins no escape stands for itself."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)


def partition_path(values: Mapping[str, str | None]) -> str:
    """The directory for serialized partition values, in their order; empty for none.

    It is a plain path: in the log it is URI-encoded once more (`data_paths.encode_path`).
    """
    return "/".join(_directory(column, value) for column, value in values.items())


def _directory(column: str, value: str | None) -> str:
    return f"{escape(column)}={escape(value) if value else NULL_DIRECTORY}"


def parse_partition_path(path: str) -> dict[str, str | None]:
    """Columns and values of the directories in a plain path; the last segment is a file and not looked at.

    Raises `PartitionValueError` where one column stands twice with different values.
    """
    values: dict[str, str | None] = {}
    for directory in path.split("/")[:-1]:
        column, equals, text = directory.partition("=")
        if not equals or not column:
            continue
        name = unescape(column)
        value = None if text == NULL_DIRECTORY else unescape(text)
        if name in values and values[name] != value:
            raise PartitionValueError(value=text, data_type="single value", column=name, reason=f"{path!r} has two")
        values[name] = value
    return values
