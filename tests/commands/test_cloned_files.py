"""How the log of a clone names files and vectors of its source, and how the clone is described."""

from __future__ import annotations

import json
import random
import uuid

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import LongType, StructField, StructType

from anabranch.commands.clone.clone_definition import (
    CloneDefinition,
    CloneSource,
    absolute_uri,
    clone_definition,
    cloned_files,
)
from anabranch.commands.clone.clone_table import PreparedClone, planned_clone
from anabranch.deletion_vectors.vector_descriptors import encoded_location, vector_path
from anabranch.errors.protocol import ReadOnlyPropertyError, UnsafePathError
from anabranch.errors.schema import ColumnMappingChangeError
from anabranch.exceptions import DeltaConcurrentModificationException, ProtocolChangedException
from anabranch.log.file_columns import adds_of_table, table_of_adds
from anabranch.protocol.actions import AddFile, DeletionVectorDescriptor, DomainMetadata, Metadata, Protocol
from anabranch.protocol.data_paths import decode_path, encode_path
from anabranch.protocol.features import supported_features
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transactions.proposed_commit import Operation
from transactions.log_linter import lint
from transactions.table_on_memory import (
    Writer,
    add,
    created,
    domain,
    features,
    metadata,
    rival_of,
    with_properties,
)
from transactions.table_on_memory import writer as blank


def cloned(*adds: AddFile, root: str = "/src", folders: tuple[str, ...] = (), target: str = "/clone") -> list[AddFile]:
    table = cloned_files(table_of_adds(adds), source_root=root, folders=folders, target_root=target)
    return adds_of_table(table, data_change=True)


@pytest.mark.parametrize(
    ("root", "uri", "expected"),
    [
        ("/src", "a.parquet", "file:/src/a.parquet"),
        ("/a folder%", "p=1%2520x/a%20b", "file:/a%20folder%25/p=1%2520x/a%20b"),
        ("s3a://bucket/t x", "a", "s3a://bucket/t%20x/a"),
        ("s3://bucket", "a", "s3://bucket/a"),
        ("abfss://c@h.net/t", "./a//b", "abfss://c@h.net/t/a/b"),
        ("memory:/src", "a", "memory:/src/a"),
        ("/src", "file:///src/d/a", "file:/src/d/a"),
        ("/src", "/src/d/a", "file:/src/d/a"),
        ("/src", "file:/older/a%20b", "file:/older/a%20b"),
    ],
)
def test_data_files_are_named_by_where_they_are(root: str, uri: str, expected: str) -> None:
    (file,) = cloned(add(uri), root=root, folders=("/older",))
    assert file.path == expected


@settings(max_examples=80, deadline=None)
@given(st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0\\"), min_size=1, max_size=12))
def test_any_name_leads_to_the_same_file(name: str) -> None:
    plain = "/".join(part for part in f"d/{name}".split("/") if part not in {"", ".", ".."})
    if plain == "d" or "_delta_log" in plain.split("/"):
        return  # no file, or one of a log, which is refused
    (file,) = cloned(add(encode_path(plain)), root="/src é %41")
    assert decode_path(file.path, table_root="/clone", allowed_prefixes=["/src é %41"]) == f"/src é %41/{plain}"


def test_files_where_the_source_may_not_reach_do_not_get_into_the_clone() -> None:
    for path in ("file:/etc/passwd", "../x", "http://h/x", "file:/older/_delta_log/x.parquet"):
        with pytest.raises(UnsafePathError):
            cloned(add(path), folders=("/older",))


def test_files_in_the_folder_of_the_new_table_keep_a_relative_path() -> None:
    """A clone that is cloned back: the table had these very files before."""
    (file,) = cloned(add("file:/clone/p=a%2520b/f"), folders=("/clone",))
    assert file.path == "p=a%2520b/f"


def test_row_ids_stay_behind_and_all_else_is_kept() -> None:
    original = msgspec.structs.replace(
        add("a", date="x"), base_row_id=7, default_row_commit_version=3, tags={"t": "1"}, clustering_provider="c"
    )
    (file,) = cloned(original)
    expected = msgspec.structs.replace(
        original, path="file:/src/a", base_row_id=None, default_row_commit_version=None, data_change=True
    )
    assert file == expected


def test_vectors_are_named_by_where_they_are() -> None:
    file_id = uuid.uuid4()
    own = DeletionVectorDescriptor(
        storage_type="u",
        path_or_inline_dv=encoded_location(file_id, prefix="ab"),
        offset=1,
        size_in_bytes=40,
        cardinality=2,
    )
    inline = DeletionVectorDescriptor(storage_type="i", path_or_inline_dv="x", size_in_bytes=1, cardinality=1)
    older = msgspec.structs.replace(own, storage_type="p", path_or_inline_dv="file:/older/x%20y.bin")
    files = [
        msgspec.structs.replace(add(name), deletion_vector=vector)
        for name, vector in (("a", own), ("b", inline), ("c", older), ("d", None))
    ]
    vectors = [file.deletion_vector for file in cloned(*files, root="/src x", folders=("/older",))]
    path = f"file:/src%20x/ab/deletion_vector_{file_id}.bin"
    assert vectors[0] == msgspec.structs.replace(own, storage_type="p", path_or_inline_dv=path)
    assert vector_path(vectors[0], table_root="/clone", allowed_prefixes=["/src x"]).startswith("/src x/ab/")
    assert vectors[1:] == [inline, older, None]


def test_an_absolute_uri_is_spelled_as_java_does() -> None:
    assert absolute_uri("/a b%/é") == "file:/a%20b%25/é"
    assert absolute_uri("s3a://b/x y") == "s3a://b/x%20y"


# How a clone is described.

ALL = features("deletionVectors", "clustering", "domainMetadata", "rowTracking", "inCommitTimestamp", "columnMapping")


def source(described: Metadata, protocol: Protocol = ALL, **domains: DomainMetadata) -> CloneSource:
    return CloneSource(
        name="s",
        version=4,
        root="/src",
        folders=(),
        metadata=described,
        protocol=protocol,
        domains={action.domain: action for action in domains.values()},
        files=table_of_adds([]),
    )


def target(described: Metadata, protocol: Protocol = ALL, *domains: DomainMetadata) -> Snapshot:
    return created(add("a"), *domains, protocol=protocol, described=described).table.snapshots.latest()


def defined(clone_source: CloneSource, snapshot: Snapshot | None = None, **overrides: str) -> CloneDefinition:
    named = {name.replace("_", "."): value for name, value in overrides.items()}
    return clone_definition(clone_source, snapshot, named, label="t", random=random.Random(1))


def test_a_new_clone_is_like_its_source_under_an_id_of_its_own() -> None:
    described = msgspec.structs.replace(
        metadata(partition_by=("date",), properties={"a": "1", "b": "2"}), name="n", description="d"
    )
    clone = defined(source(described), b="3", c="4").metadata
    assert clone.id != described.id
    assert (clone.name, clone.description) == (None, None)
    assert json.loads(clone.schema_string) == json.loads(described.schema_string)
    assert clone.partition_columns == ["date"]
    assert clone.configuration == {"a": "1", "b": "3", "c": "4"}


def test_what_a_table_notes_of_its_own_history_and_files_stays_with_it() -> None:
    of_one = {
        "delta.rowTracking.materializedRowIdColumnName": "_row-id-col-1",
        "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-commit-version-col-1",
        "delta.inCommitTimestampEnablementVersion": "5",
        "delta.inCommitTimestampEnablementTimestamp": "1000",
        "delta.requireCheckpointProtectionBeforeVersion": "9",
    }
    on = {"delta.enableRowTracking": "true", "delta.enableInCommitTimestamps": "true"}
    new = defined(source(metadata(properties={**on, **of_one}))).metadata.configuration
    assert new.keys() == {*on, *list(of_one)[:2]}
    assert all(new[name] != of_one[name] for name in list(of_one)[:2])
    own = {name: f"own {number}" for number, name in enumerate(list(of_one)[:2])} | dict.fromkeys(list(of_one)[2:], "7")
    replaced = defined(source(metadata(properties={**on, **of_one})), target(metadata(properties={**on, **own})))
    assert replaced.metadata.configuration == {**on, **own}


def test_a_table_that_becomes_a_clone_keeps_its_id_and_its_marks() -> None:
    identity = {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.allowExplicitInsert": False}
    marks = [
        metadata(StructType([StructField("k", LongType(), True, {**identity, "delta.identity.highWaterMark": mark})]))
        for mark in (5, 50)
    ]
    there = msgspec.structs.replace(marks[1], description="mine")
    clone = defined(source(marks[0]), target(there)).metadata
    assert (clone.id, clone.description) == (there.id, "mine")
    assert json.loads(clone.schema_string)["fields"][0]["metadata"]["delta.identity.highWaterMark"] == 50


def test_the_protocol_is_the_sources_with_what_the_properties_need() -> None:
    plain = Protocol(min_reader_version=1, min_writer_version=2)
    assert defined(source(metadata(), plain)).protocol == plain
    wider = defined(source(metadata(), plain), delta_enableDeletionVectors="true").protocol
    assert supported_features(wider) == supported_features(plain) | {"deletionVectors"}
    with_feature = defined(source(metadata(), plain), delta_feature_clustering="supported").protocol
    assert {"clustering", "domainMetadata"} <= supported_features(with_feature)
    both = defined(source(metadata(), plain), target(metadata(), features("rowTracking", "domainMetadata"))).protocol
    assert supported_features(both) >= {"rowTracking", "invariants"}


def test_the_mapping_of_columns_is_that_of_the_files() -> None:
    mapped = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "3"}
    with pytest.raises(ColumnMappingChangeError):
        defined(source(metadata()), delta_columnMapping_mode="name")
    with pytest.raises(ColumnMappingChangeError):
        defined(source(metadata()), target(metadata(properties=mapped)))
    with pytest.raises(ReadOnlyPropertyError):
        defined(source(metadata()), delta_columnMapping_maxColumnId="9")


def test_clustering_is_the_sources_and_other_domains_stay_behind() -> None:
    by_id = domain("delta.clustering", '{"clusteringColumns":[["id"]]}')
    by_value = domain("delta.clustering", '{"clusteringColumns":[["value"]]}')
    app = domain("app", "1")
    assert defined(source(metadata(), c=by_id, a=app)).domains == (by_id,)
    assert defined(source(metadata(), c=by_id), target(metadata(), ALL, by_value)).domains == (by_id,)
    assert defined(source(metadata(), c=by_id), target(metadata(), ALL, by_id, app)).domains == ()
    (gone,) = defined(source(metadata()), target(metadata(), ALL, by_value)).domains
    assert gone.removed


# A table that becomes a clone while others write to it.


def cloning(writer: Writer) -> PreparedClone:
    transaction = writer.table.begin(Operation(name="CLONE"))
    if transaction.snapshot is not None:
        transaction.record_whole_table()
    definition = clone_definition(source(metadata()), transaction.snapshot, {}, label="t", random=random.Random(2))
    return planned_clone(transaction, definition, cloned(add("x")), now_ms=0)


@pytest.mark.parametrize("winner", ["append", "compaction", "clustering", "property"])
def test_any_commit_that_lands_first_is_a_conflict(winner: str) -> None:
    writer = created(add("a"), protocol=ALL, described=metadata())
    ours, rival = cloning(writer), rival_of(writer)
    if winner == "append":
        rival.append(add("b"))
    elif winner == "compaction":
        rival.optimize([add("a")], [add("a2")])
    elif winner == "clustering":
        rival.commit([domain("delta.clustering", "{}")])
    else:
        rival.commit([with_properties(metadata(), checkpointInterval="7")])
    with pytest.raises(DeltaConcurrentModificationException):
        ours.commit()


def test_two_that_make_one_table_do_not_mix() -> None:
    writer = blank()
    ours = cloning(writer)
    rival_of(writer).commit([ALL, metadata(), add("theirs")])
    with pytest.raises(ProtocolChangedException):
        ours.commit()


def test_a_clone_takes_the_place_of_all_files_but_those_it_has_itself() -> None:
    shared = msgspec.structs.replace(add("a"), path="file:/src/x")
    writer = created(add("a"), shared, protocol=ALL, described=metadata())
    done = cloning(writer).commit()
    assert done.committed.snapshot.files.table["path"].to_pylist() == ["file:/src/x"]
    assert (done.metrics["numRemovedFiles"], done.metrics["sourceNumOfFiles"]) == (1, 1)
    assert lint(writer.store) == []
