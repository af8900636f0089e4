"""What a commit says to take rows out of a file."""

from __future__ import annotations

import json
import random

import pytest
from pyroaring import BitMap64

from anabranch.errors.commits import RowsNotLiveError
from anabranch.protocol.actions import AddFile, RemoveFile
from anabranch.storage.memory_store import MemoryStore
from anabranch.transactions.read_set import RowsOfFile
from anabranch.transactions.rows.deletion_vector_actions import StoredVectors, hide_rows
from transactions.table_on_memory import add


def vectors() -> StoredVectors:
    return StoredVectors(MemoryStore(), random.Random(0))


def hidden(file: AddFile, *positions: int) -> list[AddFile | RemoveFile]:
    return hide_rows([RowsOfFile(file=file, positions=BitMap64(positions))], vectors(), removed_at_ms=5)


def test_some_rows_of_a_file() -> None:
    file = add("a", rows=10)
    removed, added = hidden(file, 3, 4)
    assert isinstance(removed, RemoveFile)
    assert isinstance(added, AddFile)
    assert (removed.key, removed.deletion_timestamp, removed.data_change) == (file.key, 5, True)
    assert added.deletion_vector is not None
    assert added.deletion_vector.cardinality == 2
    assert added.stats is not None
    assert json.loads(added.stats)["tightBounds"] is False


def test_more_rows_of_the_same_file() -> None:
    _, first = hidden(add("a", rows=10), 3, 4)
    assert isinstance(first, AddFile)
    removed, added = hidden(first, 7)
    assert removed.key == first.key
    assert added.deletion_vector is not None
    assert vectors().hidden([added]) == [BitMap64([3, 4, 7])]  # type: ignore[list-item]


def test_the_last_rows_of_a_file() -> None:
    _, first = hidden(add("a", rows=3), 0, 1)
    assert isinstance(first, AddFile)
    (removed,) = hidden(first, 2)
    assert isinstance(removed, RemoveFile)


def test_a_file_that_does_not_say_how_many_rows_it_has() -> None:
    """It may hold more than were hidden, so it stays."""
    assert len(hidden(add("a", ids=None), 0, 1, 2)) == 2


@pytest.mark.parametrize("position", [3, 10, 11])
def test_rows_that_are_not_there(position: int) -> None:
    """Hidden before, or beyond the end: another writer's change would be lost silently."""
    _, first = hidden(add("a", rows=10), 3)
    assert isinstance(first, AddFile)
    with pytest.raises(RowsNotLiveError) as raised:
        hidden(first, position)
    assert raised.value.position == position
    assert "Nothing" in type(raised.value).__doc__  # type: ignore[operator]
