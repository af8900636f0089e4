"""Which files hold the changes of commits, and which of their rows."""

from __future__ import annotations

import functools
from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from anabranch.change_feed.feed_files import FeedFiles, VectorDifference, differing_rows, feed_files
from anabranch.deletion_vectors.vector_reading import load_vectors
from anabranch.errors.dml import ChangesIncompleteError
from anabranch.errors.log import DeletionVectorRowIndexError, DeletionVectorSizeError
from anabranch.log.commit_files import Commit
from anabranch.protocol.actions import AddFile, CommitInfo, RemoveFile
from anabranch.storage.memory_store import MemoryStore
from change_feed.commits import add, cdc, commit, remove, rows_of

FILE_ROWS = 8


def files_of(*commits: Commit) -> FeedFiles:
    timed = ((one, 1_000 * one.version) for one in commits)
    return feed_files(timed, table="t", partitioned=True)


def constants(file: AddFile) -> tuple[str | None, ...]:
    return tuple(file.partition_values.get(name) for name in ("_change_type", "_commit_version", "_commit_timestamp"))


def test_a_commit_with_change_files_is_read_from_these_alone() -> None:
    files = files_of(commit(3, add("new"), remove("old"), cdc("_change_data/c")))
    assert [file.path for file in files.change_data] == ["_change_data/c"]
    assert constants(files.change_data[0]) == (None, "3", "1970-01-01T00:00:03.000000Z")
    assert files.change_data[0].partition_values["p"] == "1"
    assert not files.whole
    assert not files.partial


def test_files_that_come_and_go() -> None:
    files = files_of(commit(1, add("a"), add("moved", data_change=False)), commit(2, remove("a")))
    assert [(file.path, *constants(file)[:2]) for file in files.whole] == [("a", "insert", "1"), ("a", "delete", "2")]


def test_a_removed_file_takes_only_the_rows_it_showed() -> None:
    (gone,) = files_of(commit(1, remove("a", hidden=BitMap64([2, 5])))).whole
    assert gone.deletion_vector is not None
    assert rows_of(gone.deletion_vector) == BitMap64([2, 5])


def test_the_same_file_again_is_no_change() -> None:
    """The commit changes only tags or statistics of the file."""
    assert files_of(commit(1, add("a"), remove("a"))) == FeedFiles()
    hidden = BitMap64([1])
    assert files_of(commit(1, add("a", hidden=hidden), remove("a", hidden=hidden))) == FeedFiles()


def test_vectors_that_differ_are_bounded_by_the_rows_of_their_file() -> None:
    """Covers attack A9: what claims too much is not read, and what hides a row beyond the file is another file's."""

    def went(before: RemoveFile, after: AddFile) -> VectorDifference:
        differences = files_of(commit(2, before, after)).differences.values()
        return next(difference for difference in differences if difference.hidden == after.deletion_vector)

    stats = '{"numRecords": 8}'
    before = remove("a", hidden=BitMap64([1]))
    after = msgspec.structs.replace(add("a", hidden=BitMap64([1, 9])), stats=stats)
    difference = went(before, after)
    loading = functools.partial(load_vectors, MemoryStore())
    with pytest.raises(DeletionVectorRowIndexError, match="row 9 of a file with 8 rows"):
        differing_rows([difference], loading)
    assert after.deletion_vector is not None
    claimed = msgspec.structs.replace(after.deletion_vector, size_in_bytes=512 << 20)
    difference = went(before, msgspec.structs.replace(after, deletion_vector=claimed))
    with pytest.raises(DeletionVectorSizeError, match="too many for a file with 8 rows"):
        differing_rows([difference], loading)


def test_a_merge_that_rewrote_files_and_changed_no_row() -> None:
    names = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")
    info = CommitInfo(operation="MERGE", operation_metrics=dict.fromkeys(names, "0"))
    assert files_of(commit(1, add("new"), remove("old"), info=info)) == FeedFiles()
    info = CommitInfo(operation="MERGE", operation_metrics={**dict.fromkeys(names, "0"), names[0]: "1"})
    assert len(files_of(commit(1, add("new"), remove("old"), info=info)).whole) == 2


def test_a_removed_file_of_which_too_little_is_said() -> None:
    old = RemoveFile(path="old", data_change=True)
    with pytest.raises(ChangesIncompleteError) as raised:
        files_of(commit(4, old))
    assert (raised.value.version, raised.value.path) == (4, "old")
    # A file that comes back under another vector is described there.
    assert len(files_of(commit(4, old, add("old", hidden=BitMap64([1])))).partial) == 1


positions = st.frozensets(st.integers(0, FILE_ROWS - 1)).map(BitMap64)
states = st.one_of(st.none(), positions)
"""What a file hides; None where it is not in the table."""


@given(st.lists(st.dictionaries(st.sampled_from("abc"), states), min_size=1, max_size=6))
def test_replaying_the_changes_gives_every_state(history: list[dict[str, BitMap64 | None]]) -> None:
    """Random commits change files and their vectors, RESTORE included: the feed has each changed row exactly once."""
    now: dict[str, BitMap64] = {}
    counted: Counter[tuple[str, int]] = Counter()
    for version, step in enumerate(history):
        actions = []
        for path, state in step.items():
            if path in now:
                actions.append(remove(path, hidden=now.pop(path)))
            if state is not None:
                actions.append(add(path, hidden=state))
                now[path] = state
        for row, change in changes_of(files_of(commit(version, *actions))):
            counted[row] += 1 if change == "insert" else -1
            assert counted[row] in {0, 1}
        shown = {(path, row) for path, hidden in now.items() for row in range(FILE_ROWS) if row not in hidden}
        assert {row for row, count in counted.items() if count} == shown


def changes_of(files: FeedFiles) -> list[tuple[tuple[str, int], str | None]]:
    """Every row of the feed, as an engine would read it."""
    changes = []
    for file in files.whole:
        hidden = BitMap64() if file.deletion_vector is None else rows_of(file.deletion_vector)
        changes += [((file.path, row), constants(file)[0]) for row in range(FILE_ROWS) if row not in hidden]
    for file in files.partial:
        assert file.deletion_vector is not None
        difference = files.differences[file.deletion_vector.path_or_inline_dv]
        shown = rows_of(difference.hidden)
        if difference.shown is not None:
            shown = shown - rows_of(difference.shown)
        changes += [((file.path, row), constants(file)[0]) for row in shown]
    return changes
