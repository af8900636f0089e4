"""Small tables that MERGE and UPDATE read as they read large ones."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from unittest import mock

from anabranch.commands.dml import file_sample
from anabranch.commands.dml.target_table import ReadFiles, TargetRows
from anabranch.commands.merge import merge_rows
from anabranch.log.file_columns import FileMask


@contextlib.contextmanager
def every_table_is_large() -> Iterator[None]:
    """A block in which statements look at some files first, and MERGE filters rows by keys, however small the table is."""
    with (
        mock.patch.object(file_sample, "SAMPLED_BYTES_MIN", 0),
        mock.patch.object(merge_rows, "FILTERED_BYTES_MIN", 0),
    ):
        yield


@contextlib.contextmanager
def counted_reads() -> Iterator[list[int]]:
    """How many files each read of such a table has, in order."""
    numbers: list[int] = []
    read = TargetRows.read

    def counted(target: TargetRows, files: FileMask, *, pruned: bool = True) -> ReadFiles:
        numbers.append(int(files.sum()))
        return read(target, files, pruned=pruned)

    with mock.patch.object(TargetRows, "read", counted), every_table_is_large():
        yield numbers
