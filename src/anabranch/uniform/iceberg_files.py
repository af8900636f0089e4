"""Files of the log as Iceberg's data files: where they are, which partition, how many rows, which bounds.

Only bounds that are exact are passed on: Iceberg's readers answer `min` and `max` by them. So there are none for
timestamps, which the log keeps to the millisecond, nor for strings that may have been cut.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
from collections.abc import Collection, Mapping
from typing import Any, Final

import msgspec
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record
from pyiceberg.types import PrimitiveType
from pyspark.sql.types import (
    ByteType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
    VarcharType,
)

from anabranch.protocol import value_text
from anabranch.protocol.actions import AddFile
from anabranch.protocol.data_paths import locate
from anabranch.protocol.partition_values import parse_partition_value
from anabranch.schema.column_mapping import field_id, physical_name
from anabranch.snapshot.snapshot import Snapshot
from anabranch.uniform.iceberg_schema import primitive

# Where files are, in the words of Iceberg's metadata: complete, plain, with a scheme.


METADATA_DIRECTORY = "metadata"
"""Of the table; where readers look for Iceberg's metadata."""


class Places:
    """The places of one table."""

    def __init__(self, table_root: str, *, allowed_prefixes: Collection[str] = ()) -> None:
        """`allowed_prefixes`: where data files outside of the root may lie, as in a shallow clone."""
        self._root = table_root.rstrip("/")
        self._allowed = allowed_prefixes
        self.location = _with_scheme(self._root)

    def of_add(self, uri: str) -> str:
        """The data file that the log calls `uri`. Raises `UnsafePathError`."""
        found = locate(uri, table_root=self._root, allowed_prefixes=self._allowed)
        if found.relative is not None:
            return self.of(found.relative)
        return _with_scheme(found.absolute)

    def of(self, relative: str) -> str:
        """The file at a plain path below the root."""
        return f"{self.location}/{relative}"

    def relative(self, location: str) -> str | None:
        """The path below the root, of a place that `of` told; None for any other."""
        start = f"{self.location}/"
        return location[len(start) :] if location.startswith(start) else None


def _with_scheme(path: str) -> str:
    return f"file://{path}" if path.startswith("/") else path


FORMAT_VERSION: Final = 2
"""Of Iceberg."""
_DECODER = msgspec.json.Decoder(type=dict[str, Any], float_hook=decimal.Decimal)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Leaf:
    """A column with values of its own."""

    field_id: int
    data_type: DataType
    iceberg_type: PrimitiveType


class DataFileMaker:
    """Makes data files of one version of one table."""

    def __init__(self, snapshot: Snapshot, places: Places, *, spec_id: int) -> None:
        self._places = places
        self._spec_id = spec_id
        self._string_prefix_length = snapshot.properties.string_prefix_length
        self._leaves = dict(_leaves(snapshot.schema, snapshot, ()))
        types = {field.name: field.dataType for field in snapshot.schema.fields}
        self._partition = [
            (physical, types[logical])
            for logical, physical in zip(snapshot.partition_columns, snapshot.physical_partition_columns, strict=True)
        ]

    def data_file(self, add: AddFile) -> DataFile:
        """Raises `UnsafePathError`, and errors of values that cannot be read."""
        told: dict[str, Any] = {} if add.stats is None else _DECODER.decode(add.stats)
        tight = told.get("tightBounds", True) is True
        made = DataFile.from_args(
            _table_format_version=FORMAT_VERSION,
            content=DataFileContent.DATA,
            file_path=self._places.of_add(add.path),
            file_format=FileFormat.PARQUET,
            partition=Record(
                *(
                    _stored(parse_partition_value(add.partition_values.get(name), of), of)
                    for name, of in self._partition
                )
            ),
            record_count=told["numRecords"],
            file_size_in_bytes=add.size,
            null_value_counts=self._null_counts(told.get("nullCount")),
            lower_bounds=self._bounds(told.get("minValues"), lower=True) if tight else None,
            upper_bounds=self._bounds(told.get("maxValues"), lower=False) if tight else None,
        )
        made.spec_id = self._spec_id
        return made

    def _null_counts(self, tree: Any) -> dict[int, int] | None:
        found = {leaf.field_id: value for leaf, value in self._values(tree) if isinstance(value, int)}
        return found or None

    def _bounds(self, tree: Any, *, lower: bool) -> dict[int, bytes] | None:
        found = {}
        for leaf, value in self._values(tree):
            exact = self._exact(value, leaf.data_type, lower=lower)
            if exact is not None:
                found[leaf.field_id] = to_bytes(leaf.iceberg_type, exact)
        return found or None

    def _values(self, tree: Any) -> list[tuple[_Leaf, Any]]:
        if not isinstance(tree, dict):
            return []
        told = ((leaf, _at(tree, path)) for path, leaf in self._leaves.items())
        return [(leaf, value) for leaf, value in told if value is not None]

    def _exact(self, value: Any, data_type: DataType, *, lower: bool) -> Any:
        """The bound as Iceberg's library takes it; None where the log does not tell it exactly."""
        match data_type, value:
            case ByteType() | ShortType() | IntegerType() | LongType(), int():
                return value
            case DecimalType(), int() | decimal.Decimal():
                return _at_scale(value, data_type)
            case FloatType() | DoubleType(), int() | decimal.Decimal():
                # Delta takes the two zeros for one, Iceberg does not.
                return float(value) or (-0.0 if lower else 0.0)
            case DateType(), str():
                return _days(value)
            case StringType() | CharType() | VarcharType(), str():
                return value if len(value) < self._string_prefix_length else None
        return None


def _leaves(schema: StructType, snapshot: Snapshot, above: tuple[str, ...]) -> list[tuple[tuple[str, ...], _Leaf]]:
    """By physical path; nothing within arrays and maps, of which statistics say nothing."""
    found = []
    for field in schema.fields:
        path = (*above, physical_name(field, snapshot.column_mapping_mode))
        iceberg_type = primitive(field.dataType)
        number = field_id(field)
        if isinstance(field.dataType, StructType):
            found += _leaves(field.dataType, snapshot, path)
        elif iceberg_type is not None and number is not None:
            found.append((path, _Leaf(field_id=number, data_type=field.dataType, iceberg_type=iceberg_type)))
    return found


def _at(tree: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    here: Any = tree
    for step in path:
        if not isinstance(here, dict):
            return None
        here = here.get(step)
    return here


def _at_scale(value: int | decimal.Decimal, data_type: DecimalType) -> decimal.Decimal | None:
    with decimal.localcontext(prec=2 * data_type.precision + 2):
        given = decimal.Decimal(value)
        scaled = given.quantize(decimal.Decimal(1).scaleb(-data_type.scale))
        return scaled if scaled == given else None


def _days(text: str) -> int | None:
    try:
        return value_text.date_to_days(datetime.date.fromisoformat(text))
    except ValueError:
        return None


def _stored(value: Any, data_type: DataType) -> Any:
    """A partition value as Avro has it."""
    if value is None:
        return None
    if isinstance(data_type, DateType):
        return value_text.date_to_days(value)
    if isinstance(data_type, TimestampType | TimestampNTZType):
        return value_text.datetime_to_micros(value)
    return value
