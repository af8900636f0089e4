"""What the folders of a Parquet table say about its partitions. Nothing here reads a file."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql.types import DateType, IntegerType, LongType, StringType, StructField, StructType

from anabranch.errors.convert import (
    PartitionFoldersMismatchError,
    PartitionFolderValueError,
    UnexpectedPartitionFolderError,
)
from anabranch.errors.protocol import PartitionValueError
from anabranch.protocol.data_paths import NULL_DIRECTORY, unescape_path_name
from anabranch.protocol.partition_values import parse_partition_value, serialize_partition_value
from anabranch.protocol.time_zones import TimeZone
from anabranch.schema.paths import fold
from anabranch.spark.session.table_identifiers import quote

_COPYING = "._COPYING_"
_TYPES_TRIED = (IntegerType(), LongType(), DateType())

FolderValues = tuple[tuple[str, str | None], ...]
"""Column and value, from the table's folder downwards; None for null."""


def is_hidden(path: str) -> bool:
    """Whether Spark passes over the file when it reads a folder: by its own name, or that of a folder.

    Folders of partitions count also where the name of a column begins with `_` or `.`.
    """
    *folders, name = path.split("/")
    if name.startswith(("_", ".")) or name.endswith(_COPYING):
        return True
    return any(folder.startswith(("_", ".")) and "=" not in folder for folder in folders)


def folder_values(folder: str) -> FolderValues:
    """What a folder below the table's says: the last of its parts that stand in a row and have the form `column=value`.

    Folders of other names may follow, as in `day=1/run-7`.
    """
    found: list[tuple[str, str | None]] = []
    for part in reversed(folder.split("/")):
        column, equals, text = part.partition("=")
        if equals and column:
            found.append((unescape_path_name(column), None if text == NULL_DIRECTORY else unescape_path_name(text)))
        elif found:
            break
    return tuple(reversed(found))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRules:
    """How values of folders become values of partition columns."""

    table: str
    columns: tuple[StructField, ...]
    zone: TimeZone
    """Of timestamps in folders, which do not say theirs."""
    case_sensitive: bool = False
    ignores_bad_values: bool = False
    """A value that is none of its column's type is null."""

    def values(self, file: str, found: FolderValues) -> dict[str, str | None]:
        """The partition values of a file, as in the log. Raises `PartitionFolderValueError`."""
        return {
            field.name: self._value(file, field, text) for field, (_, text) in zip(self.columns, found, strict=True)
        }

    def fits(self, found: FolderValues) -> bool:
        """Whether a folder names these columns, in this order."""
        return [self._key(name) for name, _ in found] == [self._key(field.name) for field in self.columns]

    def mismatch(self, file: str, found: FolderValues, everything: Iterable[FolderValues]) -> Exception:
        """The error for a file in a folder that does not fit; `everything` are all folders, for a way out."""
        names = tuple(name for name, _ in found)
        kind = UnexpectedPartitionFolderError if len(names) == len(self.columns) else PartitionFoldersMismatchError
        return kind(
            table=self.table,
            file=file,
            expected=tuple(field.name for field in self.columns),
            found=names,
            suggestion=fitting_clause(everything),
        )

    def _key(self, name: str) -> str:
        return name if self.case_sensitive else fold(name)

    def _value(self, file: str, field: StructField, text: str | None) -> str | None:
        if text is None or isinstance(field.dataType, StringType):
            return text or None
        try:
            if not text:
                raise PartitionValueError(value=text, data_type=field.dataType.simpleString(), reason="it is empty")
            return serialize_partition_value(
                parse_partition_value(text, field.dataType, zone=self.zone), field.dataType
            )
        except PartitionValueError as error:
            if self.ignores_bad_values:
                return None
            raise PartitionFolderValueError(
                table=self.table,
                file=file,
                column=field.name,
                value=text,
                data_type=field.dataType.simpleString(),
            ) from error


def fitting_clause(everything: Iterable[FolderValues]) -> str:
    """The PARTITIONED BY that fits all folders, with types that hold all of their values; empty where none does."""
    columns: tuple[str, ...] | None = None
    seen: dict[str, set[str]] = {}
    for found in everything:
        names = tuple(name for name, _ in found)
        if columns is None:
            columns, seen = names, {name: set() for name in names}
        if names != columns or len(seen) != len(names):
            return ""
        for name, text in found:
            if text is not None:
                seen[name].add(text)
    if columns is None:
        return ""
    if not columns:
        return "the statement without PARTITIONED BY"
    return f"PARTITIONED BY ({', '.join(f'{quote(name)} {_type_of(seen[name])}' for name in columns)})"


def _type_of(texts: set[str]) -> str:
    for data_type in _TYPES_TRIED:
        if texts and all(_is_plainly(text, data_type) for text in texts):
            return data_type.simpleString().upper()
    return "STRING"


def _is_plainly(text: str, data_type: IntegerType | LongType | DateType) -> bool:
    """Whether the value would be written the same way: `007` is text."""
    try:
        return serialize_partition_value(parse_partition_value(text, data_type), data_type) == text
    except PartitionValueError:
        return False


def with_partition_columns(data: StructType, columns: Sequence[StructField]) -> StructType:
    """The columns of a table of such files; partition columns that the files have too keep their place."""
    given: Mapping[str, StructField] = {fold(field.name): field for field in columns}
    merged = [given.get(fold(field.name), field) for field in data.fields]
    known = {fold(field.name) for field in data.fields}
    return StructType(merged + [field for field in columns if fold(field.name) not in known])
