"""How the vectors of commits that landed first are read: together, and only those that may matter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from pyroaring import BitMap64

from anabranch.protocol.actions import AddFile
from anabranch.transactions.read_set import RowsOfFile
from anabranch.transactions.rows import deletion_vector_actions
from anabranch.transactions.rows.deletion_vector_actions import hide_rows
from anabranch.transactions.transaction import Transaction
from transactions.log_linter import lint
from transactions.table_on_memory import Writer, add, created, features, id_is, rival_of


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of vectors of each read. No vector is small enough for the log."""
    monkeypatch.setattr(deletion_vector_actions, "INLINE_BYTES_MAX", 0)
    load: Any = deletion_vector_actions.load_vectors
    counts: list[int] = []

    def load_vectors(store: Any, descriptors: Sequence[Any], **arguments: Any) -> Any:
        counts.append(len(descriptors))
        return load(store, descriptors, **arguments)

    monkeypatch.setattr(deletion_vector_actions, "load_vectors", load_vectors)
    return counts


def live(transaction: Transaction, path: str) -> AddFile:
    assert transaction.snapshot is not None
    (file,) = transaction.snapshot.files.at_path(path)
    return file


def deletes(writer: Writer, path: str, row: int) -> Any:
    """A DELETE of one row that is ready to commit."""
    transaction, rows = writer.begin("DELETE"), BitMap64([row])
    file = live(transaction, path)
    transaction.record_scan(
        id_is(row), files=[file.key], rows={file.key: rows}, reevaluate=lambda some: [BitMap64() for _ in some]
    )
    hides = hide_rows([RowsOfFile(file=file, positions=rows)], transaction.vectors, removed_at_ms=0)
    return lambda: transaction.commit(hides, deleted_rows={file.key: rows})


def test_vectors_of_all_winners_are_read_together(loads: list[int]) -> None:
    first = created(add("a"), protocol=features("deletionVectors"))
    ours = deletes(first, "a", 9)
    for row in range(4):
        deletes(rival_of(first, seed=row + 2), "a", row)()
    loads.clear()
    ours()
    assert loads == [4], "read winner by winner they were [1, 1, 1, 1]"
    reader = first.begin("READ")
    assert reader.vectors.hidden([live(reader, "a")]) == [BitMap64([0, 1, 2, 3, 9])]
    assert lint(first.store) == []


def test_a_vector_of_a_file_that_does_not_matter_is_not_read(loads: list[int]) -> None:
    first = created(add("a"), add("b"), protocol=features("deletionVectors"))
    ours = deletes(first, "a", 9)
    deletes(rival_of(first, seed=2), "a", 1)()
    deletes(rival_of(first, seed=3), "b", 1)()
    loads.clear()
    ours()
    assert loads == [1]
