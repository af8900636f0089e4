"""Partition values from the names of a Parquet table's folders. Nothing here reads a file."""

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
from anabranch.schema.paths import fold, quote

_COPYING = "._COPYING_"
_TYPES_TRIED = (IntegerType(), LongType(), DateType())

FolderValues = tuple[tuple[str, str | None], ...]
"""Column and value, from the table's folder downwards; None for null."""


def is_hidden(path: str) -> bool:
    """Whether Spark skips the file when it reads a folder, because of its own name or that of a folder.

    Folders of partitions are read also where the name of the column begins with `_` or `.`.
    """
    *folders, name = path.split("/")
    if name.startswith(("_", ".")) or name.endswith(_COPYING):
        return True
    return any(folder.startswith(("_", ".")) and "=" not in folder for folder in folders)


def folder_values(folder: str) -> FolderValues:
    """The columns and values in the path of a folder: its last consecutive parts of the form `column=value`.

    Folders with other names may follow, as in `day=1/run-7`.
    """
    values: list[tuple[str, str | None]] = []
    for part in reversed(folder.split("/")):
        column, equals, text = part.partition("=")
        if equals and column:
            values.append((unescape_path_name(column), None if text == NULL_DIRECTORY else unescape_path_name(text)))
        elif values:
            break
    return tuple(reversed(values))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRules:
    """How values of folders become values of partition columns."""

    table: str
    columns: tuple[StructField, ...]
    zone: TimeZone
    """The time zone of timestamps in folder names, which name none."""
    case_sensitive: bool = False
    ignores_bad_values: bool = False
    """A value that its column's type does not have is read as null."""

    def values(self, file: str, in_folder: FolderValues) -> dict[str, str | None]:
        """The partition values of a file, as in the log. Raises `PartitionFolderValueError`."""
        return {
            field.name: self._value(file, field, text) for field, (_, text) in zip(self.columns, in_folder, strict=True)
        }

    def fits(self, in_folder: FolderValues) -> bool:
        """Whether a folder names these columns, in this order."""
        return [self._key(name) for name, _ in in_folder] == [self._key(field.name) for field in self.columns]

    def mismatch(self, file: str, in_folder: FolderValues, all_folders: Iterable[FolderValues]) -> Exception:
        """The error for a file in a folder that does not fit; its message suggests a clause for `all_folders`."""
        names = tuple(name for name, _ in in_folder)
        kind = UnexpectedPartitionFolderError if len(names) == len(self.columns) else PartitionFoldersMismatchError
        return kind(
            table=self.table,
            file=file,
            expected=tuple(field.name for field in self.columns),
            found=names,
            suggestion=fitting_clause(all_folders),
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


def fitting_clause(all_folders: Iterable[FolderValues]) -> str:
    """The PARTITIONED BY that fits all folders, with types that hold all of their values; empty where none does."""
    columns: tuple[str, ...] | None = None
    seen: dict[str, set[str]] = {}
    for in_folder in all_folders:
        names = tuple(name for name, _ in in_folder)
        if columns is None:
            columns, seen = names, {name: set() for name in names}
        if names != columns or len(seen) != len(names):
            return ""
        for name, text in in_folder:
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
    """The columns of a table of such files. Partition columns that are in the files, too, keep their positions."""
    partition_fields: Mapping[str, StructField] = {fold(field.name): field for field in columns}
    merged = [partition_fields.get(fold(field.name), field) for field in data.fields]
    names = {fold(field.name) for field in data.fields}
    return StructType(merged + [field for field in columns if fold(field.name) not in names])
