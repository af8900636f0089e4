"""The storage of a table in the form that pyiceberg reads and writes."""

from __future__ import annotations

import io

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream

from anabranch.errors.environment import FileMissingError
from anabranch.storage.log_store import LogStore
from anabranch.uniform.table_locations import TableLocations


class StoreFiles(FileIO):
    """The storage of a table as pyiceberg's `FileIO`. A written file is stored as a whole when it is closed."""

    def __init__(self, store: LogStore, locations: TableLocations) -> None:
        super().__init__()
        self._store = store
        self._locations = locations

    def new_input(self, location: str) -> InputFile:
        return _Input(self._store, self._path(location), location)

    def new_output(self, location: str) -> OutputFile:
        return _Output(self._store, self._path(location), location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self._store.delete(self._path(location if isinstance(location, str) else location.location))

    def _path(self, location: str) -> str:
        path = self._locations.relative(location)
        if path is None:
            raise FileMissingError(root=self._store.root, path=location)
        return path


class _Input(InputFile):
    def __init__(self, store: LogStore, path: str, location: str) -> None:
        super().__init__(location)
        self._store = store
        self._path = path

    def __len__(self) -> int:
        file = self._store.head(self._path)
        return 0 if file is None else file.size_bytes

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
        return _BufferedOutput(self)

    def store(self, data: bytes) -> None:
        """Store the complete file."""
        self._store.put(self._path, data)
        self._size = len(data)


class _BufferedOutput(io.BytesIO):
    """Keeps the written bytes until it is closed."""

    def __init__(self, output: _Output) -> None:
        super().__init__()
        self._output = output

    def close(self) -> None:
        if not self.closed:
            self._output.store(self.getvalue())
        super().close()
