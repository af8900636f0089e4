"""Reading data files without Spark: Arrow types of a table, conversion of arrays, reading one file."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64
from pyspark.sql.types import (
    ArrayType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from anabranch.cli.rows.arrow_conversion import by_name, by_position, fit
from anabranch.cli.rows.arrow_types import arrow_type, file_schema
from anabranch.cli.rows.data_file_reading import DataFile, DataFiles, RowReader
from anabranch.errors.environment import DataFileMismatchError, DataTypeNotPortableError
from anabranch.protocol.time_zones import UTC, FixedOffset
from anabranch.schema.column_mapping import ColumnMappingMode


def struct(*fields: tuple[str, Any]) -> StructType:
    return StructType([StructField(*field) for field in fields])


# Arrays


def test_fields_move_and_missing_ones_are_null() -> None:
    array = pa.array([{"b": 1, "a": 2}, None, {"b": None, "a": 3}], pa.struct([("b", pa.int32()), ("a", pa.int64())]))
    target = arrow_type(struct(("a", LongType()), ("b", LongType()), ("c", ArrayType(StringType()))))
    expected = [{"a": 2, "b": 1, "c": None}, None, {"a": 3, "b": None, "c": None}]
    assert fit(array, target, by_name).to_pylist() == expected
    assert fit(array.slice(1, 2), target, by_name).to_pylist() == expected[1:]


_VALUES = st.lists(
    st.none()
    | st.lists(
        st.tuples(st.text(max_size=3), st.none() | st.lists(st.none() | st.integers(0, 9), max_size=3)), max_size=3
    ),
    max_size=8,
)


@given(_VALUES, st.integers(0, 8), st.integers(0, 8))
def test_nested_values_survive_renaming_wherever_an_array_was_cut(values: list[Any], start: int, length: int) -> None:
    source = pa.map_(pa.string(), pa.list_(pa.field("item", pa.int32())))
    array = pa.array(values, source)
    target = arrow_type(MapType(StringType(), ArrayType(LongType())))
    fitted = fit(array.slice(start, length), target, by_position)
    fitted.validate(full=True)
    assert fitted.type == target
    assert fitted.to_pylist() == values[start : start + length]


def test_fractions_of_a_microsecond_are_cut_and_nothing_else() -> None:
    nanos = pa.array([1_999], pa.timestamp("ns"))
    assert fit(nanos, pa.timestamp("us", tz="UTC"), by_name).cast(pa.int64()).to_pylist() == [1]
    with pytest.raises(pa.ArrowInvalid):
        fit(pa.array([2**40]), pa.int32(), by_name)


def test_a_shredded_variant_is_refused() -> None:
    shredded = pa.array([{"metadata": b"", "value": b"", "typed_value": 1}])
    with pytest.raises(pa.ArrowNotImplementedError, match="variant"):
        fit(shredded, arrow_type(VariantType()), by_name)


def test_types_that_files_cannot_have_are_refused() -> None:
    from pyspark.sql.types import DayTimeIntervalType

    with pytest.raises(DataTypeNotPortableError, match="interval"):
        arrow_type(DayTimeIntervalType())


# One file read


def reader(root: str, schema: StructType, **facts: Any) -> RowReader:
    return RowReader(
        data_files=DataFiles(root, {}),
        schema=schema,
        **{"partition_columns": (), "column_mapping": ColumnMappingMode.NONE, "time_zone": UTC, **facts},
    )


def read_all(rows: RowReader, name: str, hidden: BitMap64 | None = None, **values: str | None) -> list[tuple[Any, ...]]:
    batches = rows.read(DataFile(name=name, partition_values=values), hidden)
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def test_hidden_rows_are_counted_across_row_groups(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": range(10)}), tmp_path / "f", row_group_size=3)
    rows = reader(str(tmp_path), struct(("id", LongType())))
    live_rows = read_all(rows, str(tmp_path / "f"), BitMap64([0, 4, 9]))
    assert live_rows == [(i,) for i in range(10) if i not in {0, 4, 9}]


def test_constants_and_nothing_else(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": range(3)}), tmp_path / "f")
    rows = reader(
        str(tmp_path),
        struct(("p", TimestampType())),
        partition_columns=("p",),
        time_zone=FixedOffset(9 * 3_600_000_000),
    )
    at = datetime.datetime(2023, 12, 31, 15, tzinfo=datetime.UTC)
    assert read_all(rows, str(tmp_path / "f"), BitMap64([1]), p="2024-01-01 00:00:00") == [(at,), (at,)]


def test_a_file_that_does_not_fit_the_schema_is_named(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": ["text"]}), tmp_path / "f")
    with pytest.raises(DataFileMismatchError, match="column id as int"):
        read_all(reader(str(tmp_path), struct(("id", IntegerType()))), str(tmp_path / "f"))


def test_old_timestamps_of_twelve_bytes(tmp_path: Path) -> None:
    values = pa.array([0, -62_135_596_800_000_000, 253_402_300_799_999_999], pa.timestamp("us"))
    pq.write_table(pa.table({"at": values}), tmp_path / "f", use_deprecated_int96_timestamps=True)
    rows = reader(str(tmp_path), struct(("at", TimestampType())))
    batch = next(rows.read(DataFile(name=str(tmp_path / "f"), partition_values={}), None))
    assert batch.column(0).cast(pa.int64()).to_pylist() == values.cast(pa.int64()).to_pylist()


def test_ids_of_elements_keys_and_values_reach_the_file() -> None:
    """See "IcebergCompatV2"."""
    ids = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "c"}
    nested = {"delta.columnMapping.nested.ids": {"c.key": 5, "c.value": 6, "c.value.element": 7}}
    field = StructField("m", MapType(StringType(), ArrayType(LongType())), True, {**ids, **nested})
    stored = file_schema(StructType([field]), ColumnMappingMode.ID).field(0)
    assert stored.metadata == {b"PARQUET:field_id": b"1"}
    assert stored.type.key_field.metadata == {b"PARQUET:field_id": b"5"}
    assert stored.type.item_field.metadata == {b"PARQUET:field_id": b"6"}
    assert stored.type.item_type.value_field.metadata == {b"PARQUET:field_id": b"7"}
