"""All files below a root, as columns, and many files removed at once: what clearing up needs of a storage."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa

from anabranch.errors.environment import StorageError

TREE_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64(), nullable=False),
        pa.field("modified_ms", pa.int64(), nullable=False),
        pa.field("is_directory", pa.bool_(), nullable=False),
    ]
)
"""One row a file or directory; paths as in `StoredFile`."""
PAGE_ROWS = 10_000
LISTERS = 8
"""Directories listed at once: enough to hide the latency of a network."""
FAILURES_MAX = 10
"""So many failures tell enough of what is wrong; the rest of the files is left alone then."""

Enters = Callable[[str], bool]
"""Whether to look into a directory, by its path."""
Entry = tuple[str, int, int, bool]
"""A row of `TREE_SCHEMA`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """What came of removing many files."""

    count: int = 0
    """Files that are surely gone, those among them that were not there to begin with."""
    failures: tuple[StorageError, ...] = ()
    """Of files that are not; `FAILURES_MAX` at most, and then others were not tried."""

    def __add__(self, other: Deletion) -> Deletion:
        return Deletion(count=self.count + other.count, failures=self.failures + other.failures)


def pages_of(entries: Iterable[Entry]) -> Iterator[pa.Table]:
    """The entries as tables of `TREE_SCHEMA`, each of a few thousand rows."""
    rows: list[Entry] = []
    for entry in entries:
        rows.append(entry)
        if len(rows) >= PAGE_ROWS:
            yield tree_page(rows)
            rows = []
    if rows:
        yield tree_page(rows)


def tree_page(rows: Sequence[Entry]) -> pa.Table:
    """One table. A name that is no Unicode text is left out: no log can name it, and no command ours to handle."""
    try:
        return _table(rows)
    except UnicodeEncodeError:
        return _table([row for row in rows if _is_text(row[0])])


def delete_one_by_one(paths: Sequence[str], delete: Callable[[str], None]) -> Deletion:
    """For a storage that has nothing better; `delete` raises `StorageError`, and not for a file that is missing."""
    count, failures = 0, list[StorageError]()
    for path in paths:
        try:
            delete(path)
            count += 1
        except StorageError as error:
            failures.append(error)
            if len(failures) >= FAILURES_MAX:
                break
    return Deletion(count=count, failures=tuple(failures))


def _table(rows: Sequence[Entry]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(TREE_SCHEMA)
    return pa.table(
        [pa.array(list(column), field.type) for column, field in zip(columns, TREE_SCHEMA, strict=True)],
        schema=TREE_SCHEMA,
    )


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
