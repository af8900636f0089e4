"""What shows that a table uses a feature, and what becomes of it without."""

from __future__ import annotations

import json
from collections.abc import Callable

import msgspec
import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
)

from anabranch.commands.alter.column_mapping_removal import unmapped_clustering, unmapped_metadata
from anabranch.commands.drop_feature.drop_feature import downgrade
from anabranch.commands.drop_feature.feature_registry import REMOVALS
from anabranch.commands.optimize.footer_columns import has_other_types
from anabranch.protocol.actions import Action, DomainMetadata, Metadata, Protocol, RemoveFile
from anabranch.protocol.features import FEATURES, FeatureKind
from anabranch.schema.column_mapping import ColumnMappingMode, assign_ids_and_names
from anabranch.schema.schema_evolution import record_type_changes
from anabranch.schema.serialization import schema_string
from anabranch.snapshot.snapshot import Snapshot
from transactions.table_on_memory import add, created, domain, features, metadata, vector_of

BASE = ("appendOnly", "invariants")
INT = StructType([StructField("a", IntegerType())])
LONG = StructType([StructField("a", LongType())])


def snapshot(*actions: Action, **properties: str) -> Snapshot:
    described = metadata(properties={"delta." + name.replace("_", "."): value for name, value in properties.items()})
    protocol = features(*BASE, "deletionVectors", "domainMetadata", "rowTracking", "clustering", "checkConstraints")
    made = created(*actions, protocol=protocol, described=described)  # type: ignore[arg-type]
    return made.table.snapshots.latest()


def vector() -> Action:
    return add("a", vector="v")


def with_ids() -> Action:
    return msgspec.structs.replace(add("a"), base_row_id=7)


def widened() -> Metadata:
    return msgspec.structs.replace(metadata(), schema_string=schema_string(record_type_changes(LONG, INT)))


def properties(**values: str) -> Metadata:
    return metadata(properties={"delta." + name.replace("_", "."): value for name, value in values.items()})


SUSPENDED = {"rowTrackingSuspended": "true"}


@pytest.mark.parametrize(
    ("feature", "used", "unused"),
    [
        ("checkConstraints", snapshot(constraints_small="id < 5"), snapshot()),
        ("deletionVectors", snapshot(vector()), snapshot(add("a"))),
        ("deletionVectors", snapshot(enableDeletionVectors="true"), snapshot(enableDeletionVectors="false")),
        ("columnMapping", snapshot(columnMapping_mode="id"), snapshot(columnMapping_mode="none")),
        ("typeWidening", snapshot(enableTypeWidening="true"), snapshot()),
        ("typeWidening-preview", snapshot(enableTypeWidening="true"), snapshot()),
        ("v2Checkpoint", snapshot(checkpointPolicy="v2"), snapshot(checkpointPolicy="classic")),
        ("rowTracking", snapshot(), snapshot(**SUSPENDED)),
        ("rowTracking", snapshot(with_ids(), **SUSPENDED), snapshot(add("a"), **SUSPENDED)),
        ("domainMetadata", snapshot(domain("app")), snapshot()),
    ],
)
def test_versions_that_use_a_feature(feature: str, used: Snapshot, unused: Snapshot) -> None:
    in_version = REMOVALS[feature].used_in_version
    assert in_version(used)
    assert in_version(unused) is None


@pytest.mark.parametrize(
    ("feature", "used", "unused"),
    [
        ("checkConstraints", properties(constraints_small="id < 5"), properties(appendOnly="true")),
        ("deletionVectors", vector(), add("a")),
        ("deletionVectors", RemoveFile(path="a", data_change=True, deletion_vector=vector_of("v")), with_ids()),
        ("deletionVectors", properties(enableDeletionVectors="true"), metadata()),
        ("columnMapping", properties(columnMapping_mode="name"), metadata()),
        ("typeWidening", widened(), metadata()),
        ("typeWidening", properties(enableTypeWidening="true"), metadata()),
        ("v2Checkpoint", properties(checkpointPolicy="v2"), metadata()),
        ("rowTracking", with_ids(), add("a")),
        ("rowTracking", properties(enableRowTracking="true"), metadata()),
        ("inCommitTimestamp", properties(enableInCommitTimestamps="true"), metadata()),
        ("domainMetadata", domain("app"), msgspec.structs.replace(domain("app"), removed=True)),
        ("clustering", domain("delta.clustering"), domain("app")),
    ],
)
def test_actions_that_use_a_feature(feature: str, used: Action, unused: Action) -> None:
    in_action: Callable[[Action], str | None] = REMOVALS[feature].used_in_action
    assert in_action(used)
    assert in_action(unused) is None


def test_history_is_seen_to_where_readers_need_the_feature() -> None:
    """Each feature that readers must know leaves something in old versions, except one that requires nothing of them."""
    reading = {name for name in REMOVALS if FEATURES[name].kind is FeatureKind.READER_WRITER}
    assert {name for name, row in REMOVALS.items() if row.used_in_history} == reading - {"vacuumProtocolCheck"}
    in_history = REMOVALS["typeWidening"].used_in_history
    assert in_history is not None
    assert in_history(widened())
    assert in_history(properties(enableTypeWidening="true")) is None


def test_the_commit_that_drops_a_feature() -> None:
    mark = DomainMetadata(domain="delta.rowTracking", configuration='{"rowIdHighWaterMark":9}', removed=False)
    before = snapshot(mark, rowTracking_materializedRowIdColumnName="_x", appendOnly="true", **SUSPENDED)
    protocol, gone, described = downgrade(before, "rowTracking", protects_history=False)
    assert isinstance(protocol, Protocol)
    assert "rowTracking" not in (protocol.writer_features or ())
    assert gone == msgspec.structs.replace(mark, removed=True)
    assert isinstance(described, Metadata)
    assert described.configuration == {"delta.appendOnly": "true"}
    protocol, described = downgrade(before, "deletionVectors", protects_history=True)
    assert isinstance(protocol, Protocol)
    assert isinstance(described, Metadata)
    assert (protocol.min_reader_version, protocol.reader_features) == (1, None)
    assert "checkpointProtection" in (protocol.writer_features or ())
    assert described.configuration["delta.requireCheckpointProtectionBeforeVersion"] == "1"


def test_metadata_without_mapping() -> None:
    """Comments, nullability and everything else that is said of a column stays, at every depth."""
    descriptions = {"comment": "c", "delta.generationExpression": "1"}
    inner = StructType([StructField("x", LongType(), nullable=False, metadata={"comment": "x"})])
    plain = StructType([StructField("id", LongType(), metadata=descriptions), StructField("s", ArrayType(inner))])
    mapped, highest = assign_ids_and_names(plain, 0, keep_names=False, new_name=iter(("p", "q", "r")).__next__)
    configuration: dict[str, str | None] = {
        "delta.columnMapping.mode": "name",
        "delta.columnMapping.maxColumnId": str(highest),
        "k": "v",
    }
    described = msgspec.structs.replace(
        metadata(), schema_string=schema_string(mapped), configuration=configuration, partition_columns=["id"]
    )
    unset = unmapped_metadata(described, unset=True)
    assert json.loads(unset.schema_string) == json.loads(schema_string(plain))
    assert (unset.configuration, unset.partition_columns) == ({"k": "v"}, ["id"])
    assert unmapped_metadata(described, unset=False).configuration == {"k": "v", "delta.columnMapping.mode": "none"}
    clustered = json.dumps({"clusteringColumns": [["p"], ["r", "element", "q"]], "domainName": "delta.clustering"})
    writer = created(
        domain("delta.clustering", clustered),  # type: ignore[arg-type]
        protocol=features(*BASE, "columnMapping", "clustering", "domainMetadata"),
        described=msgspec.structs.replace(described, partition_columns=[]),
    )
    changed = unmapped_clustering(writer.table.snapshots.latest())
    assert changed is not None
    assert json.loads(changed.configuration)["clusteringColumns"] == [["id"], ["s", "element", "x"]]


def test_files_of_other_types() -> None:
    table = StructType(
        [
            StructField("a", LongType()),
            StructField("d", DecimalType(10, 2)),
            StructField("t", TimestampNTZType()),
            StructField("s", StringType()),
            StructField("m", MapType(IntegerType(), ArrayType(StructType([StructField("x", LongType())])))),
        ]
    )

    def other(**columns: pa.DataType) -> bool:
        stored = pa.schema([pa.field(name, kind) for name, kind in columns.items()])
        return has_other_types(stored, table, ColumnMappingMode.NONE)

    def nested(kind: pa.DataType) -> pa.DataType:
        return pa.map_(pa.int32(), pa.list_(pa.struct([pa.field("x", kind)])))

    assert not other(a=pa.int64(), d=pa.decimal128(10, 2), t=pa.timestamp("us"), s=pa.large_string())
    assert not other(m=nested(pa.int64()), gone=pa.int8())
    for name, kind in {
        "a": pa.int32(),
        "A": pa.int8(),
        "d": pa.decimal128(5, 2),
        "t": pa.date32(),
        "m": nested(pa.int16()),
    }.items():
        assert other(**{name: kind}), (name, kind)
    narrow = StructType([StructField("a", ByteType())])
    assert not has_other_types(pa.schema([pa.field("a", pa.int8())]), narrow, ColumnMappingMode.NONE)
