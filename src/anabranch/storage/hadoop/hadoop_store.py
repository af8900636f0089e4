"""Files on Spark's Hadoop file systems, through the JVM of the session."""

from __future__ import annotations

import dataclasses
import functools
import logging
import secrets
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Any, TypeVar

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from anabranch.errors.base import DeltaError
from anabranch.errors.environment import (
    ConditionalPutUnsupportedError,
    FileMissingError,
    StorageError,
    UnsupportedStorageError,
)
from anabranch.storage.file_tree import Deletion, Enters, Entry, delete_one_by_one, pages_of
from anabranch.storage.hadoop.hadoop_listing import HadoopFile, list_directories
from anabranch.storage.log_store import (
    TEMPORARY_PREFIX,
    PutOutcome,
    StoredFile,
    check_directory_path,
    check_file_path,
    check_file_paths,
    check_size,
    is_temporary,
    join_path,
    redact,
    sort_key,
    split_path,
)
from anabranch.storage.ranged_file import open_ranges

ATOMIC_RENAME_SCHEMES = frozenset({"hdfs"})
"""File systems whose rename checks the target and moves the file in one step, on the server."""

_LOG = logging.getLogger("anabranch.storage")
_CHUNK_BYTES = 64 * 1024 * 1024
_DIRECTORIES_AT_ONCE = 1000
_Result = TypeVar("_Result")

_NOT_CREATED = {
    "AccessControlException",
    "DSQuotaExceededException",
    "NSQuotaExceededException",
    "ParentNotDirectoryException",
    "UnresolvedPathException",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class HadoopSession:
    """Spark's JVM and Hadoop configuration."""

    gateway: Any = dataclasses.field(repr=False)
    """`SparkContext._gateway`."""
    configuration: Any = dataclasses.field(repr=False)
    """A Java `org.apache.hadoop.conf.Configuration`."""

    def get(self, key: str, /) -> str | None:
        """A property, also one in a Hadoop credential store."""
        value = self.configuration.get(key)
        if value is None and self.configuration.get("hadoop.security.credential.provider.path"):
            password = self.configuration.getPassword(key)
            value = None if password is None else self.gateway.jvm.java.lang.String.valueOf(password)
        return None if value is None else str(value)


class HadoopStore:
    """A `LogStore` over a Hadoop `FileSystem`, for any number of threads.

    A put writes a temporary file, syncs it, and renames it with `FileContext.rename`, which unlike
    `FileSystem.rename` fails if the target exists. Whether that is one step depends on the file system: HDFS
    does it under the name node's lock, others check first and move afterwards. Those are refused for
    put-if-absent, unless their scheme is in `atomic_rename_schemes`; for a `viewfs:`, the scheme is that
    of the file system mounted there.
    """

    def __init__(
        self, root: str, session: HadoopSession, *, atomic_rename_schemes: AbstractSet[str] = ATOMIC_RENAME_SCHEMES
    ) -> None:
        self.root = root.rstrip("/") or root
        self._session = session
        self._jvm = session.gateway.jvm
        self._atomic_rename_schemes = atomic_rename_schemes
        try:
            path = self._jvm.org.apache.hadoop.fs.Path(root)
            self._files = path.getFileSystem(session.configuration)
            self._qualified: str = self._files.makeQualified(path).toString().rstrip("/")
        except (Py4JError, PySparkException) as error:
            raise UnsupportedStorageError(
                url=self.root,
                reason=f"Spark's Hadoop cannot open it: {_describe(error)}",
                way_out="Check the URL, and that the file system's jar and settings are on Spark's classpath",
            ) from error

    def __repr__(self) -> str:
        return f"HadoopStore({self.root!r})"

    def list_from(self, directory: str, start_after: str = "") -> Iterator[StoredFile]:
        # Hadoop only lists whole directories; files up to `start_after` are dropped here.
        check_directory_path(directory, root=self.root)
        floor = sort_key(start_after)
        entries = [(sort_key(split_path(path)[1]), path, file) for path, file in self._list([directory])]
        wanted = [entry for entry in entries if entry[0] > floor and not entry[2].is_directory]
        ordered = sorted(wanted, key=lambda entry: entry[0])
        return (_stored(path, file) for _, path, file in ordered if not is_temporary(split_path(path)[1]))

    def list_tree(self, directory: str = "") -> Iterator[StoredFile]:
        check_directory_path(directory, root=self.root)
        level = [directory]
        while level:
            deeper = []
            for path, file in self._list(level):
                if file.is_directory:
                    deeper.append(path)
                elif not is_temporary(split_path(path)[1]):
                    yield _stored(path, file)
            level = deeper

    def walk(self, enters: Enters) -> Iterator[pa.Table]:
        return pages_of(self._entries(enters))

    def head(self, path: str) -> StoredFile | None:
        try:
            status = self._call("look at", path, lambda: self._files.getFileStatus(self._path(path)))
        except FileMissingError:
            return None
        if not status.isFile():
            return None
        return StoredFile(path=path, size_bytes=status.getLen(), modified_ms=status.getModificationTime())

    def read(self, path: str, *, size_max: int | None = None) -> bytes:
        if size_max is not None and (file := self.head(path)) is not None:
            check_size(file.size_bytes, size_max, root=self.root, path=path)
        return self._call("read", path, lambda: b"".join(self._chunks(path, 0, None)))

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        if offset < 0 or length < 0:
            raise StorageError(
                root=self.root, path=path, doing="read", cause="the bounds of a range cannot be negative"
            )
        data = self._call("read", path, lambda: b"".join(self._chunks(path, offset, length)))
        if len(data) != length:
            cause = f"bytes {offset} to {offset + length} requested, {len(data)} bytes received"
            raise StorageError(root=self.root, path=path, doing="read", cause=cause)
        return data

    def open(self, path: str) -> pa.NativeFile:
        file = self.head(path)
        if file is None:
            raise FileMissingError(root=self.root, path=path, doing="open")
        return open_ranges(file.size_bytes, functools.partial(self.read_range, path))

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        target = self._path(path)
        self._refuse_unless_atomic()
        temporary = self._write_temporary(path, data)
        try:
            self._context.rename(temporary, target, self._rename_options())
        except (Py4JError, PySparkException) as error:
            self._discard(temporary)
            return self._outcome_of(error, path)
        return PutOutcome.CREATED

    def make_durable(self, path: str) -> None:
        """Do nothing: Hadoop has no call for it. A visible name is as durable as its file system makes it."""

    def put(self, path: str, data: bytes) -> None:
        target = self._path(path)
        temporary = self._write_temporary(path, data)
        overwrite = self._rename_options(self._jvm.org.apache.hadoop.fs.Options.Rename.OVERWRITE)
        try:
            self._call("write", path, lambda: self._context.rename(temporary, target, overwrite))
        except StorageError:
            self._discard(temporary)
            raise

    def delete(self, path: str) -> None:
        with suppress(FileMissingError):
            self._call("delete", path, lambda: self._files.delete(self._path(path), False))

    def delete_many(self, paths: Sequence[str]) -> Deletion:
        return delete_one_by_one(check_file_paths(paths, root=self.root), self.delete)

    def remove_directory(self, path: str) -> bool:
        target = self._path(path)
        try:
            # The name node refuses to delete a directory that is not empty, under its lock.
            return bool(self._files.delete(target, False))
        except (Py4JError, PySparkException) as error:
            if _java_class(error) in {"FileNotFoundException", "PathIsNotEmptyDirectoryException", "IOException"}:
                return False
            raise self._translate(error, "delete", path) from error

    @functools.cached_property
    def _context(self) -> Any:
        context = self._jvm.org.apache.hadoop.fs.FileContext
        return self._call(
            "write", "", lambda: context.getFileContext(self._files.getUri(), self._session.configuration)
        )

    @functools.cached_property
    def _scheme(self) -> str:
        """The scheme of the file system that stores the files, also behind a `viewfs:`."""

        def resolve() -> str:
            path = self._jvm.org.apache.hadoop.fs.Path(self._qualified)
            while path.getParent() is not None and not self._files.exists(path):
                path = path.getParent()
            return str(self._files.resolvePath(path).toUri().getScheme())

        return self._call("look at", "", resolve)

    def _refuse_unless_atomic(self) -> None:
        if self._scheme in self._atomic_rename_schemes:
            return
        raise ConditionalPutUnsupportedError(
            root=self.root,
            path="",
            endpoint=f"the Hadoop file system for '{self._scheme}:'",
            cause="is not known to rename without overwriting in one step",
            way_out=(
                "Reading works. To write, store the table on HDFS, a local disk, S3, Google Cloud Storage or "
                "Azure Storage. If you know that its rename is atomic and never overwrites, add the scheme "
                "to the option 'anabranch.hadoop.atomicRenameSchemes'"
            ),
        )

    def _write_temporary(self, path: str, data: bytes) -> Any:
        """Write a durable temporary file in the directory of `path`."""
        name = f"{TEMPORARY_PREFIX}{secrets.token_hex(12)}.tmp"
        temporary = self._path(join_path(split_path(path)[0], name))
        try:
            self._call("write", path, lambda: self._write(temporary, data))
        except StorageError:
            self._discard(temporary)
            raise
        return temporary

    def _write(self, target: Any, data: bytes) -> None:
        stream = self._files.create(target, False)
        try:
            stream.write(bytes(data))
            if stream.hasCapability("hsync"):
                stream.hsync()
        finally:
            stream.close()

    def _discard(self, temporary: Any) -> None:
        with suppress(Py4JError, PySparkException):
            self._files.delete(temporary, False)

    def _outcome_of(self, error: Exception, path: str) -> PutOutcome:
        name = _java_class(error)
        if name == "FileAlreadyExistsException":
            return PutOutcome.EXISTS
        if name in _NOT_CREATED:
            raise self._translate(error, "write", path) from error
        # Also for "no such file": the temporary file is missing in a repeated call because the first one moved it.
        _LOG.warning("It is unknown whether %s was created in %s: %s", path, self.root, _describe(error))
        return PutOutcome.UNKNOWN

    def _rename_options(self, *options: Any) -> Any:
        array = self._session.gateway.new_array(self._jvm.org.apache.hadoop.fs.Options.Rename, len(options))
        for index, option in enumerate(options):
            array[index] = option
        return array

    def _chunks(self, path: str, offset: int, length: int | None) -> Iterator[bytes]:
        stream = self._files.open(self._path(path))
        try:
            if offset:
                stream.seek(offset)
            remaining = length
            while remaining is None or remaining > 0:
                wanted = _CHUNK_BYTES if remaining is None else min(remaining, _CHUNK_BYTES)
                chunk = bytes(stream.readNBytes(wanted))
                yield chunk
                if len(chunk) < wanted:
                    return
                remaining = None if remaining is None else remaining - len(chunk)
        finally:
            stream.close()

    def _list(self, directories: list[str]) -> list[tuple[str, HadoopFile]]:
        """The files and directories directly in `directories`, with paths relative to the root."""
        names = [join_path(self._qualified, directory) if directory else self._qualified for directory in directories]
        try:
            listed = self._call(
                "list", directories[0], lambda: list_directories(self._session.gateway, self._files, names)
            )
        except FileMissingError:
            # One of several directories was deleted meanwhile: the others are listed one by one.
            return [entry for directory in directories for entry in self._list([directory])] if len(names) > 1 else []
        return [(self._relative(file.path), file) for file in listed if file.path not in names]

    def _entries(self, enters: Enters) -> Iterator[Entry]:
        waiting = [""]
        while waiting:
            batch, waiting = waiting[:_DIRECTORIES_AT_ONCE], waiting[_DIRECTORIES_AT_ONCE:]
            for path, file in self._list(batch):
                if file.is_directory and enters(path):
                    waiting.append(path)
                    yield path, 0, file.modified_ms, True
                elif not file.is_directory and not is_temporary(split_path(path)[1]):
                    yield path, file.size_bytes, file.modified_ms, False

    def _relative(self, qualified: str) -> str:
        if not qualified.startswith(self._qualified + "/"):
            cause = f"the file system lists {qualified}, which is not below {self._qualified}"
            raise StorageError(root=self.root, path="", doing="list", cause=cause)
        return qualified[len(self._qualified) + 1 :]

    def _path(self, path: str) -> Any:
        check_file_path(path, root=self.root)
        return self._jvm.org.apache.hadoop.fs.Path(f"{self._qualified}/{path}")

    def _call(self, doing: str, path: str, request: Callable[[], _Result]) -> _Result:
        try:
            return request()
        except (Py4JError, PySparkException, ValueError) as error:
            if isinstance(error, DeltaError):
                raise
            raise self._translate(error, doing, path) from error

    def _translate(self, error: Exception, doing: str, path: str) -> StorageError:
        if _java_class(error) in {"FileNotFoundException", "NoSuchFileException"}:
            return FileMissingError(root=self.root, path=path, doing=doing)
        return StorageError(root=self.root, path=path, doing=doing, cause=_describe(error))


def _java_class(error: Exception) -> str:
    if not isinstance(error, Py4JJavaError):
        return type(error).__name__
    return str(error.java_exception.getClass().getSimpleName())


def _describe(error: Exception) -> str:
    message = str(error.java_exception.getMessage()) if isinstance(error, Py4JJavaError) else str(error)
    return redact(f"{_java_class(error)}: {message}")


def _stored(path: str, file: HadoopFile) -> StoredFile:
    return StoredFile(path=path, size_bytes=file.size_bytes, modified_ms=file.modified_ms)
