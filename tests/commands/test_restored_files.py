"""The files between two versions, and those that are gone from the storage."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.commands.restore.restore_table import LISTED_FROM, file_difference, missing_files
from anabranch.errors.protocol import UnsafePathError
from anabranch.errors.tables import RestoreFilesMissingError
from anabranch.log.file_columns import table_of_adds
from anabranch.protocol.actions import DeletionVectorDescriptor
from anabranch.snapshot.live_files import FileBlock, LiveFiles
from anabranch.storage.external_files import ExternalFileStore
from anabranch.storage.log_store import StoredFile
from anabranch.storage.memory_store import MemoryStore
from transactions.table_on_memory import add

FILES = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from([None, "1", "2"]))


@settings(max_examples=60, deadline=None)
@given(FILES, FILES)
def test_the_difference_is_that_of_the_sets_of_path_and_vector(now: dict[str, str], then: dict[str, str]) -> None:
    ours, theirs = files_of(now), files_of(then)
    difference = file_difference(ours, theirs)
    leaving = {file.key for file in ours.to_actions(difference.leaving)}
    coming = {file.key for file in theirs.to_actions(difference.coming)}
    keys_now, keys_then = ({file.key for file in files.to_actions(None)} for files in (ours, theirs))
    assert (leaving, coming) == (keys_now - keys_then, keys_then - keys_now)
    assert difference.num_leaving == len(leaving)


def files_of(vectors: dict[str, str]) -> LiveFiles:
    adds = [add(path, vector=vector) for path, vector in vectors.items()]
    half = len(adds) // 2
    return LiveFiles([FileBlock.of_table(table_of_adds(part)) for part in (adds[:half], adds[half:])])


def by_path(path: str) -> DeletionVectorDescriptor:
    return DeletionVectorDescriptor(storage_type="p", path_or_inline_dv=path, offset=1, size_in_bytes=40, cardinality=1)


def reaching(store: MemoryStore, other: MemoryStore) -> ExternalFileStore:
    return ExternalFileStore(store, allowed_prefixes=lambda: (other.root,), open_prefix=lambda _: other)


def test_data_files_and_vector_files_that_are_gone_are_named() -> None:
    store, other = MemoryStore("memory:/t"), MemoryStore("memory:/source")
    store.put("a b", b"1")
    other.put("x/here", b"1")
    there, gone = add("a%20b"), add("lost")
    elsewhere = [add("memory:/source/x/here"), add("memory:/source/x/lost")]
    hidden = add("memory:/source/x/here2")
    other.put("x/here2", b"1")
    adds = [there, gone, *elsewhere]
    assert missing_files(reaching(store, other), table_of_adds(adds)) == ["lost", "memory:/source/x/lost"]
    with_vector = msgspec.structs.replace(hidden, deletion_vector=by_path("gone.bin"))
    assert missing_files(reaching(store, other), table_of_adds([with_vector])) == ["gone.bin"]
    relative = add("a%20b", vector="x")
    (missing,) = missing_files(store, table_of_adds([relative]))
    assert missing.startswith("deletion_vector_")


def test_an_inline_vector_has_no_file() -> None:
    store = MemoryStore("memory:/t2")
    store.put("a", b"1")
    inline = DeletionVectorDescriptor(storage_type="i", path_or_inline_dv="x", size_in_bytes=1, cardinality=1)
    file = msgspec.structs.replace(add("a"), deletion_vector=inline)
    assert missing_files(store, table_of_adds([file])) == []


def test_a_file_where_the_table_may_not_reach_is_refused() -> None:
    with pytest.raises(UnsafePathError, match=r"spark\.anabranch\.allowedPathPrefixes"):
        missing_files(MemoryStore("memory:/t3"), table_of_adds([add("memory:/secrets/x")]))


def test_many_files_are_looked_up_in_one_listing() -> None:
    class Counting(MemoryStore):
        heads = 0

        def head(self, path: str) -> StoredFile | None:
            self.heads += 1
            return super().head(path)

    store = Counting("memory:/t4")
    adds = [add(f"d/{number}") for number in range(LISTED_FROM + 10)]
    for file in adds[:-1]:
        store.put(file.path, b"")
    assert missing_files(store, table_of_adds(adds)) == [adds[-1].path]
    assert store.heads == 1


def test_the_message_names_a_few_and_counts_all() -> None:
    error = RestoreFilesMissingError(table="t", version=3, num_missing=7, examples=("a", "b"))
    assert "7 files of it no longer exist (a, b, …)" in str(error)
    assert "VACUUM" in str(error)
    assert "1 file of it" in str(RestoreFilesMissingError(table="t", version=3, num_missing=1, examples=("a",)))
