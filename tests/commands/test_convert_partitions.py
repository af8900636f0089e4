"""What folders of a Parquet table say about its partitions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    BooleanType,
    DateType,
    DecimalType,
    IntegerType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from anabranch.commands.convert.convert_partitions import (
    PartitionRules,
    fitting_clause,
    folder_values,
    is_hidden,
    with_partition_columns,
)
from anabranch.errors.convert import (
    PartitionFoldersMismatchError,
    PartitionFolderValueError,
    UnexpectedPartitionFolderError,
)
from anabranch.protocol.data_paths import partition_path
from anabranch.protocol.time_zones import UTC, FixedOffset, TimeZone

KEYS = (StructField("k", IntegerType()), StructField("s", StringType()))
NAMES = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=8).filter(
    lambda name: name not in {".", ".."}
)


def rules(*columns: StructField, zone: TimeZone = UTC, **options: bool) -> PartitionRules:
    return PartitionRules(table="t", columns=columns or KEYS, zone=zone, **options)


@given(st.dictionaries(NAMES, st.none() | NAMES, max_size=3))
def test_a_folder_that_spark_names_is_understood(values: dict[str, str | None]) -> None:
    """Names and values with any characters come back."""
    assert dict(folder_values(partition_path(values))) == values


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        ("", ()),
        ("run-7", ()),
        ("k=1/s=__HIVE_DEFAULT_PARTITION__", (("k", "1"), ("s", None))),
        ("k=1/run-7", (("k", "1"),)),
        ("all/k=1", (("k", "1"),)),
        ("k=1/run-7/s=x", (("s", "x"),)),
        ("k=1=2", (("k", "1=2"),)),
        ("=1", ()),
        ("a%3Db=c%2Fd%", (("a=b", "c/d%"),)),
    ],
)
def test_folders(folder: str, expected: tuple[tuple[str, str | None], ...]) -> None:
    """Partition folders follow one another; others may come before and after them, not between."""
    assert folder_values(folder) == expected


@pytest.mark.parametrize(
    ("path", "hidden"),
    [
        ("part-0.parquet", False),
        ("no-suffix", False),
        ("_SUCCESS", True),
        (".part-0.parquet.crc", True),
        ("part-0.parquet._COPYING_", True),
        ("_temporary/0/part-0.parquet", True),
        ("_delta_log/x.json", True),
        ("_key=1/part-0.parquet", False),
        (".key=1/part-0.parquet", False),
        ("k=1/_tmp/part-0.parquet", True),
        ("k=1/_id=1.parquet", True),
    ],
)
def test_hidden_files(path: str, hidden: bool) -> None:
    assert is_hidden(path) is hidden


def test_folders_fit_by_name_in_order() -> None:
    assert rules().fits((("K", "1"), ("s", "x")))
    assert not rules(case_sensitive=True).fits((("K", "1"), ("s", "x")))
    assert not rules().fits((("s", "x"), ("k", "1")))
    assert not rules().fits((("k", "1"),))


@pytest.mark.parametrize(
    ("data_type", "text", "stored"),
    [
        (IntegerType(), "7", "7"),
        (IntegerType(), "007", "7"),
        (IntegerType(), None, None),
        (StringType(), "007", "007"),
        (StringType(), "", None),
        (BooleanType(), "TRUE", "true"),
        (DateType(), "2020-1-2", "2020-01-02"),
        (DecimalType(4, 2), "1.5", "1.50"),
        (TimestampType(), "2020-01-01 00:00:00", "2019-12-31T23:00:00.000000Z"),
    ],
)
def test_values_are_written_as_the_protocol_says(data_type: object, text: str | None, stored: str | None) -> None:
    """A timestamp of a folder is the session's; in the log it needs no session to be understood."""
    column = StructField("c", data_type)  # type: ignore[arg-type]
    assert rules(column, zone=FixedOffset(3_600_000_000)).values("f", (("c", text),)) == {"c": stored}


@pytest.mark.parametrize("text", ["x", "", "1.5", "99999999999"])
def test_a_value_of_another_type_is_refused_or_null(text: str) -> None:
    column = StructField("k", IntegerType())
    with pytest.raises(PartitionFolderValueError, match="k=…/f") as raised:
        rules(column).values("k=…/f", (("k", text),))
    assert (raised.value.column, raised.value.value, raised.value.data_type) == ("k", text, "int")
    assert rules(column, ignores_bad_values=True).values("f", (("k", text),)) == {"k": None}


def test_the_way_out_names_the_clause_that_fits() -> None:
    folders = [(("k", "1"), ("s", "007"), ("d", "2020-01-01")), (("k", str(1 << 40)), ("s", "8"), ("d", None))]
    error = rules().mismatch("f", folders[0], folders)
    assert isinstance(error, PartitionFoldersMismatchError)
    assert error.suggestion == "PARTITIONED BY (`k` BIGINT, `s` STRING, `d` DATE)"
    assert "Write PARTITIONED BY" in str(error)
    swapped = rules().mismatch("f", (("s", "x"), ("k", "1")), [(("s", "x"), ("k", "1"))])
    assert isinstance(swapped, UnexpectedPartitionFolderError)
    assert "without PARTITIONED BY" in rules().mismatch("f", (), [(), ()]).suggestion  # type: ignore[attr-defined]
    assert fitting_clause([(("k", "1"),), ()]) == ""
    assert "differ" in str(rules().mismatch("f", (), [(("k", "1"),), ()]))


def test_partition_columns_keep_the_place_that_files_give_them() -> None:
    data = StructType([StructField("id", StringType()), StructField("K", StringType()), StructField("v", StringType())])
    whole = with_partition_columns(data, KEYS)
    assert [(field.name, field.dataType) for field in whole] == [
        ("id", StringType()),
        ("k", IntegerType()),
        ("v", StringType()),
        ("s", StringType()),
    ]
