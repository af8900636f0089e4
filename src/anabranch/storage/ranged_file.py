"""Random access to a file whose storage serves byte ranges."""

from __future__ import annotations

import io
from collections.abc import Callable

import pyarrow as pa


class RangedFile(io.RawIOBase):
    """A file of `size_bytes` that calls `read_range(offset, length)` for exactly the bytes that are read.

    Nothing is read ahead: Parquet's reader requests large ranges.
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
    """A `RangedFile` for pyarrow."""
    return pa.PythonFile(RangedFile(size_bytes, read_range), mode="r")
