"""What goes back with RESTORE, and what never does."""

from __future__ import annotations

import json

import msgspec
import pytest
from pyspark.sql.types import LongType, StructField, StructType

from anabranch.commands.restore.restore_definition import RestoredDefinition, restored_definition
from anabranch.protocol.actions import DomainMetadata, Metadata, Protocol
from anabranch.protocol.features import supported_features
from anabranch.snapshot.snapshot import Snapshot
from transactions.table_on_memory import Writer, add, created, domain, features, metadata

ALL = features("deletionVectors", "clustering", "domainMetadata", "identityColumns", "inCommitTimestamp", "rowTracking")


def restored(
    then: Metadata,
    now: Metadata,
    *,
    protocols: tuple[Protocol, Protocol] = (ALL, ALL),
    domains: tuple[DomainMetadata | None, DomainMetadata | None] = (None, None),
    downgrade: bool = False,
) -> RestoredDefinition:
    writer = created(add("a"), protocol=protocols[0], described=then)
    existing = [action for action in domains if action is not None]
    if domains[0] is not None:
        writer.commit([domains[0]])
    before = writer.table.snapshots.latest()
    writer.commit([now, *([] if protocols[0] == protocols[1] else [protocols[1]]), *existing[-1:]])
    return restored_definition(writer.table.snapshots.latest(), before, may_downgrade=downgrade)


def test_schema_partitioning_description_and_properties_go_back() -> None:
    then = msgspec.structs.replace(metadata(properties={"delta.appendOnly": "false", "mine": "1"}), description="old")
    wider = StructType([StructField("id", LongType()), StructField("new", LongType())])
    now = metadata(wider, properties={"mine": "2", "other": "3"}, partition_by=("id",))
    assert restored(then, now).metadata == then


def test_column_ids_never_sink() -> None:
    mapped = {"delta.columnMapping.mode": "name"}
    then = metadata(properties={**mapped, "delta.columnMapping.maxColumnId": "3"})
    now = metadata(properties={**mapped, "delta.columnMapping.maxColumnId": "7"})
    protocols = (features("columnMapping"), features("columnMapping"))
    assert restored(then, now, protocols=protocols).metadata.configuration["delta.columnMapping.maxColumnId"] == "7"
    assert restored(now, then, protocols=protocols).metadata.configuration["delta.columnMapping.maxColumnId"] == "7"


def test_mapping_that_was_off_goes_off() -> None:
    now = metadata(properties={"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "7"})
    protocols = (features("columnMapping"), features("columnMapping"))
    assert restored(metadata(), now, protocols=protocols).metadata.configuration == {}


def identity(mark: int | None, *, step: int = 1, name: str = "k") -> Metadata:
    of = {"delta.identity.start": 1, "delta.identity.step": step, "delta.identity.allowExplicitInsert": False}
    if mark is not None:
        of["delta.identity.highWaterMark"] = mark
    return metadata(StructType([StructField(name, LongType(), True, of)]))


@pytest.mark.parametrize(
    ("then", "now", "step", "expected"),
    [(3, 9, 1, 9), (9, 3, 1, 9), (None, 4, 1, 4), (4, None, 1, 4), (-3, -9, -1, -9), (None, None, 1, None)],
)
def test_identity_columns_go_on_where_they_were(
    then: int | None, now: int | None, step: int, expected: int | None
) -> None:
    definition = restored(identity(then, step=step), identity(now, step=step)).metadata
    (field,) = json.loads(definition.schema_string)["fields"]
    assert field["metadata"].get("delta.identity.highWaterMark") == expected


def test_an_identity_column_that_is_gone_now_comes_back_with_its_own_mark() -> None:
    definition = restored(identity(5), metadata()).metadata
    assert json.loads(definition.schema_string)["fields"][0]["metadata"]["delta.identity.highWaterMark"] == 5


def test_the_start_of_in_commit_timestamps_is_that_of_the_existing_history() -> None:
    on = {"delta.enableInCommitTimestamps": "true"}
    notes = ("delta.inCommitTimestampEnablementVersion", "delta.inCommitTimestampEnablementTimestamp")
    then = metadata(properties={**on, notes[0]: "3", notes[1]: "1000"})
    now = metadata(properties={**on, notes[0]: "20", notes[1]: "5000"})
    definition = restored(then, now).metadata.configuration
    assert (definition[notes[0]], definition[notes[1]]) == ("20", "5000")
    assert notes[0] not in restored(then, metadata(properties=on)).metadata.configuration
    assert restored(metadata(), now).metadata.configuration == {}


def test_row_ids_keep_their_columns_and_their_mark() -> None:
    """The mark is moved by each commit; RESTORE says nothing of it."""
    on = {"delta.enableRowTracking": "true"}
    column = "delta.rowTracking.materializedRowIdColumnName"
    ids = domain("delta.rowTracking", '{"rowIdHighWaterMark":99}')
    definition = restored(metadata(), metadata(properties={**on, column: "_row-id-col-1"}), domains=(ids, ids))
    assert definition.metadata.configuration == {column: "_row-id-col-1"}
    assert definition.domains == ()


def test_the_protocol_keeps_what_either_version_has_unless_it_may_sink() -> None:
    then, now = features("deletionVectors", "rowTracking", "domainMetadata"), features("deletionVectors", "clustering")
    union = restored(metadata(), metadata(), protocols=(then, now)).protocol
    assert supported_features(union) == supported_features(then) | supported_features(now)
    assert restored(metadata(), metadata(), protocols=(then, now), downgrade=True).protocol == then


def test_a_protocol_that_lacks_nothing_is_not_written_again() -> None:
    legacy = Protocol(min_reader_version=1, min_writer_version=2)
    writer = created(add("a"), protocol=legacy)
    before = writer.table.snapshots.latest()
    writer.commit([ALL])
    now = writer.table.snapshots.latest()
    assert restored_definition(now, before, may_downgrade=False).changes(now) != []
    writer = created(add("a"), protocol=ALL)
    assert unchanged(writer) == []


def unchanged(writer: Writer) -> list[object]:
    before = writer.table.snapshots.latest()
    writer.append(add("b"))
    now: Snapshot = writer.table.snapshots.latest()
    return list(restored_definition(now, before, may_downgrade=False).changes(now))


def clustered(*columns: str) -> DomainMetadata:
    return domain("delta.clustering", json.dumps({"clusteringColumns": [[name] for name in columns]}))


def test_clustering_goes_back_and_other_domains_stay() -> None:
    assert restored(metadata(), metadata(), domains=(clustered("id"), clustered("value"))).domains == (clustered("id"),)
    (none,) = restored(metadata(), metadata(), domains=(None, clustered("id"))).domains
    assert json.loads(none.configuration)["clusteringColumns"] == []
    assert restored(metadata(), metadata(), domains=(domain("app", "1"), domain("app", "2"))).domains == ()


def test_protected_history_stays_protected() -> None:
    name = "delta.requireCheckpointProtectionBeforeVersion"
    definition = restored(metadata(properties={name: "3"}), metadata(properties={name: "8"}))
    assert definition.metadata.configuration[name] == "8"
    assert name not in restored(metadata(properties={name: "3"}), metadata()).metadata.configuration
