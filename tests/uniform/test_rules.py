"""What IcebergCompat allows of a table and of its files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from anabranch.errors.other_formats import (
    IcebergCompatColumnMappingError,
    IcebergCompatError,
    IcebergCompatFileVectorError,
    IcebergCompatPartitioningError,
    IcebergCompatStatisticsError,
    IcebergCompatTypeChangeError,
    IcebergCompatTypeError,
    IcebergCompatVectorsError,
    IcebergCompatVersionsError,
    UniFormFormatError,
    UniFormNeedsCompatError,
)
from anabranch.protocol.actions import AddFile, DeletionVectorDescriptor
from anabranch.protocol.properties import (
    TableProperties,
    compat_property,
    file_tags,
    with_requirements,
    without_orphaned_format,
    writes_iceberg,
)
from anabranch.schema.iceberg_rules import IcebergTable, broken_rules, check_formats, check_iceberg_files

V1, V2 = (compat_property(version) for version in (1, 2))
MAPPED = {"delta.columnMapping.mode": "name"}
FORMATS = "delta.universalFormat.enabledFormats"


def broken(
    properties: Mapping[str, str], *types: DataType, vectors: bool = False, old: tuple[str, ...] = (), **metadata: Any
) -> list[type[IcebergCompatError]]:
    fields = [StructField(f"c{i}", kind, True, metadata) for i, kind in enumerate(types)]
    table = IcebergTable(
        properties=TableProperties(dict(properties)),
        schema=StructType(fields),
        partition_columns=("c0",) if types else (),
        supports_vectors=vectors,
    )
    errors = list(broken_rules(table, old_partition_columns=old, table="t"))
    for error in errors:
        assert "t (IcebergCompatV" in error.explain()
        assert error.condition.startswith("DELTA_ICEBERG_COMPAT_VIOLATION.")
    return [type(error) for error in errors]


def test_a_table_without_the_properties_may_be_anything() -> None:
    assert broken({}, VariantType(), NullType(), vectors=True, old=("other",)) == []


@pytest.mark.parametrize("version", [V1, V2])
def test_rules_of_both_versions(version: str) -> None:
    on = {version: "true"}
    assert broken({**on, **MAPPED}, LongType()) == []
    assert broken({**on, "delta.columnMapping.mode": "id"}, LongType()) == []
    assert broken(on, LongType()) == [IcebergCompatColumnMappingError]
    vectors = {**on, **MAPPED, "delta.enableDeletionVectors": "true"}
    assert broken(vectors, LongType(), vectors=True) == [IcebergCompatVectorsError]
    assert broken({**on, **MAPPED}, LongType(), old=("c0",)) == []
    assert broken({**on, **MAPPED}, LongType(), old=("c1",)) == [IcebergCompatPartitioningError]
    assert broken({**on, **MAPPED}, VariantType()) == [IcebergCompatTypeError]
    assert broken({**on, **MAPPED}, StructType([StructField("x", NullType())])) == [IcebergCompatTypeError]


def test_the_versions_differ_in_vectors_and_nested_types() -> None:
    nested = ArrayType(StructType([StructField("m", MapType(StringType(), LongType()))]))
    assert broken({V2: "true", **MAPPED}, nested, vectors=True) == []
    assert broken({V1: "true", **MAPPED}, LongType(), vectors=True) == [IcebergCompatVectorsError]
    # One error for each type: the array, and the map within it.
    assert broken({V1: "true", **MAPPED}, nested) == [IcebergCompatTypeError, IcebergCompatTypeError]
    assert broken({V1: "true", V2: "true", **MAPPED}, LongType()) == [IcebergCompatVersionsError]


@pytest.mark.parametrize(
    ("old", "new", "allowed"),
    [
        ("short", "long", True),
        ("float", "double", True),
        ("decimal(5,2)", "decimal(9,2)", True),
        ("date", "timestamp_ntz", False),
        ("integer", "double", False),
        ("decimal(5,2)", "decimal(9,4)", False),
    ],
)
def test_type_changes_that_iceberg_follows(old: str, new: str, allowed: bool) -> None:
    changes = {"delta.typeChanges": [{"fromType": old, "toType": new}]}
    expected = [] if allowed else [IcebergCompatTypeChangeError]
    assert broken({V2: "true", **MAPPED}, LongType(), **changes) == expected


ALLOWED = [ShortType(), IntegerType(), FloatType(), DoubleType(), DecimalType(9, 2), StringType(), BinaryType()]
ALLOWED += [DateType(), TimestampType(), TimestampNTZType()]
TYPES = st.recursive(
    st.sampled_from([*ALLOWED, NullType(), VariantType()]),
    lambda inner: st.one_of(
        inner.map(ArrayType),
        inner.map(lambda value: MapType(StringType(), value)),
        inner.map(lambda value: StructType([StructField("x", value)])),
    ),
    max_leaves=4,
)


@given(TYPES)
def test_a_type_is_allowed_where_all_within_it_are(kind: DataType) -> None:
    text = kind.json()
    bad = '"void"' in text or '"variant"' in text
    nested = '"array"' in text or '"map"' in text
    assert bool(broken({V2: "true", **MAPPED}, kind)) == bad
    assert bool(broken({V1: "true", **MAPPED}, kind)) == (bad or nested)


def add(stats: str | None, *, vector: bool = False) -> AddFile:
    hidden = DeletionVectorDescriptor(storage_type="i", path_or_inline_dv="x", size_in_bytes=1, cardinality=1)
    return AddFile(
        path="f",
        partition_values={},
        size=1,
        modification_time=1,
        data_change=True,
        stats=stats,
        deletion_vector=hidden if vector else None,
    )


def test_files_say_how_many_rows_they_have_and_hide_none() -> None:
    counted = json.dumps({"numRecords": 0})
    check_iceberg_files([add(counted)], 2, table="t")
    for stats in (None, "{}", "nonsense"):
        with pytest.raises(IcebergCompatStatisticsError, match="numRecords"):
            check_iceberg_files([add(stats)], 2, table="t")
    with pytest.raises(IcebergCompatFileVectorError):
        check_iceberg_files([add(counted, vector=True)], 2, table="t")


def test_formats_need_compatibility_and_a_writer() -> None:
    check_formats(TableProperties({FORMATS: "iceberg", V2: "true"}), table="t")
    with pytest.raises(UniFormNeedsCompatError, match="set delta"):
        check_formats(TableProperties({FORMATS: "iceberg"}), table="t")
    with pytest.raises(UniFormFormatError, match="hudi"):
        check_formats(TableProperties({FORMATS: "iceberg,hudi", V2: "true"}), table="t")


def test_properties_that_follow_from_others() -> None:
    assert with_requirements({"a": "b"}) == {"a": "b"}
    needed = {"delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "false"}
    assert with_requirements({V1: "true"}) == {V1: "true", **needed}
    assert with_requirements({V2: "true", "delta.columnMapping.mode": "id"})["delta.columnMapping.mode"] == "id"
    on = TableProperties({V2: "true", FORMATS: "iceberg"})
    assert writes_iceberg(on)
    assert without_orphaned_format(on, {V2: "false", FORMATS: "iceberg"}) == {V2: "false"}
    assert without_orphaned_format(on, {V1: "true", FORMATS: "iceberg"}) == {V1: "true", FORMATS: "iceberg"}
    assert file_tags(on) == {"ICEBERG_COMPAT_VERSION": "2"}
    assert file_tags(TableProperties({V1: "true"})) is None
