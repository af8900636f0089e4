"""The interface of all storages, and the rules that are the same for all: for paths, sizes of files, texts of errors.

It reads and writes bytes and does not depend on Delta.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import re
import time
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Protocol, runtime_checkable

import pyarrow as pa

from anabranch.errors.environment import FileMissingError, FileTooLargeError, PathOutsideTableError, StorageError
from anabranch.storage.file_tree import Deletion, Enters


class PutOutcome(enum.Enum):
    """The outcome of a conditional put."""

    CREATED = "created"
    """The file was created by this put and is durable."""
    EXISTS = "exists"
    """A file of that name exists. It may still be ours, if the reply to an earlier request was lost."""
    UNKNOWN = "unknown"
    """The storage gave no reliable reply; the file may or may not exist."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file, as listed."""

    path: str
    """The path relative to the store's root, `/`-separated, not URI-encoded."""
    size_bytes: int
    modified_ms: int


class LogStore(Protocol):
    """The files under one root, addressed by relative, plain (not URI-encoded) paths.

    Reads and listings see every put that returned before they were called. A path that leaves the root or
    is ambiguous (`..`, `.`, absolute, empty, an empty segment, NUL) raises `PathOutsideTableError`. Failures
    of the storage raise `StorageError`, whose text has no secrets. Any number of threads may share a store.
    """

    @property
    def root(self) -> str:
        """The root as Spark spells it: an absolute local path, or a URL such as `s3a://bucket/t`."""

    def list_from(self, directory: str, start_after: str = "") -> Iterator[StoredFile]:
        """Files directly in `directory` whose name sorts after `start_after`, by name, ascending.

        Names are compared by UTF-8 bytes. Subdirectories are not listed. A directory that does not exist is
        empty. Temporary files of unfinished puts are never listed, also not by `list_tree`.
        """

    def list_tree(self, directory: str = "") -> Iterator[StoredFile]:
        """Every file below `directory`, in no particular order."""

    def walk(self, enters: Enters) -> Iterator[pa.Table]:
        """Files and, where the storage has them, directories below the root, as pages of `TREE_SCHEMA`, in no
        particular order.

        A directory for which `enters` is false is not listed, nor is anything below it. Links are neither listed nor
        followed.
        """

    def head(self, path: str) -> StoredFile | None:
        """The file at `path`, as listed; None where there is no such file."""

    def read(self, path: str, *, size_max: int | None = None) -> bytes:
        """The whole file.

        Raises `FileMissingError`, also for a directory, a pipe or a device; `FileTooLargeError` for a file of more
        than `size_max` bytes, before reading any of it; `StorageError`.
        """

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Exactly `length` bytes from `offset`; a shorter file raises `StorageError`."""

    def open(self, path: str) -> pa.NativeFile:
        """The file for random access, without loading all of it where the storage allows that.

        Raises `FileMissingError`, `StorageError`; reading from it may raise `StorageError` too.
        """

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        """Atomically create `path` with `data`, unless a file of that name exists.

        A file that is CREATED is durable: it survives a power loss. Raises `StorageError` only if the file was
        certainly not created (no permission, no space); otherwise the outcome is UNKNOWN. A storage that cannot
        decide between two writers raises `ConditionalPutUnsupportedError`, a `StorageError`, and writes nothing.
        """

    def make_durable(self, path: str) -> None:
        """Make sure that `path`, which exists, survives a power loss.

        This is for a file that exists although its put did not return CREATED. Raises `StorageError` where
        durability cannot be guaranteed.
        """

    def put(self, path: str, data: bytes) -> None:
        """Atomically create or replace `path`. Raises `StorageError`."""

    def delete(self, path: str) -> None:
        """Delete `path`, if it exists. Raises `StorageError`."""

    def delete_many(self, paths: Sequence[str]) -> Deletion:
        """Delete the files that exist; never through a link out of the root.

        They are deleted in order, except where a service deletes a thousand in one request.
        """

    def remove_directory(self, path: str) -> bool:
        """Remove a directory if it is empty; whether it was removed. False where the storage has no directories.

        Raises `StorageError`.
        """


@runtime_checkable
class IdentifiedStore(Protocol):
    """A store of which is known with which rights it reads: what one has read, another of its identity may read."""

    @property
    def identity(self) -> Hashable:
        """Equal for two stores exactly if they read the same files with the same rights."""


def is_on_local_disk(store: LogStore) -> bool:
    """Whether the files of the store are in a folder of this machine."""
    return is_local(store.root)


def is_local(root: str) -> bool:
    """Whether that is a folder of this machine."""
    return root.startswith("/")


IN_TURN_SECONDS_MAX = 0.005
"""Files of a local disk are read one after the other for that long, since a thread costs more than a cached file."""


def read_in_turn(store: LogStore, files: Sequence[StoredFile]) -> list[bytes]:
    """The contents of the first files, as many as a local disk returns at once; none for other storages.

    Raises the errors of `read_whole`.
    """
    contents: list[bytes] = []
    if is_on_local_disk(store):
        end = time.monotonic() + IN_TURN_SECONDS_MAX
        while len(contents) < len(files) and time.monotonic() < end:
            contents.append(read_whole(store, files[len(contents)]))
    return contents


def read_whole(store: LogStore, file: StoredFile) -> bytes:
    """The content of a file that was listed, if it has the listed size.

    A part of a file of lines that ends where a line ends looks like a file with fewer lines, such as a commit without
    its last actions. Raises `StorageError` for a part, and `FileMissingError` where another file is there by now.
    """
    data = store.read(file.path)
    if len(data) >= file.size_bytes:
        return data
    now = store.head(file.path)
    if now is None or now.size_bytes != file.size_bytes:
        raise FileMissingError(root=store.root, path=file.path)
    cause = f"the storage returned {len(data)} of its {file.size_bytes} bytes"
    raise StorageError(root=store.root, path=file.path, doing="read", cause=cause)


TEMPORARY_PREFIX = ".anabranch-"
"""The prefix of the names of temporary files of puts; no listing has them."""
MESSAGE_LENGTH_MAX = 1000


def check_file_path(path: str, *, root: str) -> str:
    """`path` itself, if it is the path of a file below `root`. Raises `PathOutsideTableError`."""
    reason = _fault(path)
    if reason is not None:
        raise PathOutsideTableError(root=root, path=path, reason=reason)
    return path


def check_file_paths(paths: Sequence[str], *, root: str) -> Sequence[str]:
    """`paths` themselves, if all are paths of files below `root`. Raises `PathOutsideTableError`."""
    for path in paths:
        check_file_path(path, root=root)
    return paths


def check_directory_path(directory: str, *, root: str) -> str:
    """`directory` itself, if it is the path of a directory below `root`, or empty, for the root."""
    return directory if directory == "" else check_file_path(directory, root=root)


def is_temporary(name: str) -> bool:
    """Whether the name is that of a temporary file of a put, which may be left by a writer that died."""
    return name.startswith(TEMPORARY_PREFIX)


def split_path(path: str) -> tuple[str, str]:
    """Directory and name; the directory is empty for a file directly under the root."""
    directory, _, name = path.rpartition("/")
    return directory, name


def join_path(directory: str, name: str) -> str:
    """The path of a name in a directory, the reverse of `split_path`."""
    return f"{directory}/{name}" if directory else name


def sort_key(name: str) -> bytes:
    """The key that sorts names as storages list them: their UTF-8 bytes."""
    # Names on disk need not be UTF-8; bytes that cannot be decoded are restored.
    return name.encode("utf-8", "surrogateescape")


def check_size(size_bytes: int, size_max: int | None, *, root: str, path: str) -> None:
    """Raises `FileTooLargeError` for a file of more than `size_max` bytes."""
    if size_max is not None and size_bytes > size_max:
        raise FileTooLargeError(root=root, path=path, size_bytes=size_bytes, size_max=size_max)


def redact(text: str, *, secrets: Iterable[str] = ()) -> str:
    """The first line of `text`, and code and message of an XML reply, without query strings and `secrets`."""
    summary = text.partition("\n")[0].partition("<?xml")[0].rstrip(" :")
    matches = [re.search(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL) for tag in ("Code", "Message")]
    if any(matches):
        summary = f"{summary}: {', '.join(match[1] for match in matches if match)}"
    # Azure's signatures are in the query string.
    summary = re.sub(r"\?[^\s\"'<>]+", "?…", summary)
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        summary = summary.replace(secret, "…")
    return summary[:MESSAGE_LENGTH_MAX]


@functools.lru_cache(maxsize=256)
def _fault(path: str) -> str | None:
    if path == "":
        return "is empty"
    if "\0" in path:
        return "has a NUL character"
    if path.startswith("/"):
        return "is absolute"
    for segment in path.split("/"):
        # `a//b` and `a/./b` are the same file as `a/b` on a disk and another one in an object store.
        if segment in {"", "."}:
            return "has an empty or '.' segment"
        if segment == "..":
            return "has a '..' segment"
    return None
