"""How many files a batch takes."""

from __future__ import annotations

import numpy as np
import pytest

from anabranch.streaming.admission import Admission, Sizes


def sizes(*file_bytes: int) -> Sizes:
    return np.array(file_bytes, dtype=np.int64)


@pytest.mark.parametrize(
    ("files_max", "bytes_max", "taken"),
    [(None, None, 4), (3, None, 3), (None, 10, 1), (None, 11, 2), (None, 30, 2), (None, 31, 3), (2, 31, 2), (9, 1, 1)],
)
def test_the_file_that_goes_beyond_the_bytes_is_taken(files_max: int | None, bytes_max: int | None, taken: int) -> None:
    assert Admission(files_max=files_max, bytes_max=bytes_max).admit(sizes(10, 20, 30, 40)) == taken


def test_room_is_shared_by_versions() -> None:
    admission = Admission(files_max=3, bytes_max=100)
    assert admission.admit(sizes(10, 10)) == 2
    assert admission.admit(sizes()) == 0
    assert admission.admit(sizes(10, 10)) == 1
    assert admission.admit(sizes(10)) == 0


def test_files_that_belong_together_are_taken_together() -> None:
    """However many there are, where the batch is empty; otherwise where all have room."""
    admission = Admission(files_max=3, bytes_max=None)
    assert admission.admit(sizes(1, 1, 1, 1, 1), whole=True) == 5
    assert admission.admit(sizes(1), whole=True) == 0
    fresh = Admission(files_max=3, bytes_max=100)
    assert fresh.admit(sizes(1)) == 1
    assert fresh.admit(sizes(1, 1, 1), whole=True) == 0
    assert fresh.admit(sizes(1, 99), whole=True) == 0
    assert fresh.admit(sizes(1, 98), whole=True) == 2


def test_a_file_that_is_empty_is_counted_and_weighs_nothing() -> None:
    assert Admission(files_max=2, bytes_max=1).admit(sizes(0, 0, 5)) == 2
