"""Races over protocol, metadata, domains and application ids: CASES, section F."""

from __future__ import annotations

import json

import msgspec
import pytest
from pyspark.sql.types import LongType, StructField, StructType

from anabranch.errors.commits import (
    ConcurrentTransactionException,
    ConflictReason,
    MetadataChangedException,
    ProtocolChangedException,
)
from anabranch.protocol.actions import Metadata, Protocol, SetTransaction
from anabranch.protocol.actions_json import encode_actions
from anabranch.protocol.log_paths import commit_path
from anabranch.transactions.proposed_commit import already_written
from transactions.log_linter import lint
from transactions.table_on_memory import (
    PLAIN,
    SCHEMA,
    add,
    created,
    domain,
    features,
    id_is,
    metadata,
    remove,
    rival_of,
    with_properties,
)

BASE = ("appendOnly", "invariants")


def test_same_application_id() -> None:
    """Covers race 73: one stream's checkpoint used by two runs."""
    first = created()
    ours = first.begin("STREAMING UPDATE")
    assert not ours.has_written(app_id="stream", version=7)
    rival_of(first).commit([SetTransaction(app_id="stream", version=6), add("w")])
    with pytest.raises(ConcurrentTransactionException, match="application id stream, version 6") as raised:
        ours.commit([SetTransaction(app_id="stream", version=7), add("a")])
    assert raised.value.reason is ConflictReason.APPLICATION_ID


def test_same_write_of_an_application_landed_first() -> None:
    """Covers race 73: the reason lets a caller skip its write instead of failing."""
    first = created()
    ours = first.begin()
    rival_of(first).commit([SetTransaction(app_id="job", version=7), add("w")])
    with pytest.raises(ConcurrentTransactionException) as raised:
        ours.commit([SetTransaction(app_id="job", version=7), add("a")])
    assert raised.value.reason is ConflictReason.ALREADY_WRITTEN
    again = first.begin()
    assert again.has_written(app_id="job", version=7)
    assert not again.has_written(app_id="job", version=8)


def test_a_write_that_landed_behind_an_earlier_one_of_its_application_is_written() -> None:
    """Batch 2 behind batches 1 and 2 of another run: there is nothing left to do."""
    first = created()
    ours = first.begin()
    rival = rival_of(first)
    for version in (1, 2):
        rival.commit([SetTransaction(app_id="job", version=version), add(f"w{version}")])
    with pytest.raises(ConcurrentTransactionException) as raised:
        ours.commit([SetTransaction(app_id="job", version=2), add("a")])
    assert (raised.value.reason, raised.value.version) == (ConflictReason.ALREADY_WRITTEN, 2)


def test_progress_that_was_only_looked_up() -> None:
    first = created()
    ours = first.begin()
    ours.has_written(app_id="job", version=1)
    rival_of(first).commit([SetTransaction(app_id="job", version=1)])
    with pytest.raises(ConcurrentTransactionException):
        ours.commit([add("a")])


def test_different_application_ids() -> None:
    """Covers race 73."""
    first = created()
    ours = first.begin()
    rival_of(first).commit([SetTransaction(app_id="one", version=1), add("w")])
    committed = ours.commit([SetTransaction(app_id="two", version=1), add("a")])
    assert already_written(committed.snapshot, app_id="one", version=1)
    assert already_written(committed.snapshot, app_id="two", version=1)
    assert not already_written(None, app_id="two", version=1)


def test_clash_of_metadata_domains() -> None:
    """Covers race 74: two CLUSTER BY."""
    first = created(protocol=features(*BASE, "domainMetadata", "clustering"))
    ours = first.begin("CLUSTER BY")
    rival_of(first).commit([domain("delta.clustering", '{"clusteringColumns":[["id"]]}')])
    with pytest.raises(MetadataChangedException, match=r"delta\.clustering") as raised:
        ours.commit([domain("delta.clustering", '{"clusteringColumns":[["date"]]}')])
    assert raised.value.reason is ConflictReason.METADATA_DOMAIN


def test_two_writers_of_one_domain_who_agree() -> None:
    first = created(protocol=features(*BASE, "domainMetadata"))
    ours = first.begin()
    rival_of(first).commit([domain("app.x", "1")])
    committed = ours.commit([domain("app.x", "1"), add("a")])
    assert b"domainMetadata" not in first.store.read(commit_path(committed.version))


def test_different_domains() -> None:
    """Covers race 74."""
    first = created(protocol=features(*BASE, "domainMetadata"))
    ours = first.begin()
    rival_of(first).commit([domain("app.x", "1")])
    assert ours.commit([domain("app.y", "2")]).snapshot.domain_metadata.keys() == {"app.x", "app.y"}


def test_feature_dropped_mid_flight() -> None:
    """Covers race 75, fault F58."""
    first = created(protocol=features(*BASE, "deletionVectors"))
    ours = first.begin()
    rival_of(first).commit([features(*BASE)], name="DROP FEATURE")
    with pytest.raises(ProtocolChangedException, match="dropped deletionVectors") as raised:
        ours.commit([add("a")])
    assert raised.value.reason is ConflictReason.FEATURES_DROPPED


@pytest.mark.parametrize(
    ("protocol", "named"),
    [
        (Protocol(min_reader_version=4, min_writer_version=8), "reader version 4, writer version 8"),
        (features(*BASE, "timeMachine"), "with timeMachine"),
    ],
)
def test_a_protocol_that_is_not_supported(protocol: Protocol, named: str) -> None:
    """Running it again is of no use: the message says what is."""
    first = created()
    ours = first.begin()
    line = encode_actions([protocol])
    first.store.put(commit_path(1), line)
    with pytest.raises(ProtocolChangedException, match=named) as raised:
        ours.commit([add("a")])
    assert raised.value.reason is ConflictReason.UNSUPPORTED_PROTOCOL
    assert "upgrade it" in str(raised.value)
    assert "again" not in str(raised.value)


@pytest.mark.parametrize("feature", ["checkConstraints", "changeDataFeed", "columnMapping", "generatedColumns"])
def test_feature_added_that_requires_something_of_files(feature: str) -> None:
    """Covers race 75."""
    first = created()
    ours = first.begin()
    rival_of(first).commit([features(*BASE, feature)], name="UPGRADE PROTOCOL")
    with pytest.raises(ProtocolChangedException, match=f"added {feature}") as raised:
        ours.commit([add("a")])
    assert raised.value.reason is ConflictReason.FEATURES_ADDED


@pytest.mark.parametrize(
    ("feature", "properties"),
    [
        ("deletionVectors", {"enableDeletionVectors": "true"}),
        ("v2Checkpoint", {"checkpointPolicy": "v2"}),
        ("rowTracking", {"enableRowTracking": "true", "rowTracking_materializedRowIdColumnName": "_row_id_x"}),
        ("inCommitTimestamp", {"enableInCommitTimestamps": "true"}),
    ],
)
def test_harmless_feature_turned_on(feature: str, properties: dict[str, str]) -> None:
    """Covers race 76: protocol and property, in one commit."""
    file = add("old")
    first = created(file)
    ours = first.read(id_is(5), file)
    more = [feature, "domainMetadata"] if feature == "rowTracking" else [feature]
    rival_of(first).commit(
        [
            features(*BASE, *more),
            with_properties(metadata(), **properties),
            *([msgspec.structs.replace(file, data_change=False)] if feature == "rowTracking" else []),
        ],
        name="SET TBLPROPERTIES",
    )
    ours.commit([remove(file), add("new")])
    assert lint(first.store) == []


def test_row_tracking_turned_on_by_a_winner_is_kept_to() -> None:
    """Covers races 76, 80: the rebased commit has row ids although its writer knew of none."""
    first = created()
    ours = first.begin()
    rival_of(first).commit([features(*BASE, "rowTracking", "domainMetadata"), add("w", rows=10)])
    committed = ours.commit([add("a", rows=5)])
    file = committed.snapshot.files.find("a")
    assert file is not None
    assert (file.base_row_id, file.default_row_commit_version) == (10, 2)
    assert lint(first.store) == []


@pytest.mark.parametrize(
    "properties",
    [
        {"logRetentionDuration": "interval 60 days"},
        {"checkpointInterval": "100"},
        {"autoOptimize_autoCompact": "true"},
    ],
)
def test_properties_of_upkeep(properties: dict[str, str]) -> None:
    """Covers race 76."""
    first = created()
    ours = first.begin()
    rival_of(first).commit([with_properties(metadata(), **properties)])
    assert ours.commit([add("a")]).version == 2


def test_comment_and_properties_of_the_user() -> None:
    first = created()
    ours = first.begin()
    commented = msgspec.structs.replace(metadata(), description="sales", name="t", configuration={"owner": "me"})
    rival_of(first).commit([commented])
    assert ours.commit([add("a")]).version == 2


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"delta.constraints.positive": "id > 0"}),
        ({}, {"delta.isolationLevel": "Serializable"}),
        ({}, {"delta.appendOnly": "true"}),
        ({}, {"delta.enableChangeDataFeed": "true"}),
        ({"delta.enableDeletionVectors": "true"}, {"delta.enableDeletionVectors": "false"}),
        ({"delta.enableDeletionVectors": "true"}, {}),
        ({}, {"delta.somethingNew": "1"}),
    ],
)
def test_properties_that_a_writer_must_know(before: dict[str, str], after: dict[str, str]) -> None:
    """Covers races 72, 76, 78."""
    first = created(described=metadata(properties=before))
    ours = first.begin()
    rival_of(first).commit([metadata(properties=after)])
    changed = next(iter((after or before).keys()))
    with pytest.raises(MetadataChangedException, match=changed) as raised:
        ours.commit([add("a")])
    assert raised.value.reason is ConflictReason.TABLE_PROPERTIES
    assert raised.value.where == changed


def test_schema_changed() -> None:
    """Covers race 77."""
    first = created()
    ours = first.begin()
    rival_of(first).commit(
        [metadata(StructType([*SCHEMA.fields, StructField("more", LongType())]))], name="ADD COLUMNS"
    )
    with pytest.raises(MetadataChangedException) as raised:
        ours.commit([add("a")])
    assert raised.value.reason is ConflictReason.SCHEMA_OR_PARTITIONING
    assert raised.value.operation == "ADD COLUMNS"


def test_schema_spelled_otherwise_is_the_same() -> None:
    first = created()
    ours = first.begin()
    spaced = msgspec.structs.replace(metadata(), schema_string=metadata().schema_string.replace(",", " ,  "))
    rival_of(first).commit([spaced])
    assert ours.commit([add("a")]).version == 2


def test_table_replaced() -> None:
    """Covers race 87: the id of the table is another, and nothing else."""
    first = created()
    ours = first.begin()
    rival_of(first).commit([metadata(table_id="table-2")], name="REPLACE TABLE")
    with pytest.raises(MetadataChangedException) as raised:
        ours.commit([add("a")])
    assert raised.value.reason is ConflictReason.TABLE_REPLACED


def test_two_changes_of_metadata() -> None:
    first = created()
    ours = first.begin()
    rival_of(first).commit([with_properties(metadata(), checkpointInterval="20")])
    with pytest.raises(MetadataChangedException) as raised:
        ours.commit([with_properties(metadata(), checkpointInterval="30")])
    assert raised.value.reason is ConflictReason.BOTH_CHANGE_METADATA


NULLABLE_ID = StructField("id", LongType(), metadata={"comment": "of the row"})
COMMENTED = metadata(StructType([NULLABLE_ID, *SCHEMA.fields[1:]]))
WIDER = metadata(StructType([*SCHEMA.fields, StructField("more", LongType())]))


def test_a_comment_of_a_column_is_in_nobodys_way() -> None:
    """Covers bug B74: neither rows nor conditions depend on it; another change of the column is still a conflict."""
    file = add("f", ids=(0, 9))
    for changed, lands in ((COMMENTED, True), (metadata(StructType([NULLABLE_ID])), False)):
        first = created(file)
        appends, deletes = first.begin("WRITE"), first.read(id_is(3), file)
        rival_of(first).commit([changed], name="CHANGE COLUMN")
        if lands:
            appends.commit([add("a")])
            assert deletes.commit([remove(file), add("b")]).snapshot.metadata == COMMENTED
        else:
            for late in (appends, deletes):
                with pytest.raises(MetadataChangedException):
                    late.commit([add("a")])


FREE = [
    with_properties(metadata(), checkpointInterval="20"),
    msgspec.structs.replace(metadata(), configuration={"owner": "me"}),
    msgspec.structs.replace(metadata(), description="sales"),
    COMMENTED,
]
NOT_FREE = [
    with_properties(metadata(), enableChangeDataFeed="true"),
    with_properties(metadata(), checkpointPolicy="v2"),
    WIDER,
]


def said(described: Metadata) -> set[object]:
    """What a description adds to the plain one."""
    fields = StructType.fromJson(json.loads(described.schema_string)).fields
    texts = {f"{field.name} {field.dataType} {field.metadata}" for field in fields}
    return texts | set(described.configuration.items()) | {described.description}


@pytest.mark.parametrize("edits", [True, False])
def test_changes_of_the_description_that_commute(edits: bool) -> None:
    """Covers bug B74: one of the two is of no concern to anybody, and they change other things. Both are there then.

    Statements that say what the whole description is, and who changes the same thing, lose as before.
    """
    pairs = [(theirs, ours) for theirs in FREE + NOT_FREE for ours in FREE + NOT_FREE if theirs is not ours]
    other = [(FREE[0], with_properties(metadata(), checkpointInterval="30"))]
    dropped = [(with_properties(metadata(), checkpointInterval="20"), msgspec.structs.replace(COMMENTED, id="other"))]
    merged = 0
    for theirs, ours in [*pairs, *other, *dropped]:
        first = created()
        running = first.begin("SET TBLPROPERTIES")
        rival_of(first).commit([theirs], name="SET TBLPROPERTIES")
        same_thing = {id(theirs), id(ours)} == {id(COMMENTED), id(WIDER)}
        commute = edits and (theirs, ours) in pairs and not same_thing and (theirs in FREE or ours in FREE)
        if commute:
            committed = running.commit([ours], edited_properties=frozenset() if edits else None).snapshot.metadata
            assert said(committed) >= (said(theirs) | said(ours)) - said(metadata())
            merged += 1
        else:
            with pytest.raises(MetadataChangedException):
                running.commit([ours], edited_properties=frozenset() if edits else None)
        assert lint(first.store) == []
    assert merged == (34 if edits else 0)


def test_a_property_that_both_remove_or_one_sets() -> None:
    """Covers bug B74: what one of them takes away stays away."""
    before = msgspec.structs.replace(metadata(), configuration={"a": "1", "b": "2", "c": "3"})
    first = created(described=before)
    ours = first.begin("UNSET TBLPROPERTIES")
    theirs = msgspec.structs.replace(before, configuration={"b": "2", "c": "4"})
    rival_of(first).commit([theirs], name="UNSET TBLPROPERTIES")
    without_b = msgspec.structs.replace(before, configuration={"c": "3"})
    assert ours.commit([without_b], edited_properties=frozenset()).snapshot.metadata.configuration == {"c": "4"}


def test_a_property_that_is_stated_and_stays_is_not_theirs_to_change() -> None:
    """Covers bug B74: as the random histories found, run again behind the winner the statement would set it back."""
    before = msgspec.structs.replace(metadata(), configuration={"a": "1"}, description="sales")
    ours = msgspec.structs.replace(before, configuration={"a": "1", "b": "2"})
    for theirs in (
        msgspec.structs.replace(before, configuration={"a": "3"}),
        msgspec.structs.replace(before, configuration={}),
        msgspec.structs.replace(before, description="other"),
    ):
        first = created(described=before)
        running = first.begin("SET TBLPROPERTIES")
        rival_of(first).commit([theirs])
        with pytest.raises(MetadataChangedException):
            running.commit([ours], edited_properties=frozenset({"a", "b", "comment"}))


def test_two_writers_who_want_the_same_metadata() -> None:
    """Two identical schema additions, or COMMENT ON TABLE by five workers: all succeed."""
    wider = metadata(StructType([*SCHEMA.fields, StructField("more", LongType())]))
    first = created()
    rivals = [rival_of(first, seed=seed).begin() for seed in range(10, 15)]
    for number, rival in enumerate(rivals):
        rival.commit([wider, add(f"f{number}")])
    held = [b"metaData" in first.store.read(commit_path(version)) for version in range(1, 6)]
    assert held == [True, False, False, False, False]
    assert first.table.snapshots.latest().files.count == 5
    assert lint(first.store) == []


def test_metadata_and_protocol_that_change_nothing_are_not_written() -> None:
    first = created()
    first.commit([PLAIN, metadata(), add("a")])
    assert b"metaData" not in first.store.read(commit_path(1))
    assert b"protocol" not in first.store.read(commit_path(1))


def test_two_upgrades_of_the_protocol() -> None:
    first = created()
    ours = first.begin()
    rival_of(first).commit([features(*BASE, "deletionVectors")])
    with pytest.raises(ProtocolChangedException) as raised:
        ours.commit([features(*BASE, "inCommitTimestamp")])
    assert raised.value.reason is ConflictReason.BOTH_CHANGE_PROTOCOL


def test_two_upgrades_that_agree() -> None:
    first = created()
    ours = first.begin()
    rival_of(first).commit([features(*BASE, "deletionVectors")])
    assert ours.commit([features(*BASE, "deletionVectors"), add("a", vector="v")]).version == 2


def test_legacy_protocol_written_out_is_the_same() -> None:
    first = created(protocol=PLAIN)
    ours = first.begin()
    rival_of(first).commit([Protocol(min_reader_version=1, min_writer_version=7, writer_features=list(BASE))])
    assert ours.commit([add("a")]).version == 2


def with_identity() -> Metadata:
    schema = StructType([StructField("id", LongType(), False, {"delta.identity.start": 1, "delta.identity.step": 1})])
    return metadata(schema)


def test_identity_columns() -> None:
    """Covers race 79."""
    first = created(protocol=features(*BASE, "identityColumns"), described=with_identity())
    ours = first.begin()
    rival_of(first).append(add("w"))
    with pytest.raises(MetadataChangedException, match="take turns") as raised:
        ours.commit([add("a")])
    assert raised.value.reason is ConflictReason.IDENTITY_COLUMNS
