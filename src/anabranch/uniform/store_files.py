"""The table's own storage, as Iceberg's library asks for files."""

from __future__ import annotations

import io

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream

from anabranch.errors.storage import FileMissingError
from anabranch.storage.log_store import LogStore
from anabranch.uniform.places import Places


class StoreFiles(FileIO):
    """Reads and writes files below the root of a table. A file is stored when it is complete."""

    def __init__(self, store: LogStore, places: Places) -> None:
        super().__init__()
        self._store = store
        self._places = places

    def new_input(self, location: str) -> InputFile:
        return _Input(self._store, self._path(location), location)

    def new_output(self, location: str) -> OutputFile:
        return _Output(self._store, self._path(location), location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self._store.delete(self._path(location if isinstance(location, str) else location.location))

    def _path(self, location: str) -> str:
        found = self._places.relative(location)
        if found is None:
            raise FileMissingError(root=self._store.root, path=location)
        return found


class _Input(InputFile):
    def __init__(self, store: LogStore, path: str, location: str) -> None:
        super().__init__(location)
        self._store = store
        self._path = path

    def __len__(self) -> int:
        found = self._store.head(self._path)
        return 0 if found is None else found.size_bytes

    def exists(self) -> bool:
        return self._store.head(self._path) is not None

    def open(self, seekable: bool = True) -> InputStream:  # noqa: ARG002 - the library's signature
        return io.BytesIO(self._store.read(self._path))


class _Output(OutputFile):
    def __init__(self, store: LogStore, path: str, location: str) -> None:
        super().__init__(location)
        self._store = store
        self._path = path
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def exists(self) -> bool:
        return self._store.head(self._path) is not None

    def to_input_file(self) -> InputFile:
        return _Input(self._store, self._path, self.location)

    def create(self, overwrite: bool = False) -> OutputStream:  # noqa: ARG002 - names are never used twice
        return _Complete(self)

    def stored(self, data: bytes) -> None:
        """Store the file, which is complete."""
        self._store.put(self._path, data)
        self._size = len(data)


class _Complete(io.BytesIO):
    """Keeps what is written until it is closed."""

    def __init__(self, output: _Output) -> None:
        super().__init__()
        self._output = output

    def close(self) -> None:
        if not self.closed:
            self._output.stored(self.getvalue())
        super().close()
