"""`fsck` names exactly what is wrong with a table, and changes nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.tables_in_folders import TableInFolder

Run = Callable[..., Any]
Golden = Callable[[str], Path]


def kinds(document: Any) -> list[tuple[str, str | None]]:
    return [(problem["kind"], problem["path"]) for problem in document["problems"]]


def fingerprint(folder: Path) -> dict[str, str]:
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.rglob("*") if file.is_file()}


def check(run: Run, folder: Path) -> Any:
    """The document of a check, which must not have changed any file."""
    before = fingerprint(folder)
    outcome = run("fsck", folder, "--json")
    assert fingerprint(folder) == before
    assert outcome.exit_code == (0 if outcome.document["clean"] else 1)
    return outcome.document


def test_a_sound_table_is_clean(run: Run, table: TableInFolder) -> None:
    table.checkpoint()
    table.checksum()
    document = check(run, table.path)
    assert document["problems"] == []
    assert document["checked"] == {
        "commits": 4,
        "checkpoints": 1,
        "compactions": 0,
        "dataFiles": 2,
        "deletionVectors": 1,
    }
    assert "No problem found" in run("fsck", table.path).out


def test_a_data_file_that_is_missing(run: Run, table: TableInFolder) -> None:
    (table.path / "a.parquet").unlink()
    assert kinds(check(run, table.path)) == [("data-file-missing", "a.parquet")]


def test_a_data_file_of_another_size(run: Run, table: TableInFolder) -> None:
    with (table.path / "a.parquet").open("ab") as file:
        file.write(b"x")
    assert kinds(check(run, table.path)) == [("data-file-size", "a.parquet")]


def test_a_truncated_checkpoint(run: Run, table: TableInFolder) -> None:
    path = table.checkpoint()
    path.write_bytes(path.read_bytes()[:-20])
    document = check(run, table.path)
    assert kinds(document) == [("checkpoint-unreadable", "_delta_log/00000000000000000003.checkpoint.parquet")]
    assert "Delete it: the commits before it still exist" in document["problems"][0]["wayOut"]
    assert document["newestVersionReadable"] is True


def test_a_truncated_checkpoint_that_nothing_can_replace(run: Run, table: TableInFolder) -> None:
    path = table.checkpoint()
    path.write_bytes(path.read_bytes()[:-20])
    table.commit_file(0).unlink()
    document = check(run, table.path)
    assert ("checkpoint-unreadable", "_delta_log/00000000000000000003.checkpoint.parquet") in kinds(document)
    assert "backup" in document["problems"][0]["wayOut"]
    assert document["newestVersionReadable"] is False


def test_a_checkpoint_that_says_something_else(run: Run, table: TableInFolder) -> None:
    """It can be read, but its files are not those of the commits."""
    older = table.checkpoint()
    table.append("c.parquet", range(20, 30))
    newer = table.checkpoint()
    newer.write_bytes(older.read_bytes())
    document = check(run, table.path)
    assert ("checkpoint-disagrees", "_delta_log/00000000000000000004.checkpoint.parquet") in kinds(document)


def test_an_empty_checkpoint(run: Run, table: TableInFolder) -> None:
    table.log_file(f"{2:020d}.checkpoint.parquet").write_bytes(b"")
    assert kinds(check(run, table.path)) == [
        ("checkpoint-incomplete", "_delta_log/00000000000000000002.checkpoint.parquet")
    ]


def test_a_checkpoint_with_a_part_missing(run: Run, copied: Golden) -> None:
    path = copied("multi-part-checkpoint")
    parts = sorted((path / "_delta_log").glob("*.checkpoint.*.parquet"))
    parts[0].unlink()
    findings = kinds(check(run, path))
    assert ("checkpoint-incomplete", f"_delta_log/{parts[1].name}") in findings


def test_a_torn_hint(run: Run, table: TableInFolder) -> None:
    table.checkpoint()
    hint = table.log_file("_last_checkpoint")
    hint.write_bytes(hint.read_bytes()[:-5])
    assert kinds(check(run, table.path)) == [("last-checkpoint-corrupt", "_delta_log/_last_checkpoint")]


def test_a_hint_to_a_checkpoint_that_is_gone(run: Run, table: TableInFolder) -> None:
    table.checkpoint().unlink()
    assert kinds(check(run, table.path)) == [("last-checkpoint-stale", "_delta_log/_last_checkpoint")]


def test_a_hint_that_was_left_behind(run: Run, table: TableInFolder) -> None:
    table.checkpoint()
    old = table.log_file("_last_checkpoint").read_bytes()
    table.append("c.parquet", range(20, 30))
    table.checkpoint()
    table.log_file("_last_checkpoint").write_bytes(old)
    assert kinds(check(run, table.path)) == [("last-checkpoint-stale", "_delta_log/_last_checkpoint")]


def test_a_checksum_that_lies(run: Run, table: TableInFolder) -> None:
    path = table.checksum()
    fields = json.loads(path.read_text())
    path.write_text(json.dumps(fields | {"numFiles": 7}))
    document = check(run, table.path)
    assert kinds(document) == [("checksum-disagrees", "_delta_log/00000000000000000003.crc")]
    assert "numFiles = 7, but the log gives 2" in document["problems"][0]["problem"]


def test_a_checksum_that_is_torn(run: Run, table: TableInFolder) -> None:
    path = table.checksum()
    path.write_bytes(path.read_bytes()[:-5])
    assert kinds(check(run, table.path)) == [("checksum-unreadable", "_delta_log/00000000000000000003.crc")]


def test_a_commit_that_is_missing_in_the_middle(run: Run, table: TableInFolder) -> None:
    table.commit_file(2).unlink()
    document = check(run, table.path)
    assert kinds(document) == [("log-gap", "_delta_log/00000000000000000002.json")]
    assert document["newestVersionReadable"] is False
    assert "cannot be rebuilt" in run("fsck", table.path).out


def test_a_gap_that_a_checkpoint_covers(run: Run, table: TableInFolder) -> None:
    table.checkpoint()
    table.commit_file(2).unlink()
    document = check(run, table.path)
    assert kinds(document) == [("log-gap", "_delta_log/00000000000000000002.json")]
    assert document["newestVersionReadable"] is True


def test_a_log_whose_start_was_cleaned_up_is_clean(run: Run, table: TableInFolder) -> None:
    table.checkpoint()
    table.commit_file(0).unlink()
    table.commit_file(1).unlink()
    assert check(run, table.path)["problems"] == []


def test_a_torn_commit(run: Run, table: TableInFolder) -> None:
    path = table.commit_file(2)
    path.write_bytes(path.read_bytes()[:-30])
    document = check(run, table.path)
    assert kinds(document) == [("commit-unreadable", "_delta_log/00000000000000000002.json")]


def test_a_flipped_byte_in_a_vector(run: Run, table: TableInFolder) -> None:
    (path,) = table.path.glob("deletion_vector_*.bin")
    data = bytearray(path.read_bytes())
    data[-6] ^= 0xFF
    path.write_bytes(bytes(data))
    document = check(run, table.path)
    assert kinds(document) == [("deletion-vector-unreadable", path.name)]
    assert "b.parquet" in document["problems"][0]["problem"]


def test_a_vector_file_that_is_missing(run: Run, table: TableInFolder) -> None:
    (path,) = table.path.glob("deletion_vector_*.bin")
    path.unlink()
    assert kinds(check(run, table.path)) == [("deletion-vector-unreadable", path.name)]


def test_a_vector_that_hides_more_rows_than_the_log_says(run: Run, table: TableInFolder) -> None:
    path = table.commit_file(3)
    path.write_text(path.read_text().replace('"cardinality":2', '"cardinality":3'))
    (problem,) = [p for p in check(run, table.path)["problems"] if p["kind"] == "deletion-vector-unreadable"]
    assert "3 rows" in problem["problem"]


def test_unneeded_files_are_only_noted(run: Run, table: TableInFolder) -> None:
    (table.path / "orphan.parquet").write_bytes(b"12345")
    document = check(run, table.path)
    assert document["clean"]
    assert document["unreferenced"] == {"files": 1, "bytes": 5}


def test_an_unsupported_feature_is_named(run: Run, table: TableInFolder) -> None:
    path = table.commit_file(0)
    path.write_text(path.read_text().replace('"readerFeatures":["deletionVectors"', '"readerFeatures":["timeMachine"'))
    document = check(run, table.path)
    assert [problem["kind"] for problem in document["problems"]] == ["feature-unsupported"]
    assert "timeMachine" in document["problems"][0]["problem"]


def test_several_faults_are_all_named(run: Run, table: TableInFolder) -> None:
    checkpoint = table.checkpoint()
    checkpoint.write_bytes(b"PAR1")
    (table.path / "b.parquet").unlink()
    assert {kind for kind, _ in kinds(check(run, table.path))} == {"checkpoint-unreadable", "data-file-missing"}


SOUND = [
    "basic-with-inserts-deletes-checkpoint",
    "data-skipping-change-stats-collected-across-versions",
    "dv-partitioned-with-checkpoint",
    "dv-with-columnmapping",
    "log-replay-dv-key-cases",
    "multi-part-checkpoint",
    "only-checkpoint-files",
    "v2-checkpoint-json",
    "v2-checkpoint-parquet",
]


@pytest.mark.parametrize("name", SOUND)
def test_sound_tables_of_other_engines_are_clean(run: Run, golden: Golden, name: str) -> None:
    assert run("fsck", golden(name), "--json").document["problems"] == []


FAULTY = [
    ("versions-not-contiguous", "log-gap"),
    ("corrupted-last-checkpoint-kernel", "last-checkpoint-corrupt"),
    ("deltalog-invalid-protocol-version", "feature-unsupported"),
    ("deltalog-state-reconstruction-without-metadata", "state-incomplete"),
    ("deltalog-state-reconstruction-from-checkpoint-missing-protocol", "checkpoint-unreadable"),
    ("canonicalized-paths-normal-a", "data-file-outside"),
]


@pytest.mark.parametrize(("name", "kind"), FAULTY)
def test_faults_of_other_engines_tables_are_reported(run: Run, golden: Golden, name: str, kind: str) -> None:
    outcome = run("fsck", golden(name), "--json")
    assert outcome.exit_code == 1
    assert kind in [problem["kind"] for problem in outcome.document["problems"]]
