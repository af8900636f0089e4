"""Files of the log as Iceberg's data files, with location, partition, number of rows and bounds.

Only exact bounds are used, since Iceberg's readers return them for `min` and `max`. So there are none for timestamps,
which the log keeps to the millisecond, nor for strings that may have been cut.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
from collections.abc import Mapping
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
from anabranch.protocol.partition_values import parse_partition_value
from anabranch.schema.column_mapping import field_id, physical_name
from anabranch.snapshot.snapshot import Snapshot
from anabranch.uniform.iceberg_schema import primitive
from anabranch.uniform.table_locations import TableLocations

FORMAT_VERSION: Final = 2
"""The version of Iceberg's table format."""
_DECODER = msgspec.json.Decoder(type=dict[str, Any], float_hook=decimal.Decimal)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Leaf:
    """A column or field of a primitive type."""

    field_id: int
    data_type: DataType
    iceberg_type: PrimitiveType


class DataFileMaker:
    """Makes data files of one version of one table."""

    def __init__(self, snapshot: Snapshot, locations: TableLocations, *, spec_id: int) -> None:
        self._locations = locations
        self._spec_id = spec_id
        self._string_prefix_length = snapshot.properties.string_prefix_length
        self._leaves = dict(_leaves(snapshot.schema, snapshot, ()))
        types = {field.name: field.dataType for field in snapshot.schema.fields}
        self._partition = [
            (physical, types[logical])
            for logical, physical in zip(snapshot.partition_columns, snapshot.physical_partition_columns, strict=True)
        ]

    def data_file(self, add: AddFile) -> DataFile:
        """The data file of an action. Raises `UnsafePathError`, and errors of values that cannot be read."""
        statistics: dict[str, Any] = {} if add.stats is None else _DECODER.decode(add.stats)
        tight = statistics.get("tightBounds", True) is True
        data_file = DataFile.from_args(
            _table_format_version=FORMAT_VERSION,
            content=DataFileContent.DATA,
            file_path=self._locations.of_data_file(add.path),
            file_format=FileFormat.PARQUET,
            partition=Record(
                *(
                    _stored(parse_partition_value(add.partition_values.get(name), data_type), data_type)
                    for name, data_type in self._partition
                )
            ),
            record_count=statistics["numRecords"],
            file_size_in_bytes=add.size,
            null_value_counts=self._null_counts(statistics.get("nullCount")),
            lower_bounds=self._bounds(statistics.get("minValues"), lower=True) if tight else None,
            upper_bounds=self._bounds(statistics.get("maxValues"), lower=False) if tight else None,
        )
        data_file.spec_id = self._spec_id
        return data_file

    def _null_counts(self, tree: Any) -> dict[int, int] | None:
        counts = {leaf.field_id: value for leaf, value in self._values(tree) if isinstance(value, int)}
        return counts or None

    def _bounds(self, tree: Any, *, lower: bool) -> dict[int, bytes] | None:
        bounds = {}
        for leaf, value in self._values(tree):
            exact = self._exact(value, leaf.data_type, lower=lower)
            if exact is not None:
                bounds[leaf.field_id] = to_bytes(leaf.iceberg_type, exact)
        return bounds or None

    def _values(self, tree: Any) -> list[tuple[_Leaf, Any]]:
        if not isinstance(tree, dict):
            return []
        values = ((leaf, _at(tree, path)) for path, leaf in self._leaves.items())
        return [(leaf, value) for leaf, value in values if value is not None]

    def _exact(self, value: Any, data_type: DataType, *, lower: bool) -> Any:
        """The bound as Iceberg's library takes it; None where the log does not have it exactly."""
        match data_type, value:
            case ByteType() | ShortType() | IntegerType() | LongType(), int():
                return value
            case DecimalType(), int() | decimal.Decimal():
                return _at_scale(value, data_type)
            case FloatType() | DoubleType(), int() | decimal.Decimal():
                # Delta does not distinguish the two zeros, Iceberg does.
                return float(value) or (-0.0 if lower else 0.0)
            case DateType(), str():
                return _days(value)
            case StringType() | CharType() | VarcharType(), str():
                return value if len(value) < self._string_prefix_length else None
        return None


def _leaves(schema: StructType, snapshot: Snapshot, parent: tuple[str, ...]) -> list[tuple[tuple[str, ...], _Leaf]]:
    """The leaves by physical path. Those inside arrays and maps have no statistics and are left out."""
    leaves = []
    for field in schema.fields:
        path = (*parent, physical_name(field, snapshot.column_mapping_mode))
        iceberg_type = primitive(field.dataType)
        number = field_id(field)
        if isinstance(field.dataType, StructType):
            leaves += _leaves(field.dataType, snapshot, path)
        elif iceberg_type is not None and number is not None:
            leaves.append((path, _Leaf(field_id=number, data_type=field.dataType, iceberg_type=iceberg_type)))
    return leaves


def _at(tree: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    node: Any = tree
    for step in path:
        if not isinstance(node, dict):
            return None
        node = node.get(step)
    return node


def _at_scale(value: int | decimal.Decimal, data_type: DecimalType) -> decimal.Decimal | None:
    with decimal.localcontext(prec=2 * data_type.precision + 2):
        number = decimal.Decimal(value)
        scaled = number.quantize(decimal.Decimal(1).scaleb(-data_type.scale))
        return scaled if scaled == number else None


def _days(text: str) -> int | None:
    try:
        return value_text.date_to_days(datetime.date.fromisoformat(text))
    except ValueError:
        return None


def _stored(value: Any, data_type: DataType) -> Any:
    """A partition value in the form of Avro."""
    if value is None:
        return None
    if isinstance(data_type, DateType):
        return value_text.date_to_days(value)
    if isinstance(data_type, TimestampType | TimestampNTZType):
        return value_text.datetime_to_micros(value)
    return value
