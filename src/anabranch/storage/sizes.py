"""Files that are too large to be what they are said to be."""

from __future__ import annotations

from anabranch.errors.storage import FileTooLargeError


def check_size(size_bytes: int, size_max: int | None, *, root: str, path: str) -> None:
    """Raises `FileTooLargeError`."""
    if size_max is not None and size_bytes > size_max:
        raise FileTooLargeError(root=root, path=path, size_bytes=size_bytes, size_max=size_max)
