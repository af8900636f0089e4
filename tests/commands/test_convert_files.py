"""What is taken from the footers of files that others wrote. No Spark needed."""

from __future__ import annotations

import datetime
import decimal
import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from anabranch.commands.convert import convert_files
from anabranch.commands.convert.convert_files import FooterFiles, ParquetFile, file_schemas, merged_schema
from anabranch.errors.convert import ConflictingFileSchemasError, FileNotConvertibleError
from anabranch.errors.schema import DuplicateColumnsError, UnsupportedTypeError
from anabranch.protocol.properties import TableProperties
from anabranch.protocol.statistics import indexed_columns
from anabranch.spark.write.footer_statistics import ForeignFooters
from anabranch.storage.log_store import StoredFile
from anabranch.storage.memory_store import MemoryStore

SPARK = {"org.apache.spark.version": "4.0.0"}
OLD_SPARK = {"org.apache.spark.version": "2.4.8"}


def schema(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def parquet(
    table: pa.Table, *, spark: StructType | None = None, file_metadata: dict[str, str] | None = None, **how: Any
) -> bytes:
    """A file; `spark` is the schema that Spark would have left in it."""
    spark_metadata = {} if spark is None else {"org.apache.spark.sql.parquet.row.metadata": spark.json()}
    out = io.BytesIO()
    pq.write_table(table.replace_schema_metadata({**spark_metadata, **(file_metadata or {})}), out, **how)
    return out.getvalue()


def stored(store: MemoryStore) -> list[StoredFile]:
    return sorted(store.list_tree(), key=lambda file: file.path)


def footers(store: MemoryStore, *, ignores: bool = False) -> FooterFiles:
    return FooterFiles(store, table="t", ignores_corrupt_files=ignores)


def store_of(**files: bytes) -> MemoryStore:
    store = MemoryStore()
    for name, data in files.items():
        store.put(name, data)
    return store


def merged(**files: StructType) -> StructType:
    store = store_of(**{name: parquet(pa.table({"x": [1]}), spark=kind) for name, kind in files.items()})
    read = footers(store).read(stored(store))
    return merged_schema(read, file_schemas(read, _never_inferred, table="t"), table="t")


def _never_inferred(file: ParquetFile) -> StructType:
    raise AssertionError(f"{file.path} has Spark's schema")


def statistics(data: bytes, file_schema: StructType, table_schema: StructType | None = None) -> dict[str, Any]:
    types = indexed_columns(table_schema or file_schema, TableProperties({}))
    reader = ForeignFooters(file_schema, types=types, string_prefix_length=32)
    document: dict[str, Any] = json.loads(reader.statistics(pq.read_metadata(io.BytesIO(data))).to_json())
    return document


def test_spark_infers_the_schema_of_files_of_one_kind_once() -> None:
    """Else each file of another writer would cost a job."""
    data, other = parquet(pa.table({"x": [1]})), parquet(pa.table({"x": ["a"]}))
    store = store_of(a=data, b=data, c=other, d=data)
    inferred: list[str] = []

    def infer(file: ParquetFile) -> StructType:
        inferred.append(file.path)
        return schema(x=LongType())

    file_schemas(footers(store).read(stored(store)), infer, table="t")
    assert inferred == ["a", "c"]


def test_schemas_are_merged_as_far_as_files_can_be_read_together() -> None:
    """Columns of later files come last; whole numbers that Parquet stores alike become the widest of them."""
    inner = StructType([StructField("p", LongType(), False), StructField("q", ShortType())])
    merged_schema = merged(
        a=schema(id=ShortType(), s=inner),
        b=schema(ID=IntegerType(), new=ArrayType(StringType(), False), s=schema(Q=IntegerType(), r=LongType())),
        c=schema(id=ShortType()),
    )
    expected = "struct<id:int,s:struct<p:bigint,q:int,r:bigint>,new:array<string>>"
    assert merged_schema.simpleString() == expected
    assert all(field.nullable for field in merged_schema)
    assert merged_schema["new"].dataType == ArrayType(StringType(), True)


def test_comments_stay_and_other_metadata_goes() -> None:
    file_metadata = StructType(
        [StructField("a", StringType(), True, {"comment": "x", "__CHAR_VARCHAR_TYPE_STRING": "char(3)"})]
    )
    assert merged(a=file_metadata)["a"].metadata == {"comment": "x"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (LongType(), StringType()),
        (IntegerType(), LongType()),
        (DecimalType(10, 2), DecimalType(12, 2)),
        (ArrayType(LongType()), LongType()),
    ],
)
def test_a_conflict_names_two_files_and_the_column(one: DataType, other: DataType) -> None:
    with pytest.raises(ConflictingFileSchemasError) as raised:
        merged(a=schema(x=StringType()), b=schema(s=schema(Y=one)), c=schema(S=schema(y=other)))
    error = raised.value
    assert (error.column, error.file, error.other_file) == ("s.Y", "c", "b")
    assert (error.data_type, error.other_type) == (other.simpleString(), one.simpleString())


def test_schemas_that_no_table_has_are_refused() -> None:
    udt = {"type": "udt", "class": "x.Y", "pyClass": "os.system", "sqlType": "integer"}
    text = json.dumps({"type": "struct", "fields": [{"name": "u", "type": udt, "nullable": True, "metadata": {}}]})
    store = store_of(a=parquet(pa.table({"u": [1]}), file_metadata={"org.apache.spark.sql.parquet.row.metadata": text}))
    read = footers(store).read(stored(store))
    with pytest.raises(UnsupportedTypeError, match="u"):
        file_schemas(read, _never_inferred, table="t")
    with pytest.raises(DuplicateColumnsError):
        merged(a=schema(x=LongType(), X=LongType()))


@pytest.mark.parametrize("data", [b"", b"PAR1", b"x" * 100, b"x" * 100 + b"\x05\0\0\0PAR1"])
def test_what_is_no_parquet_is_refused_or_left_out(data: bytes) -> None:
    good = parquet(pa.table({"x": [1]}))
    store = store_of(a=good, b=data)
    with pytest.raises(FileNotConvertibleError, match=r"b (is not a Parquet file|cannot be read)") as raised:
        footers(store).read(stored(store))
    assert raised.value.corrupt
    assert [file.path for file in footers(store, ignores=True).read(stored(store))] == ["a"]


def test_a_file_that_changes_or_goes_meanwhile_is_never_taken_half() -> None:
    """Also not where corrupt files are left out: it may have been whole."""
    data = parquet(pa.table({"x": [1]}))
    store = store_of(a=data)
    listed = stored(store)
    store.put("a", parquet(pa.table({"x": [1, 2, 3], "y": [1, 2, 3]})))
    with pytest.raises(FileNotConvertibleError, match="a moment ago"):
        footers(store, ignores=True).read(listed)
    store.delete("a")
    with pytest.raises(FileNotConvertibleError, match="is gone"):
        footers(store, ignores=True).read(listed)


def test_footers_that_are_too_many_are_read_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convert_files, "COLUMN_CHUNKS_KEPT_MAX", 1)
    store = store_of(a=parquet(pa.table({"x": [1]})), b=parquet(pa.table({"x": [1, 2]})))
    files = footers(store).read(stored(store))
    assert [file.footer is None for file in files] == [False, True]
    assert footers(store).map(lambda _, footer: str(footer.num_rows), files) == ["1", "2"]


def test_statistics_of_a_plain_file() -> None:
    kind = schema(i=IntegerType(), s=StringType(), d=DecimalType(5, 2), st=schema(x=LongType()))
    table = pa.table(
        {
            "i": pa.array([3, None, 1], pa.int32()),
            "s": ["b", "a", "c"],
            "d": pa.array([decimal.Decimal("1.50")] * 3, pa.decimal128(5, 2)),
            "st": [{"x": 1}, None, {"x": None}],
        }
    )
    stats = statistics(parquet(table, row_group_size=1), kind)
    assert stats["numRecords"] == 3
    assert stats["minValues"] == {"i": 1, "s": "a", "d": 1.5, "st": {"x": 1}}
    assert stats["maxValues"] == {"i": 3, "s": "c", "d": 1.5, "st": {"x": 1}}
    assert stats["nullCount"] == {"i": 1, "s": 0, "d": 0, "st": {"x": 2}}


def test_columns_that_a_file_lacks_are_null() -> None:
    """The other columns match in any case of letters; a struct may lack fields."""
    table_schema = schema(
        i=LongType(), more=StringType(), many=ArrayType(LongType()), st=schema(x=LongType(), y=LongType())
    )
    file_schema = schema(I=IntegerType(), ST=schema(X=LongType()))
    table = pa.table({"I": pa.array([1, 2], pa.int32()), "ST": [{"X": 5}, {"X": 6}]})
    stats = statistics(parquet(table), file_schema, table_schema)
    assert stats["minValues"] == {"i": 1, "st": {"x": 5}}
    assert stats["nullCount"] == {"i": 0, "more": 2, "many": 2, "st": {"x": 0, "y": 2}}


def test_bounds_of_floats_are_only_believed_where_nan_counts() -> None:
    """Arrow leaves NaN out of them, and for Spark NaN is greater than any number."""
    data = parquet(pa.table({"x": [1.0, float("nan"), 2.0]}))
    assert pq.read_metadata(io.BytesIO(data)).row_group(0).column(0).statistics.max == 2.0
    stats = statistics(data, schema(x=DoubleType()))
    assert stats["minValues"] == stats["maxValues"] == {}
    assert stats["nullCount"] == {"x": 0}


@pytest.mark.parametrize(
    ("day", "file_metadata", "has_bounds"),
    [
        (datetime.date(1582, 10, 15), {}, True),
        (datetime.date(1582, 10, 14), {}, False),
        (datetime.date(1000, 1, 1), SPARK, True),
        (datetime.date(1000, 1, 1), OLD_SPARK, False),
        (datetime.date(1000, 1, 1), {**SPARK, "org.apache.spark.legacyDateTime": ""}, False),
    ],
)
def test_days_long_ago_may_be_of_another_calendar(
    day: datetime.date, file_metadata: dict[str, str], has_bounds: bool
) -> None:
    table = pa.table({"d": pa.array([day, datetime.date(2020, 1, 1)]), "i": [1, 2]})
    stats = statistics(parquet(table, file_metadata=file_metadata), schema(d=DateType(), i=LongType()))
    assert ("d" in stats["minValues"], "d" in stats["maxValues"]) == (has_bounds, has_bounds)
    assert stats["minValues"]["i"] == 1


@pytest.mark.parametrize(
    ("how", "has_bounds"),
    [({"use_deprecated_int96_timestamps": True}, False), ({"coerce_timestamps": "ms"}, False), ({}, True)],
)
def test_only_microseconds_are_believed(how: dict[str, Any], has_bounds: bool) -> None:
    times = pa.array([datetime.datetime(2020, 1, 1)], pa.timestamp("us", tz="UTC"))
    stats = statistics(parquet(pa.table({"t": times}), **how), schema(t=TimestampType()))
    assert ("t" in stats["minValues"]) is has_bounds


def test_without_statistics_in_the_file_only_rows_are_counted() -> None:
    data = parquet(pa.table({"x": [1, 2]}), write_statistics=False)
    assert statistics(data, schema(x=LongType())) == {
        "numRecords": 2,
        "minValues": {},
        "maxValues": {},
        "nullCount": {},
        "tightBounds": True,
    }


def test_a_schema_that_is_not_the_files_own_says_nothing() -> None:
    """As in a copy that another program made, with Spark's words left in it and columns in another order."""
    data = parquet(pa.table({"b": [5, 6], "a": [1, 2]}))
    stats = statistics(data, schema(a=LongType(), b=LongType()))
    assert (stats["numRecords"], stats["minValues"], stats["nullCount"]) == (2, {}, {})


def test_a_column_of_another_type_than_the_catalogs_has_no_bounds() -> None:
    table = pa.table({"d": pa.array([decimal.Decimal("1.5")], pa.decimal128(5, 1)), "i": pa.array([7], pa.int32())})
    stats = statistics(
        parquet(table),
        schema(d=DecimalType(5, 1), i=IntegerType()),
        schema(d=DecimalType(8, 4), i=LongType()),
    )
    assert stats["minValues"] == {"i": 7}
    assert stats["nullCount"] == {"d": 0, "i": 0}


def test_long_texts_stay_bounds() -> None:
    data = parquet(pa.table({"s": ["x" * 50, "y" * 50]}))
    stats = statistics(data, schema(s=StringType()))
    assert stats["minValues"]["s"] == "x" * 32
    assert stats["maxValues"]["s"] > "y" * 50
