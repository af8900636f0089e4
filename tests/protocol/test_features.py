"""Table features: supported, active, readable, writable; and how protocols rise."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    VariantType,
)

from anabranch.errors.protocol import (
    InvalidPropertyError,
    InvalidProtocolError,
    UnknownFeatureError,
    UnsupportedFeatureError,
)
from anabranch.protocol.actions import Protocol
from anabranch.protocol.features import (
    FEATURES,
    FeatureKind,
    active,
    check_readable,
    check_writable,
    supported,
    supported_features,
)
from anabranch.protocol.properties import TableProperties, validated
from anabranch.protocol.protocol_evolution import (
    ProtocolRequest,
    needed_features,
    protocol_for_existing_table,
    protocol_for_new_table,
    protocol_of,
    requested_protocol,
    upgrade_protocol,
    with_required,
)

PLAIN = StructType([StructField("a", LongType())])
NO_PROPERTIES = TableProperties({})
OLDEST = Protocol(min_reader_version=1, min_writer_version=1)
USUAL = Protocol(min_reader_version=1, min_writer_version=2)


def table_features(*names: str, readers: bool = True) -> Protocol:
    """A protocol of versions 3 and 7 (or 1 and 7) with these features."""
    listed = [name for name in names if name in FEATURES and FEATURES[name].kind is FeatureKind.READER_WRITER]
    unknown = [name for name in names if name not in FEATURES]
    return Protocol(
        min_reader_version=3 if readers else 1,
        min_writer_version=7,
        reader_features=[*listed, *unknown] if readers else None,
        writer_features=list(names),
    )


@pytest.mark.parametrize(
    ("reader", "writer", "expected"),
    [
        (1, 1, set()),
        (1, 2, {"appendOnly", "invariants"}),
        (1, 3, {"appendOnly", "invariants", "checkConstraints"}),
        (1, 4, {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"}),
        (1, 5, {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"}),
        (
            2,
            5,
            {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "columnMapping"},
        ),
        (2, 3, {"appendOnly", "invariants", "checkConstraints"}),
        (
            1,
            6,
            {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "identityColumns"},
        ),
    ],
)
def test_legacy_versions_imply_features(reader: int, writer: int, expected: set[str]) -> None:
    assert supported_features(Protocol(min_reader_version=reader, min_writer_version=writer)) == expected


def test_listed_features_are_all_there_are() -> None:
    protocol = table_features("deletionVectors", "rowTracking", "domainMetadata")
    assert supported_features(protocol) == {"deletionVectors", "rowTracking", "domainMetadata"}
    assert supported(protocol, "rowTracking")
    assert not supported(protocol, "appendOnly")


def test_active_is_supported_and_needed() -> None:
    on = TableProperties({"delta.enableDeletionVectors": "true"})
    assert active(table_features("deletionVectors"), "deletionVectors", properties=on)
    assert not active(table_features("deletionVectors"), "deletionVectors", properties=NO_PROPERTIES)
    assert not active(USUAL, "deletionVectors", properties=on)
    assert active(table_features("domainMetadata"), "domainMetadata", properties=NO_PROPERTIES)


def test_what_is_read_and_written() -> None:
    for protocol in (OLDEST, USUAL, Protocol(min_reader_version=2, min_writer_version=6)):
        check_readable(protocol, table="t")
        check_writable(protocol, table="t")
    everything = [name for name, row in FEATURES.items() if row.writable]
    check_writable(table_features(*everything), table="t")
    check_readable(table_features("icebergCompatV2", "checkpointProtection", "columnMapping"), table="t")


@pytest.mark.parametrize("name", [name for name, row in FEATURES.items() if not row.writable])
def test_tables_we_cannot_write_are_refused_by_feature(name: str) -> None:
    protocol = table_features(name)
    with pytest.raises(UnsupportedFeatureError) as caught:
        check_writable(protocol, table="/data/t")
    assert caught.value.features == (name,)
    assert caught.value.access == ("write" if FEATURES[name].readable else "read")
    assert f"`{name}`" in str(caught.value)
    assert "/data/t" in str(caught.value)
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.features == (name,)


def test_unknown_reader_features_stop_reading_and_unknown_writer_features_only_writing() -> None:
    """Covers attack A11."""
    with pytest.raises(UnsupportedFeatureError, match=r"`aFutureThing`.*reading"):
        check_readable(table_features("aFutureThing", "deletionVectors"), table="t")
    writer_only = table_features("aFutureThing", readers=False)
    check_readable(writer_only, table="t")
    with pytest.raises(UnsupportedFeatureError, match=r"`aFutureThing`.*writing"):
        check_writable(writer_only, table="t")


@pytest.mark.parametrize(
    ("protocol", "readable"),
    [
        (Protocol(min_reader_version=4, min_writer_version=7), False),
        (Protocol(min_reader_version=99, min_writer_version=99), False),
        (Protocol(min_reader_version=1, min_writer_version=8), True),
        (Protocol(min_reader_version=3, min_writer_version=7, writer_features=[]), False),
        (Protocol(min_reader_version=1, min_writer_version=7), True),
        (Protocol(min_reader_version=3, min_writer_version=2, reader_features=[]), True),
    ],
)
def test_versions_we_do_not_know_are_refused(protocol: Protocol, readable: bool) -> None:
    if readable:
        check_readable(protocol, table="t")
    else:
        with pytest.raises(UnsupportedFeatureError):
            check_readable(protocol, table="t")
    with pytest.raises(UnsupportedFeatureError, match=r"t has reader version|uses"):
        check_writable(protocol, table="t")


def test_a_new_table_that_needs_nothing_is_what_every_reader_knows() -> None:
    assert protocol_for_new_table(PLAIN, NO_PROPERTIES) == USUAL


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        ({"delta.appendOnly": "true"}, USUAL),
        (
            {"delta.columnMapping.mode": "name"},
            # Delta too lists features here: versions 2 and 5 would imply more than is needed.
            Protocol(
                min_reader_version=2,
                min_writer_version=7,
                writer_features=["appendOnly", "columnMapping", "invariants"],
            ),
        ),
        (
            {"delta.enableDeletionVectors": "true"},
            Protocol(
                min_reader_version=3,
                min_writer_version=7,
                reader_features=["deletionVectors"],
                writer_features=["appendOnly", "deletionVectors", "invariants"],
            ),
        ),
        (
            {"delta.enableRowTracking": "true"},
            Protocol(
                min_reader_version=1,
                min_writer_version=7,
                writer_features=["appendOnly", "domainMetadata", "invariants", "rowTracking"],
            ),
        ),
        ({"delta.constraints.c": "a > 1"}, Protocol(min_reader_version=1, min_writer_version=3)),
        (
            {"delta.checkpointPolicy": "v2", "delta.columnMapping.mode": "id"},
            Protocol(
                min_reader_version=3,
                min_writer_version=7,
                reader_features=["columnMapping", "v2Checkpoint"],
                writer_features=["appendOnly", "columnMapping", "invariants", "v2Checkpoint"],
            ),
        ),
    ],
)
def test_new_tables_get_the_weakest_protocol(configuration: dict[str, str], expected: Protocol) -> None:
    assert protocol_for_new_table(PLAIN, TableProperties(configuration)) == expected


def test_column_types_need_features() -> None:
    for kind, feature in ((TimestampNTZType(), "timestampNtz"), (VariantType(), "variantType")):
        nested = StructType([StructField("m", MapType(StringType(), ArrayType(StructType([StructField("x", kind)]))))])
        assert needed_features(nested, NO_PROPERTIES) == {feature}
        protocol = protocol_for_new_table(nested, NO_PROPERTIES)
        assert protocol.reader_features == [feature]
        assert protocol.min_reader_version == 3


def test_versions_and_features_can_be_requested() -> None:
    requested = validated(
        {
            "delta.feature.DeletionVectors": "supported",
            "delta.feature.rowTracking": "Enabled",
            "delta.minReaderVersion": "3",
            "delta.minWriterVersion": "7",
        }
    )
    request = requested_protocol(requested)
    assert request == ProtocolRequest(
        features=frozenset({"deletionVectors", "rowTracking"}), min_reader_version=3, min_writer_version=7
    )
    protocol = protocol_for_new_table(PLAIN, NO_PROPERTIES, request)
    assert supported_features(protocol) == {
        "appendOnly",
        "invariants",
        "deletionVectors",
        "rowTracking",
        "domainMetadata",
    }
    old = protocol_for_new_table(PLAIN, NO_PROPERTIES, ProtocolRequest(min_reader_version=1, min_writer_version=4))
    assert old == Protocol(min_reader_version=1, min_writer_version=4)
    # Versions that say more than their features are brought down to what they mean.
    odd = protocol_for_new_table(PLAIN, NO_PROPERTIES, ProtocolRequest(min_reader_version=2, min_writer_version=3))
    assert odd == Protocol(min_reader_version=1, min_writer_version=3)


def test_requests_that_make_no_sense() -> None:
    with pytest.raises(UnknownFeatureError, match=r"`deletionvector`.*Did you mean `deletionVectors`"):
        requested_protocol(validated({"delta.feature.deletionVector": "supported"}))
    with pytest.raises(InvalidPropertyError, match=r"delta.feature.rowTracking"):
        requested_protocol(validated({"delta.feature.rowTracking": "true"}))
    with pytest.raises(InvalidProtocolError, match=r"writer version 7"):
        protocol_for_new_table(PLAIN, NO_PROPERTIES, ProtocolRequest(min_reader_version=3, min_writer_version=5))
    with pytest.raises(InvalidProtocolError, match=r"not both"):
        protocol_for_new_table(
            PLAIN, NO_PROPERTIES, ProtocolRequest(features=frozenset({"variantType", "variantType-preview"}))
        )


def test_a_preview_replaces_its_feature() -> None:
    schema = StructType([StructField("v", VariantType())])
    request = ProtocolRequest(features=frozenset({"variantType-preview"}))
    assert "variantType" not in supported_features(protocol_for_new_table(schema, NO_PROPERTIES, request))
    current = table_features("variantType-preview")
    assert protocol_for_existing_table(current, schema, NO_PROPERTIES) is current


def test_upgrading_lists_what_old_versions_implied() -> None:
    upgraded = upgrade_protocol(Protocol(min_reader_version=1, min_writer_version=4), ["deletionVectors"])
    assert upgraded == Protocol(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=["deletionVectors"],
        writer_features=[
            "appendOnly",
            "changeDataFeed",
            "checkConstraints",
            "deletionVectors",
            "generatedColumns",
            "invariants",
        ],
    )


def test_a_writer_feature_leaves_the_readers_alone() -> None:
    upgraded = upgrade_protocol(USUAL, ["clustering"])
    assert upgraded.min_reader_version == 1
    assert upgraded.reader_features is None
    assert upgraded.writer_features == ["appendOnly", "clustering", "domainMetadata", "invariants"]
    mapped = upgrade_protocol(Protocol(min_reader_version=2, min_writer_version=5), ["clustering"])
    assert mapped.min_reader_version == 2
    assert mapped.reader_features is None
    assert "columnMapping" in (mapped.writer_features or [])


def test_nothing_missing_nothing_changed() -> None:
    current = table_features("appendOnly", "deletionVectors", "invariants")
    assert upgrade_protocol(current, ["deletionVectors"]) is current
    assert upgrade_protocol(USUAL, []) is USUAL
    on = TableProperties({"delta.enableDeletionVectors": "true"})
    assert protocol_for_existing_table(current, PLAIN, on) is current


def test_existing_tables_rise_with_their_properties() -> None:
    on = TableProperties({"delta.enableChangeDataFeed": "true"})
    raised = protocol_for_existing_table(USUAL, PLAIN, on)
    assert supported_features(raised) == {"appendOnly", "invariants", "changeDataFeed"}
    requested = ProtocolRequest(min_reader_version=1, min_writer_version=4)
    assert protocol_for_existing_table(USUAL, PLAIN, on, requested) == Protocol(
        min_reader_version=1, min_writer_version=4
    )


def test_timestamps_without_zone_join_an_existing_table_by_name_only() -> None:
    schema = StructType([StructField("t", TimestampNTZType())])
    with pytest.raises(InvalidProtocolError, match=r"'delta.feature.timestampNtz' = 'supported'"):
        protocol_for_existing_table(USUAL, schema, NO_PROPERTIES)
    request = ProtocolRequest(features=frozenset({"timestampNtz"}))
    assert supported(protocol_for_existing_table(USUAL, schema, NO_PROPERTIES, request), "timestampNtz")


NAMES = st.frozensets(st.sampled_from(sorted(FEATURES)))


@given(NAMES)
def test_a_protocol_says_exactly_its_features(names: frozenset[str]) -> None:
    protocol = protocol_of(names)
    assert supported_features(protocol) == names
    assert (protocol.reader_features is not None) == (protocol.min_reader_version == 3)
    assert (protocol.writer_features is not None) == (protocol.min_writer_version == 7)
    assert set(protocol.reader_features or ()) <= set(protocol.writer_features or ())
    needs_three = any(FEATURES[name].reader_version == 3 for name in names)
    assert (protocol.min_reader_version == 3) == needs_three


@given(NAMES, NAMES)
def test_an_upgrade_adds_and_never_removes(have: frozenset[str], more: frozenset[str]) -> None:
    current = protocol_of(have)
    upgraded = upgrade_protocol(current, more)
    assert supported_features(upgraded) == have | with_required(more) or upgraded is current
    assert supported_features(upgraded) >= have | with_required(more)


def test_required_features_exist() -> None:
    for row in FEATURES.values():
        assert set(row.requires) <= FEATURES.keys()
        assert row.readable or not row.writable


def test_every_feature_of_the_protocol_has_a_row() -> None:
    """See "Valid Feature Names in Table Features"."""
    names = (
        "appendOnly invariants checkConstraints generatedColumns allowColumnDefaults changeDataFeed columnMapping "
        "identityColumns deletionVectors rowTracking timestampNtz domainMetadata v2Checkpoint catalogManaged "
        "icebergCompatV1 icebergCompatV2 clustering vacuumProtocolCheck inCommitTimestamp"
    )
    assert set(names.split()) <= FEATURES.keys()


def test_features_of_other_engines_are_refused_with_what_they_are() -> None:
    """Covers bug B90."""
    reading = Protocol(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=("timestampNanos", "unheardOf"),
        writer_features=("timestampNanos", "unheardOf"),
    )
    with pytest.raises(
        UnsupportedFeatureError, match=r"`timestampNanos` \(timestamps of nanoseconds\), `unheardOf`"
    ) as refused:
        check_readable(reading, table="t")
    assert pickle.loads(pickle.dumps(refused.value)).explain() == refused.value.explain()
    writing = Protocol(min_reader_version=1, min_writer_version=7, writer_features=("icebergWriterCompatV1",))
    check_readable(writing, table="t")
    with pytest.raises(UnsupportedFeatureError, match=r"`icebergWriterCompatV1` \(rules"):
        check_writable(writing, table="t")
    other = Protocol(
        min_reader_version=3,
        min_writer_version=7,
        reader_features=("timestampWithoutTimezone",),
        writer_features=("timestampWithoutTimezone",),
    )
    check_writable(other, table="t")
