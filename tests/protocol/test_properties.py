"""Table properties: what they mean, and which a user may set."""

from __future__ import annotations

import pickle

import pytest

from anabranch.errors.protocol import InvalidPropertyError, ReadOnlyPropertyError, UnknownPropertyError
from anabranch.protocol.properties import (
    TableProperties,
    canonical_name,
    canonical_names,
    stored_properties,
    validated,
    with_session_defaults,
)
from anabranch.protocol.property_table import PROPERTIES, IsolationLevel
from anabranch.protocol.value_text import parse_interval_ms

DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("interval 30 days", 30 * DAY_MS),
        ("30 days", 30 * DAY_MS),
        ("INTERVAL 1 Week", 7 * DAY_MS),
        ("  interval   2 weeks 1 day  ", 15 * DAY_MS),
        ("interval 24 hours", DAY_MS),
        ("1 hour 30 minutes", 5_400_000),
        ("1 day -12 hours", DAY_MS // 2),
        ("interval 1.5 seconds", 1500),
        ("interval 1.0005 second", 1000),
        ("5 milliseconds", 5),
        ("999 microseconds", 0),
        ("0 days", 0),
        ("interval 7 day", 7 * DAY_MS),
    ],
)
def test_intervals(text: str, expected: int) -> None:
    assert parse_interval_ms(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "interval",
        "interval ",
        "30",
        "days",
        "30days",
        "1 month",
        "interval 1 year",
        "-1 day",
        "1 day -2 days",
        "1.5 days",
        "1 fortnight",
        "1 day x",
        "1 dayss",
        "nan seconds",
        "1e3 days",
        "999999999999999999 weeks",
        "interval interval 1 day",
        "intervals 1 day",
    ],
)
def test_what_is_no_interval(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_interval_ms(text)


def test_defaults() -> None:
    properties = TableProperties({})
    assert properties.checkpoint_interval == 10
    assert properties.log_retention_ms == 30 * DAY_MS
    assert properties.deleted_file_retention_ms == 7 * DAY_MS
    assert properties.drop_feature_retention_ms == DAY_MS
    assert properties.set_transaction_retention_ms is None
    assert properties.isolation_level is IsolationLevel.WRITE_SERIALIZABLE
    assert properties.column_mapping_mode == "none"
    assert properties.checkpoint_policy == "classic"
    assert properties.num_indexed_columns == 32
    assert properties.stats_columns is None
    assert properties.string_prefix_length == 32
    assert properties.deletion_vectors_enabled is False
    assert properties.optimize_write_enabled is None
    assert properties.auto_compact_enabled is False
    assert properties.constraints == {}


def test_every_default_is_a_value_its_own_parser_takes() -> None:
    view = TableProperties({})
    for name in PROPERTIES:
        view.value(name)


def test_values() -> None:
    properties = TableProperties(
        {
            "delta.isolationLevel": "serializable",
            "delta.enableDeletionVectors": "TRUE",
            "delta.columnMapping.mode": "Name",
            "delta.dataSkippingStatsColumns": "a, `b.c`.d ,e.`f``g`",
            "delta.targetFileSize": "128mb",
            "delta.constraints.positive": "x > 0",
            "delta.constraints.gone": None,
            "delta.enableChangeDataCapture": "true",
            "delta.autoOptimize": "true",
            "free": "x",
        }
    )
    assert properties.isolation_level is IsolationLevel.SERIALIZABLE
    assert properties.deletion_vectors_enabled
    assert properties.column_mapping_mode == "name"
    assert properties.stats_columns == (("a",), ("b.c", "d"), ("e", "f`g"))
    assert properties.target_file_size_bytes == 128 * 1024 * 1024
    assert properties.constraints == {"positive": "x > 0"}
    assert properties.change_data_feed_enabled
    assert properties.auto_compact_enabled


def test_a_new_name_goes_before_the_old() -> None:
    both = {"delta.enableChangeDataFeed": "false", "delta.enableChangeDataCapture": "true"}
    assert not TableProperties(both).change_data_feed_enabled


def test_a_bad_value_is_an_error_only_when_it_is_read() -> None:
    properties = TableProperties({"delta.checkpointInterval": "often", "delta.appendOnly": "true"})
    assert properties.append_only
    with pytest.raises(InvalidPropertyError, match=r"delta.checkpointInterval.*positive integer.*'often'"):
        _ = properties.checkpoint_interval


def test_letter_case_of_names_is_put_right() -> None:
    assert validated({"DELTA.CHECKPOINTINTERVAL": "5", "delta.APPENDONLY": "true"}) == {
        "delta.checkpointInterval": "5",
        "delta.appendOnly": "true",
    }
    assert canonical_name("Delta.Feature.DeletionVectors") == "delta.feature.deletionvectors"
    assert canonical_name("DELTA.constraints.MyRule") == "delta.constraints.MyRule"
    assert canonical_name("My.Own") == "My.Own"
    assert validated({"My.Own": "x", "checkpointInterval": "never"}) == {"My.Own": "x", "checkpointInterval": "never"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("delta.checkpointInterval", "0"),
        ("delta.checkpointInterval", "-5"),
        ("delta.checkpointInterval", "1.5"),
        ("delta.checkpointInterval", "99999999999"),
        ("delta.checkpointInterval", "1_0"),
        ("delta.appendOnly", "yes"),
        ("delta.appendOnly", ""),
        ("delta.isolationLevel", "SnapshotIsolation"),
        ("delta.isolationLevel", ""),
        ("delta.logRetentionDuration", "1 month"),
        ("delta.columnMapping.mode", "position"),
        ("delta.checkpointPolicy", "v3"),
        ("delta.dataSkippingNumIndexedCols", "-2"),
        ("delta.dataSkippingStatsColumns", "a,,b"),
        ("delta.dataSkippingStatsColumns", "a b"),
        ("delta.dataSkippingStatsColumns", "`a"),
        ("delta.dataSkippingStatsColumns", "a."),
        ("delta.dataSkippingStatsColumns", "a,"),
        ("delta.dataSkippingStringPrefixLength", "-1"),
        ("delta.randomPrefixLength", "0"),
        ("delta.minReaderVersion", "4"),
        ("delta.minWriterVersion", "8"),
        ("delta.minWriterVersion", "seven"),
        ("delta.parquet.compression.codec", "rar"),
        ("delta.parquet.format.version", "3.0.0"),
        ("delta.targetFileSize", "0"),
        ("delta.targetFileSize", "big"),
        ("delta.universalFormat.enabledFormats", "iceberg,iceberg"),
        ("delta.coordinatedCommits.tableConf-preview", "[1]"),
    ],
)
def test_bad_values_are_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(InvalidPropertyError) as caught:
        validated({name.upper(): value})
    assert caught.value.name == name
    assert caught.value.value == value
    assert name in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert pickle.loads(pickle.dumps(caught.value)).name == name


def test_unknown_names_are_refused_with_a_suggestion() -> None:
    with pytest.raises(UnknownPropertyError, match=r"`delta.apendOnly`.*Did you mean `delta.appendOnly`") as caught:
        validated({"delta.apendOnly": "true"})
    assert caught.value.suggestions == ("delta.appendOnly",)
    with pytest.raises(UnknownPropertyError, match=r"no table property `delta.x`"):
        validated({"delta.x": "1"})


def test_properties_of_the_table_itself_cannot_be_set() -> None:
    for name in ("delta.columnMapping.maxColumnId", "delta.rowTracking.materializedRowIdColumnName"):
        with pytest.raises(ReadOnlyPropertyError, match=name):
            validated({name.lower(): "5"})
        with pytest.raises(ReadOnlyPropertyError):
            canonical_names([name])
    assert canonical_names(["DELTA.appendonly", "own"]) == ["delta.appendOnly", "own"]


def test_one_property_in_two_spellings() -> None:
    assert validated({"delta.appendOnly": "true", "DELTA.appendOnly": "true"}) == {"delta.appendOnly": "true"}
    with pytest.raises(InvalidPropertyError, match=r"once"):
        validated({"delta.appendOnly": "true", "DELTA.appendOnly": "false"})


def test_removed_files_must_not_outlive_the_log() -> None:
    with pytest.raises(InvalidPropertyError, match=r"no longer than"):
        validated({"delta.deletedFileRetentionDuration": "60 days"})
    with pytest.raises(InvalidPropertyError, match=r"no longer than"):
        validated({"delta.logRetentionDuration": "1 day"})
    assert validated({"delta.logRetentionDuration": "1 day", "delta.deletedFileRetentionDuration": "1 hour"})
    # What the table has already counts.
    current = {"delta.logRetentionDuration": "90 days"}
    assert validated({"delta.deletedFileRetentionDuration": "60 days"}, current=current)
    # A table that is that way already is not refused for something else.
    assert validated({"delta.appendOnly": "true"}, current={"delta.logRetentionDuration": "1 day"})


def test_session_defaults_give_way_to_what_the_user_says() -> None:
    session = {
        "spark.databricks.delta.properties.defaults.appendOnly": "true",
        "spark.databricks.delta.properties.defaults.checkpointInterval": "3",
        "spark.databricks.delta.properties.defaults.noSuchProperty": "1",
        "spark.databricks.delta.properties.defaults.feature.rowTracking": "supported",
        "spark.sql.shuffle.partitions": "2",
    }
    merged = with_session_defaults({"DELTA.checkpointinterval": "7", "own": "x"}, session)
    assert merged == {
        "delta.appendOnly": "true",
        "delta.checkpointInterval": "7",
        "delta.feature.rowtracking": "supported",
        "own": "x",
    }
    assert stored_properties(merged) == {"delta.appendOnly": "true", "delta.checkpointInterval": "7", "own": "x"}


def test_session_defaults_of_the_protocol_can_be_passed_over() -> None:
    session = {
        "spark.databricks.delta.properties.defaults.minWriterVersion": "7",
        "spark.databricks.delta.properties.defaults.feature.rowTracking": "supported",
        "spark.databricks.delta.properties.defaults.appendOnly": "true",
    }
    merged = with_session_defaults({"delta.ignoreProtocolDefaults": "true"}, session)
    assert merged == {"delta.appendOnly": "true", "delta.ignoreProtocolDefaults": "true"}
    assert stored_properties(merged) == {"delta.appendOnly": "true"}


def test_a_bad_session_default_is_refused() -> None:
    with pytest.raises(InvalidPropertyError, match=r"delta.appendOnly"):
        with_session_defaults({}, {"spark.databricks.delta.properties.defaults.appendOnly": "perhaps"})
