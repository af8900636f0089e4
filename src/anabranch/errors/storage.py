"""What can go wrong between us and the bytes of a table."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from anabranch.errors.base import DeltaError


@dataclasses.dataclass(eq=False, kw_only=True)
class StorageError(DeltaError):
    """The storage refused or failed. `cause` is its own answer, with secrets taken out."""

    condition: ClassVar[str] = "DELTA_STORAGE_ERROR"
    sqlstate: ClassVar[str] = "58030"

    root: str
    path: str
    doing: str
    """A verb phrase that `path` completes: `read`, `write`, `list`."""
    cause: str

    def explain(self) -> str:
        return f"Could not {self.doing} {self.path or '/'} in {self.root}: {self.cause.rstrip('.')}."


@dataclasses.dataclass(eq=False, kw_only=True)
class FileMissingError(StorageError, FileNotFoundError):
    """There is no such file. Also Python's `FileNotFoundError`."""

    condition: ClassVar[str] = "DELTA_FILE_NOT_FOUND"
    sqlstate: ClassVar[str] = "42K03"

    doing: str = "read"
    cause: str = "there is no such file"


@dataclasses.dataclass(eq=False, kw_only=True)
class PathOutsideTableError(DeltaError, ValueError):
    """A path that would leave the table's root, or that no storage could hold."""

    condition: ClassVar[str] = "DELTA_PATH_OUTSIDE_TABLE"
    sqlstate: ClassVar[str] = "22023"

    root: str
    path: str
    reason: str
    """Completes "because it …": `has a '..' segment`."""

    def explain(self) -> str:
        return (
            f"Refused the path {self.path!r} in {self.root} because it {self.reason}. "
            "Paths within a table are relative, '/'-separated and stay below its root."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class ConditionalPutUnsupportedError(StorageError):
    """The storage cannot make a file only where none exists, so two writers could land one version."""

    condition: ClassVar[str] = "DELTA_CONDITIONAL_PUT_UNSUPPORTED"
    sqlstate: ClassVar[str] = "0A000"

    doing: str = "write"
    endpoint: str
    """The service that answered, or the kind of file system."""
    way_out: str

    def explain(self) -> str:
        return (
            f"Refused to write to {self.root}: {self.endpoint} {self.cause}, so two writers could overwrite "
            f"each other's commits. {self.way_out}."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class UnsupportedStorageError(DeltaError, ValueError):
    """No storage of ours answers to this URL."""

    condition: ClassVar[str] = "DELTA_UNSUPPORTED_STORAGE"
    sqlstate: ClassVar[str] = "0A000"

    url: str
    reason: str
    """A clause: `nothing here knows the scheme 'ftp'`."""
    way_out: str

    def explain(self) -> str:
        return f"Cannot open {self.url}: {self.reason}. {self.way_out}."


@dataclasses.dataclass(eq=False, kw_only=True)
class StorageOptionError(DeltaError, ValueError):
    """An option of a storage has a value that makes no sense. Values that may be secret are not shown."""

    condition: ClassVar[str] = "DELTA_STORAGE_OPTION_INVALID"
    sqlstate: ClassVar[str] = "22023"

    option: str
    reason: str

    def explain(self) -> str:
        return f"Cannot use the storage option {self.option}: {self.reason}."
