"""The tree of a local disk: listed, and cleared, without ever following a link."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from errno import EEXIST, ENOTEMPTY

from anabranch.storage.file_tree import LISTERS, Enters, Entry
from anabranch.storage.storage_paths import is_temporary, join_path, split_path

_DIRECTORIES_AT_ONCE = 256
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def walk(root: str, enters: Enters) -> Iterator[Entry]:
    """What lies below `root`. Links are neither shown nor followed. Raises `OSError`."""
    waiting = [""]
    with ThreadPoolExecutor(max_workers=LISTERS, thread_name_prefix="anabranch-list") as pool:
        while waiting:
            now, waiting = waiting[:_DIRECTORIES_AT_ONCE], waiting[_DIRECTORIES_AT_ONCE:]
            for entries in pool.map(lambda directory: _entries(root, directory), now):
                for entry in entries:
                    if not entry[3]:
                        yield entry
                    elif enters(entry[0]):
                        waiting.append(entry[0])
                        yield entry


def delete_files(root: str, paths: Sequence[str]) -> Iterator[tuple[str, OSError | None]]:
    """Remove files and what Hadoop keeps beside them; says of each what went wrong.

    Directories are opened one below the other, and none through a link: whoever puts one in the way meanwhile
    cannot have anything removed elsewhere.
    """
    opened: tuple[str, int] | None = None
    try:
        for path in paths:
            directory, name = split_path(path)
            if opened is None or opened[0] != directory:
                if opened is not None:
                    _close(opened[1])
                opened = None
                try:
                    opened = directory, _open(root, directory)
                except (FileNotFoundError, NotADirectoryError):
                    yield path, None
                    continue
                except OSError as error:
                    yield path, error
                    continue
            yield path, _unlinked(opened[1], name)
    finally:
        if opened is not None:
            _close(opened[1])


def remove_directory(root: str, path: str) -> bool:
    """Remove it if it is empty. Raises `OSError`."""
    parent, name = split_path(path)
    try:
        with _opened(root, parent) as descriptor:
            os.rmdir(name, dir_fd=descriptor)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        if error.errno in {ENOTEMPTY, EEXIST}:
            return False
        raise
    return True


def _entries(root: str, directory: str) -> list[Entry]:
    found: list[Entry] = []
    with suppress(FileNotFoundError, NotADirectoryError), closing(os.scandir(os.path.join(root, directory))) as scan:
        for entry in scan:
            if is_temporary(entry.name):
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            is_directory = stat.S_ISDIR(status.st_mode)
            if is_directory or stat.S_ISREG(status.st_mode):
                size = 0 if is_directory else status.st_size
                found.append((join_path(directory, entry.name), size, status.st_mtime_ns // 1_000_000, is_directory))
    return found


def _unlinked(directory: int, name: str) -> OSError | None:
    try:
        for each in (f".{name}.crc", name):
            with suppress(FileNotFoundError):
                os.unlink(each, dir_fd=directory)
    except OSError as error:
        return error
    return None


@contextmanager
def _opened(root: str, directory: str) -> Iterator[int]:
    descriptor = _open(root, directory)
    try:
        yield descriptor
    finally:
        _close(descriptor)


def _open(root: str, directory: str) -> int:
    """A descriptor of a directory below `root`. On Linux a link in the way is `NotADirectoryError`."""
    descriptor = os.open(root, _DIRECTORY)
    for segment in directory.split("/") if directory else []:
        try:
            below = os.open(segment, _DIRECTORY | os.O_NOFOLLOW, dir_fd=descriptor)
        finally:
            _close(descriptor)
        descriptor = below
    return descriptor


def _close(directory: int) -> None:
    """Nothing was written through it, so nothing is lost where that fails."""
    with suppress(OSError):
        os.close(directory)
