"""What a transaction has looked at, from which follows what may not change under it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from pyroaring import BitMap64

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
    """From zero, none of them hidden by the file's vector. None stands for all that the vector leaves."""


EvaluateRows = Callable[[Sequence[RowsOfFile]], Sequence[BitMap64 | None]]
"""For each entry, which of its rows satisfy a condition; None where that cannot be told."""

DescribeRows = Callable[[Sequence[RowsOfFile]], Sequence[str]]
"""These rows by their values, as `id = 5, name = 'x'`, one text a row. They were live once, and their files may be
gone; it may raise whatever comes of that."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scan:
    """One look at the table: the rows it asked for, and the files it opened to find them.

    Every row of the snapshot for which `predicate` is true is in one of `files`.
    """

    predicate: Predicate
    files: FileMask | frozenset[FileKey] | None
    """None stands for all files of the snapshot."""
    rows: Mapping[FileKey, BitMap64] | None = None
    """The rows that satisfied the condition, by file; a file that is left out holds none. None where they are
    not known, as for a condition that is not deterministic: then every row of `files` counts."""
    again: EvaluateRows | None = None
    """Asks the very same condition of other rows: with clock, session and, for MERGE, the source as they were
    when the table was read. None where it cannot be asked."""

    @property
    def reads_everything(self) -> bool:
        """Whether any row at all may matter to it."""
        return self.predicate == TRUE or is_opaque(self.predicate)


WHOLE_TABLE = Scan(predicate=TRUE, files=None)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReadSet:
    """Everything that a transaction has looked at."""

    scans: tuple[Scan, ...] = ()
    application_ids: frozenset[str] = frozenset()
    """Applications whose progress was looked up."""

    @property
    def reads_rows(self) -> bool:
        return bool(self.scans)
