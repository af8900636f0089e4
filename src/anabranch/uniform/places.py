"""Where files are, in the words of Iceberg's metadata: complete, plain, with a scheme."""

from __future__ import annotations

from collections.abc import Collection

from anabranch.protocol.data_paths import locate

METADATA_DIRECTORY = "metadata"
"""Of the table; where readers look for Iceberg's metadata."""


class Places:
    """The places of one table."""

    def __init__(self, table_root: str, *, allowed_prefixes: Collection[str] = ()) -> None:
        """`allowed_prefixes`: where data files outside of the root may lie, as in a shallow clone."""
        self._root = table_root.rstrip("/")
        self._allowed = allowed_prefixes
        self.location = _with_scheme(self._root)

    def of_add(self, uri: str) -> str:
        """The data file that the log calls `uri`. Raises `UnsafePathError`."""
        found = locate(uri, table_root=self._root, allowed_prefixes=self._allowed)
        if found.relative is not None:
            return self.of(found.relative)
        return _with_scheme(found.absolute)

    def of(self, relative: str) -> str:
        """The file at a plain path below the root."""
        return f"{self.location}/{relative}"

    def relative(self, location: str) -> str | None:
        """The path below the root, of a place that `of` told; None for any other."""
        start = f"{self.location}/"
        return location[len(start) :] if location.startswith(start) else None


def _with_scheme(path: str) -> str:
    return f"file://{path}" if path.startswith("/") else path
