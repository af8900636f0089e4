"""What an open transaction keeps in memory: as much as its statements read and change, also of a large table."""

from __future__ import annotations

import gc
import sys
from typing import Any

import numpy as np

from anabranch.transactions.read_set import Scan
from transactions.table_on_memory import add, created, id_is
from transactions.test_several_statements import VECTORS, Open

STATEMENTS = 5
CONTAINERS = (dict, list, tuple, set, frozenset)


def opened(num_files: int) -> Open:
    """A transaction on a table of so many files: INSERTs, DELETEs in old files, and queries that open one file."""
    ours = Open(created(*(add(f"f{number:06d}") for number in range(num_files)), protocol=VECTORS))
    for number in range(STATEMENTS):
        ours.begin().commit([add(f"new{number}")])
        ours.delete(f"f{number:06d}", 3)
        seen = ours.target.snapshot
        files = np.zeros(seen.files.count, dtype=bool)
        files[100 + number] = True
        ours.target.record_scan(Scan(predicate=id_is(5), files=files), seen)
    return ours


def bytes_kept(ours: Open) -> int:
    """The size of what the transaction refers to, and neither the table's log nor the version that it began with does."""
    visited: set[int] = set()
    sum_of_sizes(ours.target.base, visited)
    sum_of_sizes(ours.target.committed, visited)
    return sum_of_sizes(ours.transaction, visited)


def sum_of_sizes(root: object, visited: set[int]) -> int:
    total, left = 0, [root]
    while left:
        value: Any = left.pop()
        if id(value) in visited:
            continue
        visited.add(id(value))
        total += value.nbytes if isinstance(value, np.ndarray) else sys.getsizeof(value)
        if isinstance(value, CONTAINERS) or type(value).__module__.startswith("anabranch."):
            left += [other for other in gc.get_referents(value) if not isinstance(other, type)]
    return total


def test_a_transaction_keeps_as_much_of_a_large_table_as_of_a_small_one() -> None:
    """A byte for each file and statement would be 150 kB more."""
    small, large = opened(500), opened(10_500)
    assert len(large.target.statements) == 2 * STATEMENTS
    assert bytes_kept(small) > 10_000
    assert abs(bytes_kept(large) - bytes_kept(small)) < 10_000
    assert large.target.snapshot.files.count == 10_500 + STATEMENTS
