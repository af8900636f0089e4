"""What every storage offers. It moves bytes and knows nothing of Delta."""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import pyarrow as pa

from anabranch.errors.environment import FileTooLargeError
from anabranch.storage.file_tree import Deletion, Enters


class PutOutcome(enum.Enum):
    """What is known after a conditional put."""

    CREATED = "created"
    """The file is ours and durable."""
    EXISTS = "exists"
    """A file of that name was there. It may still be ours: an earlier reply can be lost."""
    UNKNOWN = "unknown"
    """The storage gave no trustworthy answer; the file may or may not be there."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file as a listing shows it."""

    path: str
    """Relative to the store's root, `/`-separated, never URI-encoded."""
    size_bytes: int
    modified_ms: int


class LogStore(Protocol):
    """The files under one root, addressed by relative, plain (not URI-encoded) paths.

    Reads and listings see every put that returned before they were called. A path that leaves the root or
    has no one meaning (`..`, `.`, absolute, empty, an empty segment, NUL) raises `PathOutsideTableError`.
    What the storage itself refuses or fails to do raises `StorageError`; its text shows no secrets. Any
    number of threads may share a store.
    """

    @property
    def root(self) -> str:
        """The root as Spark spells it: an absolute local path, or a URL such as `s3a://bucket/t`."""

    def list_from(self, directory: str, start_after: str = "") -> Iterator[StoredFile]:
        """Files directly in `directory` whose name sorts after `start_after`, by name, ascending.

        Names compare by UTF-8 bytes. Subdirectories are not shown. A directory that does not exist is
        empty. Temporary files of unfinished puts are never listed, here or by `list_tree`.
        """

    def list_tree(self, directory: str = "") -> Iterator[StoredFile]:
        """Every file below `directory`, in no particular order."""

    def walk(self, enters: Enters) -> Iterator[pa.Table]:
        """What lies below the root, as pages of `TREE_SCHEMA`, in no particular order: files, and directories
        where the storage has them.

        A directory that `enters` declines is not shown, nor is anything below it. Links are neither shown nor
        followed.
        """

    def head(self, path: str) -> StoredFile | None:
        """What a listing would show of `path`, or None where there is no such file."""

    def read(self, path: str, *, size_max: int | None = None) -> bytes:
        """The whole file.

        Raises `FileMissingError`, also for what is no file but a directory, a pipe or a device; `FileTooLargeError`
        before anything is read of a file of more than `size_max` bytes; `StorageError`.
        """

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        """Exactly `length` bytes from `offset`; a shorter file raises `StorageError`."""

    def open(self, path: str) -> pa.NativeFile:
        """The file for random access, without loading it whole where the storage can.

        Raises `FileMissingError`, `StorageError`; reading from it may raise `StorageError` too.
        """

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        """Make `path` with `data`, all or nothing, unless a file of that name exists.

        CREATED means durable: it survives a power loss. Raises `StorageError` only when the file was
        surely not made (no permission, no space); doubt is `UNKNOWN`. A storage that cannot decide between
        two writers raises `ConditionalPutUnsupportedError`, which is one, and writes nothing.
        """

    def make_durable(self, path: str) -> None:
        """See that `path`, which is there, survives a power loss.

        For a file that shows although its put was not answered CREATED. Raises `StorageError` where nobody
        can promise it.
        """

    def put(self, path: str, data: bytes) -> None:
        """Make or replace `path`, all or nothing. Raises `StorageError`."""

    def delete(self, path: str) -> None:
        """Remove `path`; one that is not there is no error. Raises `StorageError`."""

    def delete_many(self, paths: Sequence[str]) -> Deletion:
        """Remove files, one that is not there among them or not. Never through a link to elsewhere.

        One goes after the other, but where the service takes a thousand in one request.
        """

    def remove_directory(self, path: str) -> bool:
        """Remove a directory if it is empty, and say whether. False, too, where the storage has none.

        Raises `StorageError`.
        """


# Files that are too large to be what they are said to be.


def check_size(size_bytes: int, size_max: int | None, *, root: str, path: str) -> None:
    """Raises `FileTooLargeError`."""
    if size_max is not None and size_bytes > size_max:
        raise FileTooLargeError(root=root, path=path, size_bytes=size_bytes, size_max=size_max)


# Keeping secrets out of messages.


_LENGTH_MAX = 1000


def redact(text: str, *, secrets: Iterable[str] = ()) -> str:
    """The first line of `text` and what an XML answer says, without query strings and `secrets`."""
    summary = text.partition("\n")[0].partition("<?xml")[0].rstrip(" :")
    facts = [found[1] for tag in ("Code", "Message") if (found := re.search(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL))]
    if facts:
        summary = f"{summary}: {', '.join(facts)}"
    # Azure's signatures travel in the query string.
    summary = re.sub(r"\?[^\s\"'<>]+", "?…", summary)
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        summary = summary.replace(secret, "…")
    return summary[:_LENGTH_MAX]
