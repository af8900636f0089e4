"""Small tables that MERGE reads as it reads large ones."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from unittest import mock

from anabranch.commands.dml import file_sample
from anabranch.commands.merge import merge_rows


@contextlib.contextmanager
def every_table_is_large() -> Iterator[None]:
    """A block in which MERGE looks at some files first and filters rows by keys, however small the table is."""
    with (
        mock.patch.object(file_sample, "SAMPLED_BYTES_MIN", 0),
        mock.patch.object(merge_rows, "FILTERED_BYTES_MIN", 0),
    ):
        yield
