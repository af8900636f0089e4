"""Locations of the files of a table as Iceberg's metadata has them."""

from __future__ import annotations

from collections.abc import Collection

from anabranch.protocol.data_paths import locate

METADATA_DIRECTORY = "metadata"
"""The directory of a table in which readers look for Iceberg's metadata."""


class TableLocations:
    """Locations of the files of one table as in Iceberg's metadata: absolute, not encoded, with a scheme."""

    def __init__(self, table_root: str, *, allowed_prefixes: Collection[str] = ()) -> None:
        """`allowed_prefixes` are folders outside of the root in which data files may lie, as in a shallow clone."""
        self._root = table_root.rstrip("/")
        self._allowed = allowed_prefixes
        self.location = _with_scheme(self._root)

    def of_data_file(self, uri: str) -> str:
        """The location of the data file `uri`, as the log names it. Raises `UnsafePathError`."""
        path = locate(uri, table_root=self._root, allowed_prefixes=self._allowed)
        if path.relative is not None:
            return self.of_path(path.relative)
        return _with_scheme(path.absolute)

    def of_path(self, relative: str) -> str:
        """The location of the file at a path below the root, not encoded."""
        return f"{self.location}/{relative}"

    def relative(self, location: str) -> str | None:
        """The path of a location below the root; None for any other location."""
        start = f"{self.location}/"
        return location[len(start) :] if location.startswith(start) else None


def _with_scheme(path: str) -> str:
    return f"file://{path}" if path.startswith("/") else path
