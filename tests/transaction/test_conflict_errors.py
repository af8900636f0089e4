"""What users catch: Delta's names, facts as fields, a message that helps."""

from __future__ import annotations

import pickle

import pytest

from anabranch import exceptions
from anabranch.errors.base import DeltaError
from anabranch.exceptions import (
    ConcurrentAppendException,
    ConflictReason,
    DeltaConcurrentModificationException,
    ProtocolChangedException,
)

NAMES = [name for name in exceptions.__all__ if name.endswith("Exception")]


def test_names_are_those_of_delta() -> None:
    assert set(NAMES) == {
        "ConcurrentAppendException",
        "ConcurrentDeleteDeleteException",
        "ConcurrentDeleteReadException",
        "ConcurrentTransactionException",
        "ConcurrentWriteException",
        "DeltaConcurrentModificationException",
        "MetadataChangedException",
        "ProtocolChangedException",
    }


@pytest.mark.parametrize("name", NAMES)
def test_all_are_delta_errors_and_survive_pickling(name: str) -> None:
    kind: type[DeltaConcurrentModificationException] = getattr(exceptions, name)
    error = kind(
        table="/data/t",
        version=8,
        operation="UPDATE",
        read_version=5,
        reason=ConflictReason.WITH_PARTITION_HINT,
        where="partition date=2024-01-01",
        example_keys=("id=7",),
    )
    again = pickle.loads(pickle.dumps(error))

    assert isinstance(error, DeltaError)
    assert isinstance(error, DeltaConcurrentModificationException)
    assert type(again) is kind
    assert again.facts() == error.facts()
    assert again.reason is ConflictReason.WITH_PARTITION_HINT
    assert str(again) == str(error)
    for fact in ("/data/t", "UPDATE (version 8)", "partition date=2024-01-01", "id=7", "read version 5"):
        assert fact in str(error)
    assert error.getSqlState() == "2D521"
    assert error.getCondition().startswith("DELTA_")


def test_message_says_who_won_and_what_to_do() -> None:
    error = ConcurrentAppendException(
        table="/data/t",
        version=8,
        operation="MERGE",
        read_version=5,
        reason=ConflictReason.WITHOUT_HINT,
        where="file a.parquet",
    )
    assert error.explain() == (
        "In /data/t, MERGE (version 8) landed first and added rows that this operation should have read: file "
        "a.parquet. This operation, which read version 5, changed nothing. Run the operation again on the new "
        "version. Reason: WITHOUT_HINT."
    )


def test_lost_creation_is_named_in_the_message() -> None:
    error = ProtocolChangedException(
        table="/data/t",
        version=0,
        operation="CREATE TABLE",
        read_version=-1,
        reason=ConflictReason.TABLE_CREATED,
        advice="Run the operation again.",
    )
    assert "was created meanwhile: CREATE TABLE landed version 0 first" in error.explain()
