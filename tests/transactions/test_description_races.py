"""Races over protocol, metadata, domains and application ids: CASES, section F."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from pyspark.sql.types import ArrayType, DataType, LongType, MapType, StringType, StructField, StructType

from anabranch.errors.commits import (
    ConcurrentTransactionException,
    ConflictReason,
    MetadataChangedException,
    ProtocolChangedException,
)
from anabranch.protocol.actions import Metadata, Protocol, SetTransaction
from anabranch.protocol.actions_json import encode_actions
from anabranch.protocol.log_paths import commit_path
from anabranch.protocol.property_table import PROPERTIES
from anabranch.transactions.conflicts.metadata_compatibility import harmful_properties
from anabranch.transactions.property_changes import CONFLICTS, PROPERTY_CHANGES, PropertyChange
from anabranch.transactions.proposed_commit import RowsWithColumns, already_written
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
WIDER_SCHEMA = StructType([*SCHEMA.fields, StructField("more", LongType())])


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


@pytest.mark.parametrize(
    ("name", "before", "after", "is_free"),
    [
        ("dataSkippingStatsColumns", None, "id", True),
        ("dataSkippingNumIndexedCols", "32", None, True),
        ("setTransactionRetentionDuration", None, "interval 1 day", True),
        ("checkpointPolicy", None, "v2", True),
        ("enableTypeWidening", None, "true", True),
        ("enableTypeWidening", "true", "false", False),
        ("columnMapping.maxColumnId", "3", "4", True),
        ("columnMapping.maxColumnId", "4", "3", False),
        ("rowTracking.materializedRowIdColumnName", None, "a", True),
        ("rowTracking.materializedRowIdColumnName", "a", "b", False),
        ("appendOnly", None, "true", False),
        ("somethingNew", None, "1", False),
    ],
)
def test_a_property_beside_a_writer(name: str, before: str | None, after: str | None, is_free: bool) -> None:
    """Covers race 76."""
    names = [f"delta.{name}"]
    old, new = ({} if value is None else dict.fromkeys(names, value) for value in (before, after))
    assert harmful_properties(old, new) == ([] if is_free else names)


def test_each_property_has_an_effect_on_writers() -> None:
    assert PROPERTY_CHANGES.keys() == {name for name, row in PROPERTIES.items() if row.stored}
    assert {name for name, kind in PROPERTY_CHANGES.items() if kind is PropertyChange.CONFLICT} == {
        f"delta.{name}" for name in CONFLICTS
    }


KEY = StructType([StructField("x", LongType())])
OLD = StructType(
    [
        StructField("id", LongType()),
        StructField("s", StructType([StructField("x", LongType())])),
        StructField("a", ArrayType(StructType([StructField("x", LongType())]))),
        StructField(
            "m", MapType(StructType([StructField("x", LongType())]), StructType([StructField("x", LongType())]))
        ),
    ]
)
MORE = StructField("more", LongType(), metadata={"comment": "new"})
WIDE = StructType([StructField("x", LongType()), MORE])


def changed_column(name: str, kind: DataType | None = None, **metadata: object) -> StructType:
    """The columns, with one of another type or metadata, or another one at its end."""
    fields = {field.name: field for field in OLD.fields}
    old = fields.get(name)
    fields[name] = StructField(name, kind or (old.dataType if old else LongType()), metadata=metadata)
    return StructType(list(fields.values()))


@pytest.mark.parametrize(
    "schema",
    [
        StructType([*OLD.fields, MORE]),
        StructType([MORE, *OLD.fields]),
        StructType([OLD["id"], MORE, *OLD.fields[1:]]),
        changed_column("s", WIDE),
        changed_column("a", ArrayType(WIDE)),
        changed_column("m", MapType(KEY, WIDE)),
        changed_column("more", WIDE, **{"delta.columnMapping.id": 9, "delta.columnMapping.physicalName": "p"}),
        changed_column("more", StringType(), __CHAR_VARCHAR_TYPE_STRING="varchar(3)"),
        StructType([*changed_column("id", comment="c").fields, MORE]),
    ],
    ids=["last", "first", "middle", "struct", "array", "map", "mapped struct", "varchar", "and a comment"],
)
def test_columns_that_are_added_beside_writers(schema: StructType) -> None:
    """Covers race 77: an append that leaves them out, a change of rows, which is ordered before them, and an OPTIMIZE."""
    file, other = add("f", ids=(0, 9)), add("g", ids=(10, 19))
    first = created(file, other, described=metadata(OLD))
    appends, deletes, compacts = first.begin("WRITE"), first.read(id_is(3), file), first.begin("OPTIMIZE")
    rival_of(first).commit([metadata(schema)], name="ADD COLUMNS")
    appends.commit([add("a")], on_new_columns=lambda described: RowsWithColumns.SAME)
    deletes.commit([remove(file), add("b")])
    assert first.table.snapshots.latest().metadata == metadata(schema)
    infos = [json.loads(first.store.read(commit_path(version)).split(b"\n")[0])["commitInfo"] for version in (2, 3)]
    assert [info["tags"].get("anabranch.standsBefore") for info in infos] == [None, "1-2"]
    assert [info["isBlindAppend"] for info in infos] == [True, False]
    compacts.commit([remove(other, data_change=False), add("c", data_change=False)])
    assert lint(first.store) == []


@pytest.mark.parametrize(
    "schema",
    [
        StructType([*OLD.fields, StructField("more", LongType(), nullable=False)]),
        StructType([*OLD.fields, StructField("more", StructType([StructField("x", LongType(), nullable=False)]))]),
        StructType([*OLD.fields, StructField("more", ArrayType(LongType(), containsNull=False))]),
        changed_column("more", CURRENT_DEFAULT="1"),
        changed_column("more", **{"delta.generationExpression": "id + 1"}),
        changed_column("more", **{"delta.identity.start": 1}),
        changed_column("more", **{"delta.invariants": "{}"}),
        changed_column("more", something_new=1),
        changed_column("id", CURRENT_DEFAULT="1"),
        changed_column("id", **{"delta.invariants": "{}"}),
        changed_column("id", StringType()),
        changed_column("m", MapType(WIDE, WIDE)),
        StructType([StructField("id", LongType(), nullable=False), *OLD.fields[1:]]),
        StructType([*OLD.fields[1:], OLD["id"]]),
        StructType(OLD.fields[1:]),
        StructType([StructField("renamed", LongType()), *OLD.fields[1:]]),
    ],
)
def test_other_changes_of_columns(schema: StructType) -> None:
    """Covers race 77: a writer that has not read them could write what they forbid, or what is not in its column."""
    first = created(described=metadata(OLD))
    ours = first.begin()
    rival_of(first).commit([metadata(schema)], name="CHANGE COLUMN")
    with pytest.raises(MetadataChangedException) as raised:
        ours.commit([add("a")], on_new_columns=lambda described: RowsWithColumns.SAME)
    assert raised.value.reason is ConflictReason.SCHEMA_OR_PARTITIONING
    assert raised.value.operation == "CHANGE COLUMN"


@pytest.mark.parametrize("level", ["Serializable", "WriteSerializable"])
@pytest.mark.parametrize("rows", [*RowsWithColumns, None])
def test_what_a_statement_would_write_with_new_columns(level: str, rows: RowsWithColumns | None) -> None:
    """Only under `WriteSerializable` it may come before them, unless it has left out values for one of them."""
    first = created(described=metadata(properties={"delta.isolationLevel": level}))
    ours = first.begin()
    rival_of(first).commit([metadata(WIDER_SCHEMA, properties={"delta.isolationLevel": level})], name="ADD COLUMNS")
    on_new_columns = None if rows is None else lambda described: rows
    before = rows in (None, RowsWithColumns.UNKNOWN) and level == "WriteSerializable"
    if rows is RowsWithColumns.SAME or before:
        assert ours.commit([add("a")], on_new_columns=on_new_columns).version == 2
    else:
        with pytest.raises(MetadataChangedException, match="added more"):
            ours.commit([add("a")], on_new_columns=on_new_columns)


def test_a_statement_does_not_come_before_columns_that_another_winner_has_read() -> None:
    """The other winner comes after the columns and before ours. One that was begun before them does not."""
    file = add("f", ids=(0, 9))
    for reads_columns in (True, False):
        first = created(file)
        ours, rival = first.begin(), rival_of(first)
        begun = rival.read(id_is(3), file)
        rival.commit([metadata(WIDER_SCHEMA)], name="ADD COLUMNS")
        (rival.read(id_is(3), file) if reads_columns else begun).commit([remove(file), add("b")])
        if reads_columns:
            with pytest.raises(MetadataChangedException):
                ours.commit([add("a")])
        else:
            assert ours.commit([add("a")]).version == 3


def test_a_statement_does_not_come_before_columns_of_a_statement_that_has_read_rows() -> None:
    """The other one has not read its rows, so it would have to come before it, too. A blind append has read none."""
    file = add("f", ids=(0, 9))
    for is_blind in (True, False):
        first = created(file)
        ours, rival = first.begin(), rival_of(first)
        evolving = rival.begin("WRITE") if is_blind else rival.read(id_is(3), file)
        evolving.commit([metadata(WIDER_SCHEMA), add("b"), *([] if is_blind else [remove(file)])])
        if is_blind:
            assert ours.commit([add("a")]).version == 2
        else:
            with pytest.raises(MetadataChangedException):
                ours.commit([add("a")])


def test_a_feature_is_not_dropped_beside_a_new_column() -> None:
    """The column may need the feature."""
    first = created(protocol=features(*BASE, "timestampNtz"))
    ours = first.begin("DROP FEATURE")
    rival_of(first).commit([metadata(WIDER_SCHEMA)], name="ADD COLUMNS")
    with pytest.raises(MetadataChangedException):
        ours.commit([features(*BASE)])


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
WIDER = metadata(WIDER_SCHEMA)


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
    with_properties(metadata(), dataSkippingStatsColumns="id"),
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
    assert merged == (42 if edits else 0)


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


def with_identity(mark: int | None = None, *, comment: str = "", more: Sequence[StructField] = ()) -> Metadata:
    facts: dict[str, Any] = {
        "delta.identity.start": 1,
        "delta.identity.step": 1,
        "delta.identity.allowExplicitInsert": True,
    }
    facts |= {} if mark is None else {"delta.identity.highWaterMark": mark}
    facts |= {"comment": comment} if comment else {}
    return metadata(StructType([StructField("id", LongType(), False, facts), *more]))


NUMBERING = features(*BASE, "identityColumns")


def mark_in(described: Metadata) -> int | None:
    (mark,) = (field["metadata"].get("delta.identity.highWaterMark") for field in fields_of(described)[:1])
    return mark


def fields_of(described: Metadata) -> list[dict[str, Any]]:
    fields: list[dict[str, Any]] = json.loads(described.schema_string)["fields"]
    return fields


@pytest.mark.parametrize("edited", [frozenset(), None])
@pytest.mark.parametrize("theirs", [5, 9])
def test_two_writers_that_generate_values_of_an_identity_column(theirs: int, edited: frozenset[str] | None) -> None:
    """Covers race 79: as many values by both, too, though then the metadata of both are equal."""
    first = created(protocol=NUMBERING, described=with_identity(3))
    ours = first.begin()
    rival_of(first).commit([add("w"), with_identity(theirs)])
    with pytest.raises(MetadataChangedException) as raised:
        ours.commit([add("a"), with_identity(5)], edited_properties=edited)
    replaces = edited is None and theirs != 5
    assert (raised.value.reason is ConflictReason.IDENTITY_COLUMNS) is not replaces


def test_writers_of_which_one_generates_values() -> None:
    """Covers race 79: DELETE, UPDATE and rows with values of their own are committed beside it, in either order."""
    file = add("f", ids=(0, 9))
    for generates_first in (True, False):
        first = created(file, protocol=NUMBERING, described=with_identity(3))
        generates, appends, deletes = first.begin(), first.begin(), first.read(id_is(3), file)
        others = [lambda: appends.commit([add("w")]), lambda: deletes.commit([remove(file), add("b")])]  # noqa: B023
        generating = [lambda: generates.commit([add("a"), with_identity(5)], edited_properties=frozenset())]  # noqa: B023
        for commit in [*generating, *others] if generates_first else [*others, *generating]:
            commit()
        assert first.table.snapshots.latest().metadata == with_identity(5) or not generates_first
        assert mark_in(first.table.snapshots.latest().metadata) == 5
        assert lint(first.store) == []


MORE_COLUMNS = [StructField("more", LongType())]


@pytest.mark.parametrize("generates_first", [True, False])
@pytest.mark.parametrize(
    "described",
    [
        with_properties(with_identity(3), checkpointInterval="20"),
        with_identity(3, more=MORE_COLUMNS),
        with_identity(3, comment="number"),
    ],
    ids=["a property", "a column", "a comment"],
)
def test_generated_values_beside_changes_of_the_description(generates_first: bool, described: Metadata) -> None:
    """Both changes are in the table."""
    first = created(protocol=NUMBERING, described=with_identity(3))
    generates, alters = first.begin(), first.begin("ALTER TABLE")
    generating = lambda: generates.commit(  # noqa: E731
        [add("a"), with_identity(5)],
        edited_properties=frozenset(),
        on_new_columns=lambda described: RowsWithColumns.SAME,
    )
    altering = lambda: alters.commit([described], edited_properties=frozenset())  # noqa: E731
    for commit in (generating, altering) if generates_first else (altering, generating):
        commit()
    latest = first.table.snapshots.latest().metadata
    assert mark_in(latest) == 5
    assert latest.configuration == described.configuration
    assert [field["name"] for field in fields_of(latest)] == [field["name"] for field in fields_of(described)]
    assert fields_of(latest)[0]["metadata"].get("comment") == fields_of(described)[0]["metadata"].get("comment")
    assert lint(first.store) == []


@pytest.mark.parametrize(
    "described",
    [
        metadata(StructType([StructField("renamed", LongType(), False, {"delta.identity.step": 1})])),
        with_identity(4),
        with_properties(with_identity(3), appendOnly="true"),
    ],
    ids=["a renamed column", "SYNC IDENTITY", "a property that matters"],
)
@pytest.mark.parametrize("generates_first", [True, False])
def test_changes_that_a_writer_of_generated_values_must_know(described: Metadata, generates_first: bool) -> None:
    first = created(protocol=NUMBERING, described=with_identity(3))
    generates, alters = first.begin(), first.begin("ALTER TABLE")
    generating = lambda: generates.commit([add("a"), with_identity(5)], edited_properties=frozenset())  # noqa: E731
    altering = lambda: alters.commit([described], edited_properties=frozenset())  # noqa: E731
    if generates_first and described.configuration:
        generating()
        altering()
        return
    one, other = (generating, altering) if generates_first else (altering, generating)
    one()
    with pytest.raises(MetadataChangedException):
        other()


@pytest.mark.parametrize("mark", [1, 5])
def test_a_table_that_is_replaced_by_one_with_other_numbers(mark: int) -> None:
    """REPLACE is no writer that only generates values, also where only the mark is another than it was."""
    first = created(protocol=NUMBERING, described=with_identity(3))
    ours = first.begin("REPLACE TABLE")
    rival_of(first).commit([with_properties(with_identity(3), checkpointInterval="20")])
    with pytest.raises(MetadataChangedException) as raised:
        ours.commit([with_identity(mark), add("a")])
    assert raised.value.reason is ConflictReason.BOTH_CHANGE_METADATA
