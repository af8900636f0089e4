"""Reads that return a part of a file, which a reader of lines would take for the whole."""

from __future__ import annotations

import pytest

from anabranch.errors.environment import FileMissingError, StorageError
from anabranch.log.commit_files import read_commits
from anabranch.protocol.log_paths import commit_path
from anabranch.storage.log_store import read_whole
from anabranch.storage.memory_store import MemoryStore

PATH = commit_path(0)
LINES = (
    b'{"commitInfo":{}}\n{"add":{"path":"a","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}\n'
)


class ShortReads(MemoryStore):
    """It returns the first line of each file."""

    def read(self, path: str, *, size_max: int | None = None) -> bytes:
        return super().read(path, size_max=size_max).splitlines()[0]


def test_a_part_of_a_commit_is_an_error() -> None:
    store = ShortReads()
    store.put(PATH, LINES)
    with pytest.raises(StorageError, match=f"returned 17 of its {len(LINES)} bytes"):
        read_commits(store, after=-1)


def test_a_file_that_was_replaced_is_missing() -> None:
    store = MemoryStore()
    store.put(PATH, LINES)
    listed = store.head(PATH)
    assert listed is not None
    store.delete_many([PATH])
    store.put(PATH, LINES[:17])
    with pytest.raises(FileMissingError):
        read_whole(store, listed)
