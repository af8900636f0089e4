"""What a transaction has looked at, from which follows what may not change under it."""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt

from anabranch.predicates.expressions import TRUE, Predicate, is_opaque

FileKey = tuple[str, str | None]
"""Path and vector id: the identity of a logical file."""

FileMask = npt.NDArray[np.bool_]
"""One entry a file, in the order of the snapshot's files; True where the file was read."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scan:
    """One look at the table: the rows it asked for, and the files it opened to find them.

    Every row of the snapshot for which `predicate` is true is in one of `files`.
    """

    predicate: Predicate
    files: FileMask | frozenset[FileKey] | None
    """None stands for all files of the snapshot."""

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
