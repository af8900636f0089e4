"""Statements on what describes a table, behind others on the same, and behind files that came since they looked."""

from __future__ import annotations

import json

import msgspec
import pytest
from pyspark.sql.types import DataType, LongType, StructField, StructType

from anabranch.errors.commits import (
    ConcurrentAppendException,
    ConflictReason,
    InvalidCommitError,
    MetadataChangedException,
)
from anabranch.protocol.actions import DomainMetadata, Metadata
from anabranch.transactions.conflicts.description_rules import faults_of_description
from transactions.log_linter import lint
from transactions.table_on_memory import (
    SCHEMA,
    Writer,
    add,
    created,
    domain,
    features,
    metadata,
    remove,
    rival_of,
    with_properties,
)

BASE = ("appendOnly", "invariants")
CLUSTERED = features(*BASE, "domainMetadata", "clustering", "columnMapping")
NARROWER = StructType([field for field in SCHEMA.fields if field.name != "value"])


def cluster_by(*columns: str) -> DomainMetadata:
    return domain("delta.clustering", json.dumps({"clusteringColumns": [[name] for name in columns]}))


def replaced(before: Metadata) -> Metadata:
    return msgspec.structs.replace(before, schema_string=NARROWER.json())


@pytest.mark.parametrize(
    "changed",
    [
        replaced(metadata()),
        metadata(partition_by=["date"]),
        metadata(properties={"delta.columnMapping.mode": "none"}),
        metadata(properties={"delta.dataSkippingStatsColumns": "id"}),
        metadata(),
    ],
    ids=["DROP COLUMN", "REPLACE, partitioned", "no column mapping", "other statistics", "REPLACE as it was"],
)
def test_a_redefinition_of_a_table_conflicts_with_a_change_of_its_clustering(changed: Metadata) -> None:
    """Else a domain would name a column that is gone, or outlive a replacement that would have removed it."""
    first = created(protocol=CLUSTERED)
    ours = first.begin("DROP COLUMNS")
    rival_of(first).commit([cluster_by("value")], name="CLUSTER BY")
    with pytest.raises(MetadataChangedException, match=r"delta\.clustering") as raised:
        ours.commit([changed])
    assert raised.value.reason is ConflictReason.METADATA_DOMAIN


def test_a_replacement_of_an_empty_table_takes_the_clustering_it_never_saw() -> None:
    """Only its comment is new; still it replaces the whole description, as its read of all rows shows."""
    first = created(protocol=CLUSTERED)
    ours = first.begin("REPLACE TABLE")
    ours.record_whole_table()
    rival_of(first).commit([cluster_by("value")], name="CLUSTER BY")
    with pytest.raises(MetadataChangedException, match=r"delta\.clustering"):
        ours.commit([msgspec.structs.replace(metadata(), description="new")])


def test_a_comment_follows_a_change_of_clustering() -> None:
    first = created(protocol=CLUSTERED)
    ours = first.begin("SET TBLPROPERTIES")
    rival_of(first).commit([cluster_by("value")], name="CLUSTER BY")
    committed = ours.commit([msgspec.structs.replace(metadata(), description="sales")])
    assert committed.snapshot.domain_metadata.keys() == {"delta.clustering"}


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        (replaced(metadata()), "clustered by value, which is no column of its schema"),
        (metadata(partition_by=["date"]), "both partitioned and clustered"),
    ],
)
def test_a_description_that_contradicts_itself_is_not_committed(changed: Metadata, fault: str) -> None:
    first = created(protocol=CLUSTERED)
    first.commit([cluster_by("value")], name="CLUSTER BY")
    with pytest.raises(InvalidCommitError, match=fault):
        first.commit([changed], name="DROP COLUMNS")
    gone = msgspec.structs.replace(cluster_by("value"), removed=True)
    assert first.commit([changed, gone], name="DROP COLUMNS").snapshot.domain_metadata == {}


def mapped(name: str, number: int, kind: DataType) -> StructField:
    """A column that files keep under another name, `c` and its id."""
    return StructField(
        name, kind, metadata={"delta.columnMapping.id": number, "delta.columnMapping.physicalName": f"c{number}"}
    )


S_X = mapped("x", 2, LongType())
S_Y = mapped("y", 3, LongType())
OTHER_X = mapped("x", 4, LongType())


def described_by(*fields: StructField) -> Metadata:
    return metadata(
        StructType(list(fields)),
        properties={"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "4"},
    )


def nested(*inner: StructField) -> Metadata:
    """A table of a column `s`, which holds these, and beside it a column that is called `x`, too."""
    return described_by(mapped("s", 1, StructType(list(inner))), OTHER_X)


CLUSTER_BY_S_X = domain("delta.clustering", json.dumps({"clusteringColumns": [["c1", "c2"]]}))


@pytest.mark.parametrize("changed", [nested(S_Y), described_by(OTHER_X)], ids=["DROP COLUMN s.x", "DROP COLUMN s"])
def test_a_nested_column_is_not_dropped_behind_a_clustering_by_it(changed: Metadata) -> None:
    first = created(protocol=CLUSTERED, described=nested(S_X, S_Y))
    ours = first.begin("DROP COLUMNS")
    rival_of(first).commit([CLUSTER_BY_S_X], name="CLUSTER BY")
    with pytest.raises(MetadataChangedException, match=r"delta\.clustering") as raised:
        ours.commit([changed])
    assert raised.value.reason is ConflictReason.METADATA_DOMAIN
    latest = first.table.snapshots.latest()
    assert latest.domain_metadata == {"delta.clustering": CLUSTER_BY_S_X}
    assert latest.metadata == nested(S_X, S_Y)


def test_a_clustering_by_a_nested_column_conflicts_with_the_drop_of_it() -> None:
    first = created(protocol=CLUSTERED, described=nested(S_X, S_Y))
    ours = first.begin("CLUSTER BY")
    rival_of(first).commit([nested(S_Y)], name="DROP COLUMNS")
    with pytest.raises(MetadataChangedException):
        ours.commit([CLUSTER_BY_S_X])
    assert first.table.snapshots.latest().domain_metadata == {}


@pytest.mark.parametrize(
    ("described", "faults"),
    [
        (nested(S_X, S_Y), []),
        (nested(mapped("renamed", 2, LongType()), S_Y), []),
        (nested(S_Y), ["the table would be clustered by c1.c2, which is no column of its schema"]),
        (described_by(OTHER_X), ["the table would be clustered by c1.c2, which is no column of its schema"]),
        (described_by(S_X, S_Y), ["the table would be clustered by c1.c2, which is no column of its schema"]),
    ],
    ids=["it is there", "it is there by another name", "s is without it", "s is gone", "it is not in s"],
)
def test_a_clustering_column_in_a_struct_is_checked_by_its_whole_path(described: Metadata, faults: list[str]) -> None:
    """Each part is the name that files know; columns of these names elsewhere are others."""
    assert list(faults_of_description(described, {"delta.clustering": CLUSTER_BY_S_X}, table="t")) == faults


def test_a_nested_column_by_which_a_table_is_clustered_goes_with_its_clustering_only() -> None:
    first = created(protocol=CLUSTERED, described=nested(S_X, S_Y))
    first.commit([CLUSTER_BY_S_X], name="CLUSTER BY")
    with pytest.raises(InvalidCommitError, match=r"clustered by c1\.c2, which is no column of its schema"):
        first.commit([nested(S_Y)], name="DROP COLUMNS")
    gone = msgspec.structs.replace(CLUSTER_BY_S_X, removed=True)
    assert first.commit([nested(S_Y), gone], name="DROP COLUMNS").snapshot.domain_metadata == {}


def test_a_contradiction_that_another_writer_left_does_not_stop_everything() -> None:
    first = created(protocol=CLUSTERED, described=metadata(NARROWER))
    snapshot = rival_of(first)
    snapshot.store.put(
        "_delta_log/00000000000000000001.json",
        json.dumps(
            {
                "domainMetadata": {
                    "domain": "delta.clustering",
                    "configuration": cluster_by("value").configuration,
                    "removed": False,
                }
            }
        ).encode(),
    )
    assert first.commit([with_properties(metadata(NARROWER), checkpointInterval="20")]).version == 2


ROW_TRACKING = features(*BASE, "rowTracking", "domainMetadata")
VECTORS = features(*BASE, "deletionVectors")


def enabling(name: str, value: str = "true") -> Metadata:
    return metadata(properties={f"delta.{name}": value})


@pytest.mark.parametrize("with_files", [False, True])
def test_row_tracking_is_not_enabled_beside_a_file_without_row_ids(with_files: bool) -> None:
    file = msgspec.structs.replace(add("old"), base_row_id=0, default_row_commit_version=0)
    first = created(*([file] if with_files else []))
    ours = first.begin("SET TBLPROPERTIES")
    rival_of(first).append(add("w"))
    with pytest.raises(ConcurrentAppendException, match="w has no row ids") as raised:
        ours.commit([ROW_TRACKING, enabling("enableRowTracking")])
    assert raised.value.reason is ConflictReason.RULED_OUT


def test_row_tracking_is_enabled_beside_files_that_have_row_ids() -> None:
    first = created(protocol=ROW_TRACKING)
    ours = first.begin("SET TBLPROPERTIES")
    rival_of(first).append(add("w"))
    assert ours.commit([enabling("enableRowTracking")]).version == 2
    assert lint(first.store) == []


def test_a_file_that_is_gone_again_is_no_conflict() -> None:
    first = created()
    ours = first.begin("SET TBLPROPERTIES")
    rival = rival_of(first)
    rival.append(add("w"))
    rival.commit([remove(add("w"))], name="DELETE")
    assert ours.commit([ROW_TRACKING, enabling("enableRowTracking")]).version == 3


MAPPED = StructType(
    [
        StructField(
            field.name,
            field.dataType,
            metadata={"delta.columnMapping.id": number, "delta.columnMapping.physicalName": field.name},
        )
        for number, field in enumerate(SCHEMA.fields, start=1)
    ]
)
MAPS = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "3"}


def test_iceberg_compatibility_is_not_enabled_beside_an_unchecked_file() -> None:
    first = created(protocol=features(*BASE, "columnMapping"), described=metadata(MAPPED, properties=MAPS))
    ours = first.begin("SET TBLPROPERTIES")
    rival_of(first).append(add("w"))
    compatible = metadata(MAPPED, properties={**MAPS, "delta.enableIcebergCompatV2": "true"})
    with pytest.raises(ConcurrentAppendException, match="version 2 of Iceberg compatibility"):
        ours.commit([features(*BASE, "columnMapping", "icebergCompatV2"), compatible])


def hiding(first: Writer, path: str) -> None:
    file = add(path)
    rival_of(first).commit([remove(file), add(path, vector="v")], name="DELETE")


def test_symlink_manifests_are_not_enabled_beside_a_new_vector() -> None:
    first = created(add("a"), protocol=VECTORS)
    ours = first.begin("SET TBLPROPERTIES")
    hiding(first, "a")
    with pytest.raises(ConcurrentAppendException, match="symlink manifests"):
        ours.commit([enabling("compatibility.symlinkFormatManifest.enabled")])


def test_vectors_are_not_dropped_beside_a_new_vector() -> None:
    """Also where the statement that drops the feature rules nothing out itself."""
    first = created(add("a"), protocol=VECTORS)
    ours = first.begin("DROP FEATURE")
    hiding(first, "a")
    with pytest.raises(ConcurrentAppendException, match="a hides rows by a deletion vector"):
        ours.commit([features(*BASE)])


def test_columns_are_added_beside_files_that_came() -> None:
    first = created()
    ours = first.begin("ADD COLUMNS")
    rival_of(first).append(add("w"))
    assert ours.commit([metadata(StructType([*SCHEMA.fields, StructField("more", LongType())]))]).version == 2
