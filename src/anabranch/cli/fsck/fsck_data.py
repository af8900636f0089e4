"""Checks of what the newest version points to: data files and deletion vectors."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import numpy as np
import pyarrow as pa

from anabranch.cli.fsck.fsck_findings import Finding, FindingKind, Steps
from anabranch.data_skipping.statistics_columns import read_num_records
from anabranch.deletion_vectors.vector_descriptors import vector_path
from anabranch.deletion_vectors.vector_reading import load_vector
from anabranch.errors.base import DeltaError
from anabranch.errors.environment import StorageError
from anabranch.errors.log import DeletionVectorError
from anabranch.errors.protocol import UnsafePathError
from anabranch.protocol.actions import DeletionVectorDescriptor
from anabranch.protocol.data_paths import decode_path
from anabranch.snapshot.replay import TableState
from anabranch.storage.external_files import PREFIX_SETTING, allowed_prefixes_of
from anabranch.storage.log_store import LogStore, StoredFile

READS_AT_ONCE = 8
RESTORE = "Put the file back from a backup, or restore the table to a version that does not need it"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class VectorOfFile:
    """A live file that has a deletion vector."""

    path: str
    """The path as it is in the log."""
    descriptor: DeletionVectorDescriptor
    num_rows: int | None
    """Rows of the file, including hidden ones; None where it has no statistics."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    """Files below the table's folder that its newest version does not need."""

    files: int
    """Files that no version needs, as far as the newest version's tombstones show."""
    size_bytes: int
    files_of_history: int
    """Files that the tombstones of the newest version name, not counted in `files`."""
    history_bytes: int


def list_data(store: LogStore) -> dict[str, StoredFile]:
    """Every file below the table by path, without the files and folders that VACUUM ignores."""
    return {file.path: file for file in store.list_tree() if not _is_hidden(file.path)}


def check_data_files(
    store: LogStore, state: TableState, stored: Mapping[str, StoredFile], steps: Steps[tuple[str, int | None]]
) -> Iterator[Finding]:
    """Check that each live file exists and has the size that the log records."""
    files = state.files.columns("path", "size")
    pairs = zip(_texts(files["path"]), files["size"].to_pylist(), strict=True)
    allowed_prefixes = allowed_prefixes_of(store)
    for uri, size_bytes in steps(pairs, "data files", files.num_rows):
        try:
            path = decode_path(uri, table_root=store.root, allowed_prefixes=allowed_prefixes)
        except UnsafePathError as error:
            yield Finding(
                kind=FindingKind.DATA_FILE_OUTSIDE,
                path=uri,
                problem=f"It is refused: {error.reason}",
                way_out=f"If it is a shallow clone that you trust, allow its source: --option {PREFIX_SETTING}=FOLDER",
            )
            continue
        # Hidden folders, such as those of partition columns that begin with `_`, are not in the listing.
        file = stored.get(path) or (store.head(path) if _is_hidden(path) or _is_elsewhere(path) else None)
        if file is None:
            kind, problem = FindingKind.DATA_FILE_MISSING, "The log lists it, but it is not in the storage"
        elif file.size_bytes != size_bytes:
            kind = FindingKind.DATA_FILE_SIZE
            problem = f"It has {file.size_bytes:,} bytes, but the log says {size_bytes or 0:,}"
        else:
            continue
        yield Finding(kind=kind, path=path, problem=problem, way_out=RESTORE)


def check_vectors(store: LogStore, state: TableState, steps: Steps[VectorOfFile]) -> Iterator[Finding]:
    """Check that each deletion vector of a live file can be read and hides as many rows as the log records."""
    has_vector = state.files.columns("deletion_vector")["deletion_vector"].is_valid()
    with_vector = state.files.rows(np.flatnonzero(has_vector.to_numpy()))
    rows = read_num_records(with_vector["stats"].chunks).to_pylist()
    vectors = (
        VectorOfFile(path=path, descriptor=vector, num_rows=count)
        for (path, vector), count in zip(_with_vectors(with_vector), rows, strict=True)
        if vector is not None
    )
    remaining = iter(steps(vectors, "deletion vectors", with_vector.num_rows))
    with ThreadPoolExecutor(max_workers=READS_AT_ONCE, thread_name_prefix="anabranch-fsck") as pool:
        while window := list(islice(remaining, READS_AT_ONCE * 4)):
            yield from filter(None, pool.map(lambda vector: _check_vector(store, vector), window))


def leftovers(store: LogStore, state: TableState, stored: Mapping[str, StoredFile]) -> Leftovers:
    """The files that VACUUM could delete. They are reported for information; they are no problem."""
    live = _paths(store, state.files.columns("path", "deletion_vector"))
    earlier = _paths(store, state.tombstones.table) - live
    unreferenced = [file for path, file in stored.items() if path not in live and path not in earlier]
    history = [stored[path] for path in earlier if path in stored]
    return Leftovers(
        files=len(unreferenced),
        size_bytes=sum(file.size_bytes for file in unreferenced),
        files_of_history=len(history),
        history_bytes=sum(file.size_bytes for file in history),
    )


def _check_vector(store: LogStore, vector: VectorOfFile) -> Finding | None:
    try:
        load_vector(store, vector.descriptor, num_rows=vector.num_rows)
    except (DeletionVectorError, StorageError, UnsafePathError) as error:
        reason = error.cause if isinstance(error, StorageError) else error.reason
        return Finding(
            kind=FindingKind.VECTOR_UNREADABLE,
            path=_vector_file(store, vector.descriptor) or vector.path,
            problem=f"The deletion vector of {vector.path} cannot be used: {reason.rstrip('.')}",
            way_out=f"Its data file cannot be read without it. {RESTORE}",
        )
    return None


def _paths(store: LogStore, files: pa.Table) -> set[str]:
    """The paths of data files and of deletion vector files that are below the table."""
    paths = set()
    for uri, vector in _with_vectors(files):
        with contextlib.suppress(UnsafePathError):
            paths.add(decode_path(uri, table_root=store.root))
        if vector is not None and (path := _vector_file(store, vector)):
            paths.add(path)
    return paths


def _vector_file(store: LogStore, descriptor: DeletionVectorDescriptor) -> str | None:
    if descriptor.storage_type == "i":
        return None
    try:
        return vector_path(descriptor, table_root=store.root)
    except DeltaError:
        return None


def _with_vectors(files: pa.Table) -> Iterator[tuple[str, DeletionVectorDescriptor | None]]:
    for uri, vector in zip(_texts(files["path"]), files["deletion_vector"].to_pylist(), strict=True):
        yield uri, None if vector is None else DeletionVectorDescriptor(**vector)


def _texts(column: pa.ChunkedArray) -> list[str]:
    texts: list[str] = column.cast(pa.string()).to_pylist()
    return texts


def _is_elsewhere(path: str) -> bool:
    """Whether the path is absolute, so that it may be outside the table."""
    return path.startswith("/") or ":/" in path


def _is_hidden(path: str) -> bool:
    """Whether VACUUM ignores the file: names that begin with `_` or `.` belong to other programs."""
    return any(part.startswith(("_", ".")) for part in path.split("/"))
