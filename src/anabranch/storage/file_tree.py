"""All files below a root as columns, and the deletion of many files, as VACUUM needs them."""

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
"""The columns of files and directories; paths as in `StoredFile`."""
PAGE_ROWS = 10_000
LISTERS = 8
"""Directories listed in parallel: enough to hide the latency of a network."""
FAILURES_MAX = 10
"""After this many failures the remaining files are not tried: the cause is most likely the same."""

Enters = Callable[[str], bool]
"""A function from the path of a directory to whether its content is listed."""
Entry = tuple[str, int, int, bool]
"""A row of `TREE_SCHEMA`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """The result of deleting many files."""

    count: int = 0
    """The number of files that certainly do not exist any more, including those that did not exist before."""
    failures: tuple[StorageError, ...] = ()
    """The errors for other files, at most `FAILURES_MAX`; with that many, some files were not tried."""

    def __add__(self, other: Deletion) -> Deletion:
        return Deletion(count=self.count + other.count, failures=self.failures + other.failures)


def pages_of(entries: Iterable[Entry]) -> Iterator[pa.Table]:
    """The entries as tables of `TREE_SCHEMA` of at most `PAGE_ROWS` rows."""
    rows: list[Entry] = []
    for entry in entries:
        rows.append(entry)
        if len(rows) >= PAGE_ROWS:
            yield tree_page(rows)
            rows = []
    if rows:
        yield tree_page(rows)


def tree_page(rows: Sequence[Entry]) -> pa.Table:
    """The entries as one table, without names that are not Unicode text: no log or command can have them."""
    try:
        return _table(rows)
    except UnicodeEncodeError:
        return _table([row for row in rows if _is_text(row[0])])


def delete_one_by_one(paths: Sequence[str], delete: Callable[[str], None]) -> Deletion:
    """Delete files with one call each. `delete` raises `StorageError`, but not for a missing file."""
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
