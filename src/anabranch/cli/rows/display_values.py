"""Values of table columns as JSON and as text for a terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, TimestampType, VariantType, VariantVal

from anabranch.cli.output import jsonable
from anabranch.text_format import plain


def json_values(column: pa.ChunkedArray, data_type: DataType) -> list[Any]:
    """The values in JSON's types; values of other types become strings."""
    return [jsonable(_plain_value(value, data_type)) for value in _to_python(column)]


def cells(column: pa.ChunkedArray, data_type: DataType, limit: int) -> list[str]:
    """The values as strings of at most `limit` characters; timestamps in this machine's zone."""
    return [plain(_cell(_plain_value(value, data_type)), limit) for value in _to_python(column)]


def _to_python(column: pa.ChunkedArray) -> list[Any]:
    try:
        return list(column.to_pylist())
    except (OverflowError, ValueError):
        # Python's calendar lacks these years.
        return list(pc.cast(column, pa.string()).to_pylist())


def _plain_value(value: Any, data_type: DataType) -> Any:
    """The value with structs and maps as dicts, variants decoded, and timestamps in this machine's zone."""
    if value is None:
        return None
    match data_type:
        case VariantType() if isinstance(value, Mapping):
            return json.loads(VariantVal(value["value"], value["metadata"]).toJson())
        case StructType() if isinstance(value, Mapping):
            return {field.name: _plain_value(value.get(field.name), field.dataType) for field in data_type.fields}
        case ArrayType() if isinstance(value, list):
            return [_plain_value(element, data_type.elementType) for element in value]
        case MapType() if isinstance(value, list):
            return {
                _key(_plain_value(key, data_type.keyType)): _plain_value(below, data_type.valueType)
                for key, below in value
            }
        case TimestampType() if isinstance(value, datetime):
            return _in_local_zone(value)
    return value


def _key(value: Any) -> str:
    return value if isinstance(value, str) else str(jsonable(value))


def _in_local_zone(moment: datetime) -> datetime:
    try:
        return moment.astimezone()
    except (OverflowError, ValueError, OSError):
        return moment


def _cell(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(sep=" ")
    if isinstance(value, Mapping | list | tuple):
        return json.dumps(jsonable(value), ensure_ascii=False)
    return str(jsonable(value)) if isinstance(value, bytes | bytearray | date) else str(value)
