"""Listing and deleting files of a directory tree on a local disk, without following links."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from errno import EEXIST, ENOTEMPTY

from anabranch.storage.file_tree import LISTERS, Enters, Entry
from anabranch.storage.log_store import is_temporary, join_path, split_path

_DIRECTORIES_AT_ONCE = 256
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def walk(root: str, enters: Enters) -> Iterator[Entry]:
    """The files and directories below `root`. Links are neither listed nor followed. Raises `OSError`."""
    waiting = [""]
    with ThreadPoolExecutor(max_workers=LISTERS, thread_name_prefix="anabranch-list") as pool:
        while waiting:
            batch, waiting = waiting[:_DIRECTORIES_AT_ONCE], waiting[_DIRECTORIES_AT_ONCE:]
            for entries in pool.map(lambda directory: _entries(root, directory), batch):
                for entry in entries:
                    if not entry[3]:
                        yield entry
                    elif enters(entry[0]):
                        waiting.append(entry[0])
                        yield entry


def delete_files(root: str, paths: Sequence[str]) -> Iterator[tuple[str, OSError | None]]:
    """Delete files with their Hadoop checksums; yields each path with its error, if there was one.

    Directories are opened one below the other, and none through a link: a link created meanwhile cannot cause
    the deletion of files outside the root.
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
            yield path, _unlink(opened[1], name)
    finally:
        if opened is not None:
            _close(opened[1])


def remove_directory(root: str, path: str) -> bool:
    """Remove the directory if it is empty; whether it was removed. Raises `OSError`."""
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
    entries: list[Entry] = []
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
                entries.append((join_path(directory, entry.name), size, status.st_mtime_ns // 1_000_000, is_directory))
    return entries


def _unlink(directory: int, name: str) -> OSError | None:
    try:
        for file_name in (f".{name}.crc", name):
            with suppress(FileNotFoundError):
                os.unlink(file_name, dir_fd=directory)
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
    """A descriptor of a directory below `root`. A link in its path raises `NotADirectoryError` on Linux."""
    descriptor = os.open(root, _DIRECTORY)
    for segment in directory.split("/") if directory else []:
        try:
            child = os.open(segment, _DIRECTORY | os.O_NOFOLLOW, dir_fd=descriptor)
        finally:
            _close(descriptor)
        descriptor = child
    return descriptor


def _close(directory: int) -> None:
    """Close a descriptor. Errors are ignored, since nothing was written through it."""
    with suppress(OSError):
        os.close(directory)
