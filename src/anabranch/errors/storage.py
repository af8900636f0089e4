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
class DataFileMissingError(DeltaError, FileNotFoundError):
    """A query needs a data file that is not there. Also Python's `FileNotFoundError`."""

    condition: ClassVar[str] = "DELTA_FILE_NOT_FOUND_DETAILED"
    sqlstate: ClassVar[str] = "42K03"

    table: str
    file: str
    version: int | None
    """The table's newest version, where that needs the file; None where it does not."""

    def explain(self) -> str:
        missing = f"Data file {self.file} of {self.table} is not there"
        if self.version is None:
            return (
                f"{missing}. The table's newest version does not need it: an older one was read, whose files VACUUM "
                "removed. Read a newer version; to keep older ones readable for longer, raise "
                "delta.deletedFileRetentionDuration."
            )
        return (
            f"{missing}, and version {self.version} needs it: neither DELETE nor VACUUM removed it. Put it back, "
            "or RESTORE the table to a version without it, or let `anabranch fsck --data` tell what is missing."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class DataFileDamagedError(DeltaError):
    """A data file cannot be read as Parquet of the table's columns."""

    condition: ClassVar[str] = "DELTA_DATA_FILE_UNREADABLE"
    sqlstate: ClassVar[str] = "KD001"

    table: str
    file: str
    version: int | None
    """The table's newest version, where that needs the file; None where it does not."""
    problem: str

    def explain(self) -> str:
        needed = "an older version" if self.version is None else f"version {self.version}"
        return (
            f"Data file {self.file} of {self.table}, which {needed} needs, cannot be read: {self.problem.rstrip('.')}. "
            "Put a whole copy of it back, or RESTORE the table to a version without it; `anabranch fsck --data` tells "
            "which files are damaged."
        )


@dataclasses.dataclass(eq=False, kw_only=True)
class FileTooLargeError(StorageError):
    """A file is larger than any of its kind. Nothing of it was read."""

    condition: ClassVar[str] = "DELTA_FILE_TOO_LARGE"
    sqlstate: ClassVar[str] = "54000"

    doing: str = "read"
    cause: str = ""
    size_bytes: int
    size_max: int

    def explain(self) -> str:
        return f"Refused to read {self.path} in {self.root}: it has {self.size_bytes} bytes, more than {self.size_max}."


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
