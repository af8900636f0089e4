"""Commits as tests of the feed make them up."""

from __future__ import annotations

from pyroaring import BitMap64

from anabranch.deletion_vectors.vector_descriptors import inline_descriptor
from anabranch.deletion_vectors.vector_reading import load_vector
from anabranch.log.commit_files import Commit
from anabranch.protocol.actions import (
    Action,
    AddCDCFile,
    AddFile,
    CommitInfo,
    DeletionVectorDescriptor,
    RemoveFile,
)
from anabranch.storage.memory_store import MemoryStore


def add(path: str, *, hidden: BitMap64 | None = None, data_change: bool = True) -> AddFile:
    return AddFile(
        path=path,
        partition_values={"p": "1"},
        size=10,
        modification_time=1,
        data_change=data_change,
        stats='{"numRecords":8}',
        deletion_vector=inline_descriptor(hidden) if hidden else None,
    )


def remove(path: str, *, hidden: BitMap64 | None = None, data_change: bool = True) -> RemoveFile:
    return RemoveFile(
        path=path,
        data_change=data_change,
        extended_file_metadata=True,
        partition_values={"p": "1"},
        size=10,
        deletion_vector=inline_descriptor(hidden) if hidden else None,
    )


def cdc(path: str) -> AddCDCFile:
    return AddCDCFile(path=path, partition_values={"p": "1"}, size=5, data_change=False)


def commit(version: int, *actions: Action, info: CommitInfo | None = None) -> Commit:
    return Commit(version=version, actions=actions, info=info, timestamp_ms=version, modified_ms=version)


def rows_of(vector: DeletionVectorDescriptor) -> BitMap64:
    """The rows of an inline vector."""
    return load_vector(MemoryStore("memory:/table"), vector)
