"""Files of which a part would be taken for the whole."""

from __future__ import annotations

from anabranch.errors.environment import FileMissingError, StorageError
from anabranch.storage.log_store import LogStore, StoredFile


def read_whole(store: LogStore, file: StoredFile) -> bytes:
    """The content of a file that was listed, if it has the listed size.

    A part of a file of lines that ends where a line ends looks like a file with fewer lines, such as a commit without
    its last actions. Raises `StorageError` for a part, and `FileMissingError` where another file is there by now.
    """
    data = store.read(file.path)
    if len(data) >= file.size_bytes:
        return data
    now = store.head(file.path)
    if now is None or now.size_bytes != file.size_bytes:
        raise FileMissingError(root=store.root, path=file.path)
    cause = f"the storage returned {len(data)} of its {file.size_bytes} bytes"
    raise StorageError(root=store.root, path=file.path, doing="read", cause=cause)
