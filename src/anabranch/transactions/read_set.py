"""What a transaction has read, which decides what other commits may not change before it commits."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from pyroaring import BitMap64

from anabranch.errors.commits import RowValues
from anabranch.log.file_columns import FileMask
from anabranch.predicates.expressions import TRUE, Predicate, is_opaque
from anabranch.protocol.actions import AddFile

FileKey = tuple[str, str | None]
"""Path and vector id: the identity of a logical file."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RowsOfFile:
    """Some rows of one logical file."""

    file: AddFile
    positions: BitMap64 | None
    """Counted from 0, none of them hidden by the file's vector. None means all visible rows of the file."""


EvaluateRows = Callable[[Sequence[RowsOfFile]], Sequence[BitMap64 | None]]
"""Returns for each entry which of its rows satisfy a condition; None where that cannot be evaluated."""

DescribeRows = Callable[[Sequence[RowsOfFile]], Sequence[RowValues]]
"""Returns the values of these rows, for messages. The rows were live once; their files may have been deleted since, and
then it may raise any exception."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scan:
    """One read of the table: the rows that it selected, and the files that it opened to find them.

    Every row of the snapshot for which `predicate` is true is in one of `files`.
    """

    predicate: Predicate
    files: FileMask | frozenset[FileKey] | None
    """None means all files of the snapshot."""
    rows: Mapping[FileKey, BitMap64] | None = None
    """The rows that satisfied the condition, by file; a file that is missing has none. None where the rows are not
    known, as for a condition that is not deterministic: then every row of `files` counts."""
    reevaluate: EvaluateRows | None = None
    """Evaluates the same condition for other rows: with clock, session and, for MERGE, the source as they were
    when the table was read. None where it cannot be evaluated again."""

    @property
    def reads_everything(self) -> bool:
        """Whether any row of the table may satisfy the condition."""
        return self.predicate == TRUE or is_opaque(self.predicate)


WHOLE_TABLE = Scan(predicate=TRUE, files=None)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReadSet:
    """Everything that a transaction has read."""

    scans: tuple[Scan, ...] = ()
    application_ids: frozenset[str] = frozenset()
    """Applications whose progress was read."""
