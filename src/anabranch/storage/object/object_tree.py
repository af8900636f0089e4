"""The objects below a prefix, listed with as few requests one after the other as an ordered listing allows."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pyarrow as pa

from anabranch.storage.file_tree import LISTERS, Enters, Entry
from anabranch.storage.storage_paths import is_temporary, split_path

PAGE_SIZE = 1000
AFTER_ALL_NAMES = "\U0010ffff"
_WAITING_MAX = 4 * LISTERS

Page = Sequence[Entry]
ListPages = Callable[[str, str | None], Iterator[Page]]
"""Pages of what lies below a directory, of the names after an offset within it."""


def walk(pages: ListPages, enters: Enters, *, in_order: bool) -> Iterator[Entry]:
    """Every object below the root. Where a page ends inside a directory of the root, that one is listed by another
    thread, and the root's listing goes on behind it; one that `enters` declines costs a request and no more.

    A storage that lists in no order is listed from end to end.
    """
    if not in_order:
        for page in pages("", None):
            yield from _shown(page, enters)
        return
    with ThreadPoolExecutor(max_workers=LISTERS, thread_name_prefix="anabranch-list") as pool:
        waiting: list[Future[list[Entry]]] = []
        offset: str | None = None
        while True:
            cut = None
            for page in pages("", offset):
                cut = _cut_directory(page)
                whole = page if cut is None else [entry for entry in page if not entry[0].startswith(f"{cut}/")]
                yield from _shown(whole, enters)
                if cut is not None:
                    break
            if cut is None:
                break
            if enters(cut):
                waiting.append(pool.submit(_below, pages, cut))
            while len(waiting) > _WAITING_MAX:
                yield from _shown(waiting.pop(0).result(), enters)
            offset = f"{cut}/{AFTER_ALL_NAMES}"
        for each in waiting:
            yield from _shown(each.result(), enters)


def _below(pages: ListPages, directory: str) -> list[Entry]:
    return [entry for page in pages(directory, None) for entry in page]


def _cut_directory(page: Page) -> str | None:
    """The directory of the root within which a full page ends."""
    if len(page) < PAGE_SIZE:
        return None
    first, slash, _ = page[-1][0].partition("/")
    return first if slash else None


def _shown(page: Page, enters: Enters) -> Iterator[Entry]:
    declined: dict[str, bool] = {}
    for entry in page:
        first, slash, _ = entry[0].partition("/")
        if slash:
            if first not in declined:
                declined[first] = not enters(first)
            if declined[first]:
                continue
        if entry[0] and not is_temporary(split_path(entry[0])[1]):
            yield entry


# Random access to a file whose storage serves byte ranges.


class RangedFile(io.RawIOBase):
    """A file of `size_bytes` that asks `read_range(offset, length)` for what is read, and no more.

    Nothing is read ahead: Parquet's reader knows the ranges it wants, and they are large.
    """

    def __init__(self, size_bytes: int, read_range: Callable[[int, int], bytes]) -> None:
        super().__init__()
        self._size_bytes = size_bytes
        self._read_range = read_range
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size_bytes}[whence]
        if start + offset < 0:
            raise ValueError(f"cannot seek to {start + offset}")
        self._position = start + offset
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        remaining = max(self._size_bytes - self._position, 0)
        length = remaining if size is None or size < 0 else min(size, remaining)
        if length == 0:
            return b""
        data = self._read_range(self._position, length)
        self._position += len(data)
        return data

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def open_ranges(size_bytes: int, read_range: Callable[[int, int], bytes]) -> pa.NativeFile:
    """Such a file, as pyarrow takes it."""
    return pa.PythonFile(RangedFile(size_bytes, read_range), mode="r")
