"""Iceberg metadata of tables written without Spark, as pyiceberg and DuckDB read them."""

from __future__ import annotations

import datetime
import decimal
import json
import logging
import random
import sys
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from anabranch.errors.other_formats import IcebergCompatError, PyIcebergMissingError
from anabranch.errors.schema import InvalidColumnMappingError
from anabranch.uniform.conversion import convert_to_iceberg
from anabranch.uniform.iceberg_schema import iceberg_schema
from anabranch.uniform.table_metadata import METADATA_KEPT_MAX
from interop.readers import read_iceberg_by_duckdb


def struct(*fields: tuple[str, Any]) -> StructType:
    return StructType([StructField(*field) for field in fields])


UNIFORM = {"delta.enableIcebergCompatV2": "true", "delta.universalFormat.enabledFormats": "iceberg"}
PLAIN = struct(("id", LongType()), ("name", StringType()))
UTC = datetime.UTC


def by_id(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row["id"])


def read_by_duckdb(root: Path) -> list[dict[str, Any]]:
    return by_id(read_iceberg_by_duckdb(str(root)).to_pylist(maps_as_pydicts="strict"))


def test_rows_of_every_version_are_those_of_the_table(uniform: Any) -> None:
    uniform.create(PLAIN)
    assert uniform.rows() == []
    first = uniform.append({"id": 1, "name": "a"}, {"id": 2, "name": None})
    uniform.append({"id": 3, "name": "c"})
    assert by_id(uniform.rows()) == [{"id": 1, "name": "a"}, {"id": 2, "name": None}, {"id": 3, "name": "c"}]
    second = uniform.replace(first, {"id": 1, "name": "z"})
    assert by_id(uniform.rows()) == [{"id": 1, "name": "z"}, {"id": 3, "name": "c"}]
    uniform.replace(second, {"id": 1, "name": "z"}, data_change=False)
    uniform.replace(uniform.snapshot.files.to_actions())
    assert uniform.rows() == []
    assert uniform.hint == uniform.snapshot.version == 5
    properties = uniform.iceberg().properties
    assert properties["delta-version"] == "5"
    assert properties["delta-timestamp"] == str(uniform.snapshot.timestamp_ms)
    operations = [snapshot.summary.operation.value for snapshot in uniform.iceberg().snapshots()]
    assert operations == ["append", "append", "append", "overwrite", "replace", "delete"]
    summary = uniform.iceberg(4).current_snapshot().summary
    assert (summary["total-data-files"], summary["total-records"], summary["deleted-data-files"]) == ("2", "2", "1")
    assert by_id(uniform.iceberg(2).scan().to_arrow().to_pylist())[0] == {"id": 1, "name": "a"}


EVERY_TYPE = struct(
    ("id", LongType()),
    ("b", ByteType()),
    ("s", ShortType()),
    ("i", IntegerType()),
    ("f", FloatType()),
    ("d", DoubleType()),
    ("small", DecimalType(5, 2)),
    ("large", DecimalType(38, 10)),
    ("t", StringType()),
    ("x", BinaryType()),
    ("yes", BooleanType()),
    ("day", DateType()),
    ("at", TimestampType()),
    ("local", TimestampNTZType()),
    ("deep", struct(("x", LongType()), ("y", struct(("z", StringType()))))),
    ("list", ArrayType(struct(("n", IntegerType())))),
    ("map", MapType(StringType(), ArrayType(LongType()))),
)


def test_values_of_every_type(uniform: Any) -> None:
    uniform.create(EVERY_TYPE)
    full = {
        "id": 1,
        "b": -128,
        "s": 32767,
        "i": -5,
        "f": 1.5,
        "d": -0.0,
        "small": decimal.Decimal("-1.25"),
        "large": decimal.Decimal("12345678901234567890.0123456789"),
        "t": "äöü",
        "x": b"\x00\xff",
        "yes": True,
        "day": datetime.date(1969, 12, 31),
        "at": datetime.datetime(2024, 2, 29, 12, 0, 0, 123456, tzinfo=UTC),
        "local": datetime.datetime(1900, 1, 1, 0, 0, 0, 1),
        "deep": {"x": 1, "y": {"z": "q"}},
        "list": [{"n": 1}, {"n": None}],
        "map": {"k": [1, None], "l": []},
    }
    empty = dict.fromkeys(full) | {"id": 2}
    uniform.append(full, empty)
    rows = read_by_duckdb(uniform.root)
    assert rows == [full, empty]
    assert by_id(uniform.iceberg().scan().to_arrow().to_pylist(maps_as_pydicts="strict"))[0] == full


def test_partitions_are_distinguished_and_renamed(uniform: Any) -> None:
    schema = struct(("id", LongType()), ("p", StringType()), ("day", DateType()), ("at", TimestampType()))
    uniform.create(schema, partitioned_by=["p", "day", "at"])
    at = datetime.datetime(2024, 1, 1, 1, 2, 3, 456789, tzinfo=UTC)
    rows = [
        {"id": 1, "p": "a/b c%", "day": datetime.date(2024, 1, 1), "at": at},
        {"id": 2, "p": None, "day": None, "at": None},
        {"id": 3, "p": "", "day": datetime.date(1960, 1, 1), "at": at},
    ]
    uniform.append(*rows)
    expected = [*rows[:2], {**rows[2], "p": None}]
    assert by_id(uniform.rows()) == read_by_duckdb(uniform.root) == expected
    assert [row["id"] for row in uniform.rows(row_filter="p = 'a/b c%'")] == [1]
    assert len(list(uniform.iceberg().scan(row_filter="day = '1960-01-01'").plan_files())) == 1
    fields = [
        StructField("q" if field.name == "p" else field.name, field.dataType, True, field.metadata)
        for field in uniform.snapshot.schema
    ]
    uniform.alter(schema=StructType(fields), partition_columns=["q", "day", "at"])
    uniform.append({"id": 4, "q": "new", "day": None, "at": None})
    assert [row["q"] for row in by_id(uniform.rows())] == ["a/b c%", None, None, "new"]
    assert read_by_duckdb(uniform.root) == by_id(uniform.rows())


def test_columns_come_and_get_other_names(uniform: Any) -> None:
    uniform.create(PLAIN)
    uniform.append({"id": 1, "name": "a"})
    first, second = uniform.snapshot.schema.fields
    renamed = StructField("title", second.dataType, True, second.metadata)
    uniform.alter(schema=StructType([first, renamed, StructField("name", ArrayType(LongType()))]))
    uniform.append({"id": 2, "title": "b", "name": [7]})
    expected = [{"id": 1, "title": "a", "name": None}, {"id": 2, "title": "b", "name": [7]}]
    assert read_by_duckdb(uniform.root) == expected
    schemas = {
        schema.schema_id: [field.name for field in schema.fields] for schema in uniform.iceberg().schemas().values()
    }
    assert schemas == {0: ["id", "name"], 1: ["id", "title", "name"]}


def entries(uniform: Any, version: int | None = None) -> list[Any]:
    table = uniform.iceberg(version)
    return [
        entry
        for manifest in table.current_snapshot().manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io)
    ]


def test_only_exact_bounds_are_written(uniform: Any) -> None:
    long = "x" * 40
    uniform.create(EVERY_TYPE)
    uniform.append(
        {
            "id": 2,
            "t": "b",
            "d": 0.0,
            "small": decimal.Decimal("1.5"),
            "day": datetime.date(2024, 1, 1),
            "deep": {"x": 3},
        },
        {"id": 9, "t": long, "at": datetime.datetime(2024, 1, 1, tzinfo=UTC), "f": float("nan"), "deep": None},
    )
    (entry,) = entries(uniform)
    file, table = entry.data_file, uniform.iceberg()
    from pyiceberg.conversions import from_bytes

    def decoded(bounds: dict[int, bytes]) -> dict[str, Any]:
        fields = {number: table.schema().find_field(number) for number in bounds}
        return {field.name: from_bytes(field.field_type, bounds[number]) for number, field in fields.items()}

    low = {"id": 2, "t": "b", "d": -0.0, "small": decimal.Decimal("1.50"), "x": 3}
    assert {name: value for name, value in decoded(file.lower_bounds).items() if name != "day"} == low
    assert set(decoded(file.upper_bounds)) == {"id", "d", "small", "day", "x"}
    assert file.record_count == 2
    assert file.null_value_counts[1] == 0
    assert file.null_value_counts[table.schema().find_field("yes").field_id] == 2


def test_manifests_are_kept_as_long_as_their_files_are(uniform: Any) -> None:
    uniform.create(PLAIN)
    adds = [uniform.append({"id": i, "name": "a"})[0] for i in range(3)]

    def manifests() -> list[str]:
        table = uniform.iceberg()
        return [manifest.manifest_path for manifest in table.current_snapshot().manifests(table.io)]

    before = manifests()
    uniform.replace(adds[1:2], {"id": 10, "name": "b"})
    after = manifests()
    assert len(before) == 3
    assert len(set(before) & set(after)) == 2
    assert [row["id"] for row in by_id(uniform.rows())] == [0, 2, 10]
    statuses = sorted(str(entry.status.name) for entry in entries(uniform))
    assert statuses == ["ADDED"] * 3


def test_files_that_come_back_are_counted_once(uniform: Any) -> None:
    """RESTORE adds them again, and so does a commit that changes tags or statistics."""
    uniform.create(PLAIN)
    (first,) = uniform.append({"id": 1, "name": "a"})
    uniform.replace([first], {"id": 2, "name": "b"})
    uniform.commit([msgspec.structs.replace(first, data_change=True)], "RESTORE")
    assert [row["id"] for row in by_id(uniform.rows())] == [1, 2]
    uniform.commit([msgspec.structs.replace(first, data_change=False, tags={"x": "y"})], "COMPUTE STATS")
    assert [row["id"] for row in by_id(uniform.rows())] == [1, 2]
    assert uniform.iceberg().current_snapshot().summary["total-data-files"] == "2"


def test_ids_of_rows_in_files_do_not_disturb_readers(uniform: Any) -> None:
    """The columns of row tracking in files are not in the table's schema, and have no id."""
    uniform.create(PLAIN, properties={**UNIFORM, "delta.enableRowTracking": "true"})
    (add,) = uniform.written({"id": 1, "name": "a"})
    path = uniform.root / add.path
    stored = pq.read_table(path)
    properties = uniform.snapshot.properties
    for name in (properties.materialized_row_id_column, properties.materialized_row_commit_version_column):
        stored = stored.append_column(name, pa.array([7]))
    pq.write_table(stored, path, store_schema=False)
    uniform.commit([msgspec.structs.replace(add, size=path.stat().st_size)], "OPTIMIZE")
    assert read_by_duckdb(uniform.root) == uniform.rows() == [{"id": 1, "name": "a"}]


def test_the_next_version_includes_one_that_was_not_converted(uniform: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A failed conversion fails no commit, and the next one includes all rows."""
    uniform.create(PLAIN)
    uniform.append({"id": 1, "name": "a"})
    metadata = uniform.root / "metadata"
    metadata.rename(uniform.root / "aside")
    metadata.write_text("in the way")
    with caplog.at_level(logging.WARNING):
        uniform.append({"id": 2, "name": "b"})
    assert "Iceberg metadata failed" in caplog.text
    metadata.unlink()
    (uniform.root / "aside").rename(metadata)
    uniform.append({"id": 3, "name": "c"})
    assert [row["id"] for row in by_id(uniform.rows())] == [1, 2, 3]
    versions = [snapshot.summary["delta-version"] for snapshot in uniform.iceberg().snapshots()]
    assert versions == ["0", "1", "3"]


@pytest.mark.parametrize("harm", ["nonsense", "no version", "another table"])
def test_metadata_that_cannot_be_used_is_rebuilt(uniform: Any, harm: str) -> None:
    uniform.create(PLAIN)
    uniform.append({"id": 1, "name": "a"})
    path = uniform.root / "metadata" / "v1.metadata.json"
    metadata = json.loads(path.read_text())
    if harm == "nonsense":
        path.write_text("{")
    elif harm == "no version":
        metadata["properties"]["delta-version"] = "?"
        path.write_text(json.dumps(metadata))
    else:
        path.write_text(json.dumps({**metadata, "table-uuid": "00000000-0000-4000-8000-000000000000"}))
    uniform.append({"id": 2, "name": "b"})
    assert [row["id"] for row in by_id(uniform.rows())] == [1, 2]


def test_two_writers_of_one_version_leave_one(uniform: Any) -> None:
    uniform.create(PLAIN)
    uniform.append({"id": 1, "name": "a"})
    snapshot = uniform.snapshot
    assert convert_to_iceberg(uniform.store, snapshot, random=random.Random(1)) is None
    (uniform.root / "metadata" / "v1.metadata.json").unlink()
    again = convert_to_iceberg(uniform.store, snapshot, random=random.Random(2))
    assert again is not None
    assert not again.rebuilt
    assert by_id(uniform.rows()) == [{"id": 1, "name": "a"}]


def test_a_late_writer_does_not_set_readers_back(uniform: Any) -> None:
    """A committed version 1 and is slow; by the time it converts, B has published version 2."""
    uniform.create(PLAIN)
    uniform.append({"id": 1, "name": "a"})
    late = uniform.snapshot
    uniform.append({"id": 2, "name": "b"})
    assert convert_to_iceberg(uniform.store, late, random=random.Random(1)) is None
    assert uniform.hint == 2


def test_old_metadata_goes_with_what_is_its_alone(uniform: Any) -> None:
    uniform.create(PLAIN)
    adds: list[Any] = []
    for i in range(METADATA_KEPT_MAX + 5):
        adds = uniform.replace(adds[:1], {"id": i, "name": "a"}) if adds else uniform.append({"id": i, "name": "a"})
    there = {file.name for file in (uniform.root / "metadata").iterdir() if not file.name.startswith(".")}
    assert len([name for name in there if name.endswith(".metadata.json")]) == METADATA_KEPT_MAX
    table = uniform.iceberg()
    assert len(table.snapshots()) == METADATA_KEPT_MAX
    used = {snapshot.manifest_list for snapshot in table.snapshots()}
    used |= {manifest.manifest_path for snapshot in table.snapshots() for manifest in snapshot.manifests(table.io)}
    stored = {f"{table.location()}/metadata/{name}" for name in there if name.endswith(".avro")}
    assert used == stored
    assert len(uniform.rows()) == 1


def test_properties_alone_make_no_snapshot(uniform: Any) -> None:
    uniform.create(PLAIN)
    uniform.append({"id": 1, "name": "a"})
    before = uniform.iceberg().current_snapshot().snapshot_id
    configuration = {**uniform.snapshot.metadata.configuration, "delta.universalformat.config.iceberg.foo.bar": "7"}
    uniform.alter(configuration=configuration)
    assert uniform.iceberg().current_snapshot().snapshot_id == before
    assert uniform.iceberg().properties["foo.bar"] == "7"
    assert uniform.hint == 2


def test_turned_off_and_on_again(uniform: Any) -> None:
    uniform.create(PLAIN)
    on = dict(uniform.snapshot.metadata.configuration)
    off = {**on, "delta.enableIcebergCompatV2": "false"}
    uniform.alter(configuration=off)
    assert "delta.universalFormat.enabledFormats" not in uniform.snapshot.metadata.configuration
    uniform.append({"id": 1, "name": "a"})
    assert uniform.hint == 0
    uniform.alter(configuration=on)
    assert by_id(uniform.rows()) == [{"id": 1, "name": "a"}]


def test_a_commit_against_the_rules_does_not_land(uniform: Any) -> None:
    uniform.create(PLAIN)
    (add,) = uniform.written({"id": 1, "name": "a"})
    with pytest.raises(IcebergCompatError, match="numRecords"):
        uniform.commit([msgspec.structs.replace(add, stats=None)], "WRITE")
    assert uniform.snapshot.version == 0


def test_without_the_library_the_property_cannot_be_set(uniform: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyiceberg", None)
    with pytest.raises(PyIcebergMissingError, match=r"pip install 'anabranch\[iceberg\]'"):
        uniform.create(PLAIN)
    uniform.create(PLAIN, properties={"delta.enableIcebergCompatV2": "true"})
    assert uniform.append({"id": 1, "name": "a"})[0].tags["ICEBERG_COMPAT_VERSION"] == "2"


def test_columns_without_ids_are_refused() -> None:
    with pytest.raises(InvalidColumnMappingError, match="no id"):
        iceberg_schema(PLAIN, table="t")
    half = StructField(
        "a", ArrayType(LongType()), True, {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "a"}
    )
    with pytest.raises(InvalidColumnMappingError, match="element has no id"):
        iceberg_schema(StructType([half]), table="t")
