"""Manifests in the symlink format, written on demand and after commits."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pytest

from anabranch.errors.other_formats import ManifestLineError, ManifestsHideVectorsError, ManifestsNeedPlainColumnsError
from anabranch.protocol.actions import AddFile, RemoveFile
from anabranch.storage.memory_store import MemoryStore
from anabranch.transactions.commit.after_commit import write_manifests
from transactions.table_on_memory import PLAIN, Writer, add, features, metadata, remove, writer

ENABLED = {"delta.compatibility.symlinkFormatManifest.enabled": "true"}
ROOT = "_symlink_format_manifest"


def made(*files: AddFile, by: tuple[str, ...] = ("date",), properties: Mapping[str, str] | None = None) -> Writer:
    one = writer(MemoryStore("s3a://bucket/a table"))
    one.commit([PLAIN, metadata(partition_by=by, properties=properties), *files])
    return one


def manifests(one: Writer) -> dict[str, list[str]]:
    """The lines of each manifest, by path below their folder."""
    manifests = one.store.list_tree(ROOT)
    return {file.path.removeprefix(f"{ROOT}/"): one.store.read(file.path).decode().splitlines() for file in manifests}


def generate(one: Writer) -> dict[str, list[str]]:
    write_manifests(one.store, one.table.snapshots.latest())
    return manifests(one)


def test_one_file_a_partition_with_absolute_plain_paths() -> None:
    """Null has a folder of its own; what Hive escapes in folders is escaped, and URIs are decoded."""
    one = made(
        add("date=a/2", date="a"),
        add("date=a/1%20x", date="a"),
        add("date=b%253Ac/3", date="b:c"),
        add("x", date=""),
        add("y", date=""),
    )
    root = "s3a://bucket/a table"
    assert generate(one) == {
        "date=a/manifest": [f"{root}/date=a/1 x", f"{root}/date=a/2"],
        "date=b%3Ac/manifest": [f"{root}/date=b%3Ac/3"],
        "date=__HIVE_DEFAULT_PARTITION__/manifest": [f"{root}/x", f"{root}/y"],
    }


def test_local_paths_say_so() -> None:
    one = writer(MemoryStore("/tables/t"))
    one.commit([PLAIN, metadata(), add("x")])
    assert generate(one) == {"manifest": ["file:/tables/t/x"]}


@pytest.mark.parametrize("ending", ["%0A", "%0D", "%0D%0A", "%C2%85", "%E2%80%A8", "%0B", "%0C", "%1E"])
def test_a_path_cannot_add_a_line(ending: str, caplog: pytest.LogCaptureFixture) -> None:
    """Covers attack "paths": a reader of the manifest would open the path on the second line."""
    one = made(add(f"x{ending}file:/etc/passwd"), by=(), properties=ENABLED)
    with pytest.raises(ManifestLineError, match="line break") as refused:
        generate(one)
    assert "\n" not in str(refused.value)
    with caplog.at_level(logging.WARNING):
        one.append(add("y"))
    assert "line break" in caplog.text
    assert manifests(one) == {}


def test_a_table_without_files_has_an_empty_manifest_or_none() -> None:
    assert generate(made(by=())) == {"manifest": []}
    assert generate(made(by=("date",))) == {}


def test_stale_manifests_go() -> None:
    """Those of partitions that are gone, and those of another partitioning."""
    one = made(add("x", date="a"))
    for stale in ("manifest", "date=b/manifest", "other=1/manifest"):
        one.store.put(f"{ROOT}/{stale}", b"old\n")
    assert list(generate(one)) == ["date=a/manifest"]


def test_vectors_and_column_mapping_are_refused() -> None:
    """Nothing is written then."""
    one = writer()
    one.commit([features("deletionVectors"), metadata(), add("x", vector="v"), add("y")])
    with pytest.raises(ManifestsHideVectorsError, match="1 files"):
        generate(one)
    mapped = writer()
    named = metadata(properties={"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "3"})
    mapped.commit([features("columnMapping"), named])
    with pytest.raises(ManifestsNeedPlainColumnsError):
        generate(mapped)
    assert manifests(one) == manifests(mapped) == {}


def test_a_commit_updates_the_partitions_that_it_changed() -> None:
    """And no others; a table that has no manifest yet, or new metadata, gets them all."""
    first, second = add("1", date="a"), add("2", date="b")
    one = made(first, second, properties=ENABLED)
    assert sorted(manifests(one)) == ["date=a/manifest", "date=b/manifest"]
    one.store.put(f"{ROOT}/date=b/manifest", b"untouched\n")
    one.commit([add("3", date="a"), add("4", date="")])
    assert {name: len(lines) for name, lines in manifests(one).items()} == {
        "date=a/manifest": 2,
        "date=b/manifest": 1,
        "date=__HIVE_DEFAULT_PARTITION__/manifest": 1,
    }
    assert manifests(one)["date=b/manifest"] == ["untouched"]
    one.commit([remove(second)])
    assert "date=b/manifest" not in manifests(one)
    one.store.put(f"{ROOT}/date=z/manifest", b"stale\n")
    one.commit([metadata(partition_by=("date",), properties={**ENABLED, "more": "1"})])
    assert sorted(manifests(one)) == ["date=__HIVE_DEFAULT_PARTITION__/manifest", "date=a/manifest"]


def test_a_tombstone_without_partition_values_updates_all_partitions() -> None:
    first, second = add("1", date="a"), add("2", date="b")
    one = made(first, second, properties=ENABLED)
    one.store.put(f"{ROOT}/date=b/manifest", b"stale\n")
    one.commit([RemoveFile(path="1", deletion_timestamp=0, data_change=True)])
    assert list(manifests(one)) == ["date=b/manifest"]
    assert manifests(one)["date=b/manifest"] != ["stale"]


def test_a_manifest_that_cannot_be_written_only_logs(caplog: pytest.LogCaptureFixture) -> None:
    """The commit is in the log."""
    one = writer()
    with caplog.at_level(logging.WARNING):
        one.commit([features("deletionVectors"), metadata(properties=ENABLED), add("x", vector="v")])
    assert "symlink manifest failed" in caplog.text
    assert one.table.snapshots.latest().version == 0


def test_without_the_property_nothing_is_written() -> None:
    assert manifests(made(add("x", date="a"))) == {}
