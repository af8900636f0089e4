"""Names that two writers draw alike. Covers fault F13: a random source that says the same again."""

from __future__ import annotations

import random

import msgspec
import pytest
from pyroaring import BitMap64

from anabranch.deletion_vectors.vector_descriptors import vector_path
from anabranch.errors.environment import StorageError
from anabranch.protocol.actions import AddFile, DeletionVectorDescriptor
from anabranch.storage.memory_store import MemoryStore
from anabranch.transactions.rows.deletion_vector_actions import StoredVectors
from storage.faults import FaultyStore, PutFault
from transactions.table_on_memory import add

ONE, OTHER = BitMap64(range(0, 4000, 3)), BitMap64(range(1, 9000, 7))


def showing(path: str, vector: DeletionVectorDescriptor) -> AddFile:
    return msgspec.structs.replace(add(path, rows=10_000), deletion_vector=vector)


def test_vectors_of_another_writer_stay() -> None:
    store = MemoryStore()
    (first,) = StoredVectors(store, random.Random(0)).write([ONE])
    (second,) = StoredVectors(store, random.Random(0)).write([OTHER])
    assert first.unique_id != second.unique_id
    files = [showing("a", first), showing("b", second)]
    assert StoredVectors(store, random.Random(1)).hidden(files) == [ONE, OTHER]


def test_a_vector_file_that_may_be_there_is_written_under_another_name() -> None:
    """If the file exists, it is not known who wrote it."""
    store = FaultyStore(MemoryStore(), [PutFault.REPLY_LOST])
    (written,) = StoredVectors(store, random.Random(0)).write([ONE])
    assert StoredVectors(store, random.Random(1)).hidden([showing("a", written)]) == [ONE]
    assert len(list(store.list_tree())) == 2
    assert vector_path(written, table_root=store.root) in {file.path for file in store.list_tree()}


def test_a_source_that_says_ever_the_same() -> None:
    class Stuck(random.Random):
        def getrandbits(self, k: int) -> int:
            return 7

    store = MemoryStore()
    (first,) = StoredVectors(store, Stuck()).write([ONE])
    with pytest.raises(StorageError, match="new names"):
        StoredVectors(store, Stuck()).write([OTHER])
    assert StoredVectors(store, Stuck()).hidden([showing("a", first)]) == [ONE]
