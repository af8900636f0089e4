"""Files on a local disk."""

from __future__ import annotations

import errno
import io
import os
import stat
import threading
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from anabranch.clock import Clock, SystemClock
from anabranch.errors.environment import (
    ConditionalPutUnsupportedError,
    FileMissingError,
    PathOutsideTableError,
    StorageError,
    UnsupportedStorageError,
)
from anabranch.storage.file_tree import FAILURES_MAX, Deletion, Enters, pages_of
from anabranch.storage.local import durable_files, local_tree
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
)

_TEMPORARY = os.fsencode(TEMPORARY_PREFIX)


class LocalStore:
    """A `LogStore` on a disk, for any number of threads and processes.

    A put writes and syncs a temporary file, links it to its name, then syncs the directory. So a file is
    complete or missing, one of two writers wins, and a put that returned survives a power loss. Names that
    are not UTF-8 are listed with surrogates, which all methods accept.

    Writing and deleting do not follow a symbolic link out of the root. Reading follows links.
    """

    def __init__(self, root: str, clock: Clock | None = None) -> None:
        self.root = local_path(root)
        self._clock = clock or SystemClock()
        self._prepared: set[str] = set()
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"LocalStore({self.root!r})"

    @property
    def identity(self) -> Hashable:
        return "local", self.root

    def list_from(self, directory: str, start_after: str = "") -> Iterator[StoredFile]:
        absolute = self._directory(directory)
        floor = os.fsencode(start_after)
        with self._errors("list", directory):
            try:
                # As bytes, names are their own keys to sort by.
                names = os.listdir(os.fsencode(absolute))
            except (FileNotFoundError, NotADirectoryError):
                return iter(())
        # Only files after `start_after` are looked at: most files of a long log are before it.
        wanted = sorted([name for name in names if name > floor and not name.startswith(_TEMPORARY)])
        return self._files(f"{directory}/" if directory else "", wanted)

    def _files(self, prefix: str, names: Sequence[bytes]) -> Iterator[StoredFile]:
        """The files with these names, in the directory of paths with this prefix."""
        absolute = os.path.join(self.root, prefix)
        for name in map(os.fsdecode, names):
            file = self._stat(absolute + name, prefix + name)
            if file is not None:
                yield file

    def list_tree(self, directory: str = "") -> Iterator[StoredFile]:
        waiting = [directory]
        self._directory(directory)
        while waiting:
            current = waiting.pop()
            with self._errors("list", current):
                try:
                    entries = list(os.scandir(self._directory(current)))
                except (FileNotFoundError, NotADirectoryError):
                    continue
            for entry in entries:
                path = join_path(current, entry.name)
                # A linked directory is outside the table: VACUUM must not list its files.
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(path)
                elif not is_temporary(entry.name) and (file := self._stat(entry.path, path)) is not None:
                    yield file

    def walk(self, enters: Enters) -> Iterator[pa.Table]:
        with self._errors("list", ""):
            yield from pages_of(local_tree.walk(self.root, enters))

    def head(self, path: str) -> StoredFile | None:
        return self._stat(self._file(path), path)

    def read(self, path: str, *, size_max: int | None = None) -> bytes:
        with self._errors("read", path), _open_file(self._file(path)) as file:
            check_size(os.fstat(file.fileno()).st_size, size_max, root=self.root, path=path)
            return file.readall()

    def read_range(self, path: str, offset: int, length: int) -> bytes:
        with self._errors("read", path), _open_file(self._file(path)) as file:
            size = os.fstat(file.fileno()).st_size
            if offset < 0 or length < 0 or offset + length > size:
                cause = f"bytes {offset} to {offset + length} of a file of {size}"
                raise StorageError(root=self.root, path=path, doing="read", cause=cause)
            file.seek(offset)
            return _read_exactly(file.fileno(), length)

    def open(self, path: str) -> pa.NativeFile:
        # Without a memory map, which would kill the process if another one truncated the file.
        with self._errors("open", path):
            # Checked first: opening a pipe waits for its writer.
            if not stat.S_ISREG(os.stat(self._file(path)).st_mode):
                raise FileMissingError(root=self.root, path=path, doing="open")
            return pa.OSFile(self._file(path))

    def put_if_absent(self, path: str, data: bytes) -> PutOutcome:
        target = self._writable(path)
        with self._errors("write", path):
            self._prepare(os.path.dirname(target))
            try:
                return durable_files.create(target, data)
            except durable_files.ExclusiveCreateUnsupported as error:
                raise self._cannot_create_exclusively(error) from error
            except FileNotFoundError:
                # The directory was removed since it was prepared.
                self._prepare(os.path.dirname(target), again=True)
                return durable_files.create(target, data)

    def make_durable(self, path: str) -> None:
        with self._errors("sync", path):
            durable_files.sync_directory(os.path.dirname(self._file(path)))

    def put(self, path: str, data: bytes) -> None:
        target = self._writable(path)
        with self._errors("write", path):
            self._prepare(os.path.dirname(target))
            try:
                durable_files.replace(target, data)
            except FileNotFoundError:
                self._prepare(os.path.dirname(target), again=True)
                durable_files.replace(target, data)

    def delete(self, path: str) -> None:
        with self._errors("delete", path):
            durable_files.remove(self._writable(path))

    def delete_many(self, paths: Sequence[str]) -> Deletion:
        count, failures = 0, list[StorageError]()
        for path, error in local_tree.delete_files(self.root, check_file_paths(paths, root=self.root)):
            if error is None:
                count += 1
                continue
            failures.append(self._failure(error, "delete", path))
            if len(failures) >= FAILURES_MAX:
                break
        return Deletion(count=count, failures=tuple(failures))

    def remove_directory(self, path: str) -> bool:
        with self._errors("delete", path):
            return local_tree.remove_directory(self.root, check_file_path(path, root=self.root))

    def _prepare(self, directory: str, *, again: bool = False) -> None:
        """Create `directory` durably, once in the life of the store unless `again`."""
        with self._lock:
            if directory in self._prepared and not again:
                return
        durable_files.make_directories(directory, durable_below=self.root)
        durable_files.sync_above(self.root)
        durable_files.remove_abandoned(directory, now_ms=self._clock.now_ms())
        with self._lock:
            self._prepared.add(directory)

    def _stat(self, absolute: str, path: str) -> StoredFile | None:
        try:
            status = os.stat(absolute)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._failure(error, "look at", path) from error
        if not stat.S_ISREG(status.st_mode):
            return None
        return StoredFile(path=path, size_bytes=status.st_size, modified_ms=status.st_mtime_ns // 1_000_000)

    def _directory(self, directory: str) -> str:
        return os.path.join(self.root, check_directory_path(directory, root=self.root))

    def _file(self, path: str) -> str:
        return os.path.join(self.root, check_file_path(path, root=self.root))

    def _writable(self, path: str) -> str:
        target = self._file(path)
        real_root = os.path.realpath(self.root)
        real_directory = os.path.realpath(os.path.dirname(target))
        if real_directory != real_root and not real_directory.startswith(real_root.rstrip("/") + "/"):
            reason = "leads out of the table by a symbolic link"
            raise PathOutsideTableError(root=self.root, path=path, reason=reason)
        return target

    def _cannot_create_exclusively(self, error: OSError) -> ConditionalPutUnsupportedError:
        return ConditionalPutUnsupportedError(
            root=self.root,
            path="",
            endpoint="its file system",
            cause=f"has neither hard links nor a rename that keeps an existing file ({error.strerror})",
            way_out="Store the table on another file system, such as ext4, XFS, Btrfs, ZFS, APFS, tmpfs or NFS",
        )

    @contextmanager
    def _errors(self, doing: str, path: str) -> Iterator[None]:
        try:
            yield
        except StorageError:
            # A missing file is an OSError, too, and already has its path.
            raise
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
            if doing == "write":
                # The folder to write into is missing.
                raise self._failure(error, doing, path) from error
            raise FileMissingError(root=self.root, path=path, doing=doing) from error
        except OSError as error:
            raise self._failure(error, doing, path) from error

    def _failure(self, error: OSError, doing: str, path: str) -> StorageError:
        name = errno.errorcode.get(error.errno or 0, "unknown")
        cause = f"{error.strerror or error} ({name})"
        return StorageError(root=self.root, path=path, doing=doing, cause=cause)


def local_path(root: str) -> str:
    """The absolute path of `root`, which is a path, with or without `~`, or a `file:` URL.

    A `%` in a URL stays as it is, as in Hadoop and so in Spark.
    """
    if not root.startswith("file:"):
        return os.path.abspath(os.path.expanduser(root))
    path = root.removeprefix("file:")
    if path.startswith("//"):
        host, slash, rest = path[2:].partition("/")
        if host not in {"", "localhost"}:
            reason = f"it has the host {host!r}"
            raise UnsupportedStorageError(
                url=root, reason=reason, way_out="Write files of this machine as file:///path"
            )
        path = slash + rest
    if not path.startswith("/"):
        raise UnsupportedStorageError(
            url=root, reason="its path is not absolute", way_out="Write files of this machine as file:///path"
        )
    return os.path.abspath(path)


def _open_file(path: str) -> io.FileIO:
    """Open a regular file. Raises `FileNotFoundError` for a pipe or a device: it may have no end, or block for ever."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise FileNotFoundError(errno.ENOENT, "it is not a regular file", path)
        return open(descriptor, "rb", buffering=0)
    except BaseException:
        os.close(descriptor)
        raise


def _read_exactly(descriptor: int, length: int) -> bytes:
    parts: list[bytes] = []
    remaining = length
    while remaining:
        part = os.read(descriptor, remaining)
        if not part:
            raise OSError(errno.EIO, "the file was truncated while it was read")
        parts.append(part)
        remaining -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
