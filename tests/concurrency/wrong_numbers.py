"""Wrong rules for numbers of identity columns that are reserved, which the judges must find."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from anabranch.commands.dml.identity_high_water import with_moved_marks
from anabranch.protocol.actions import Metadata
from anabranch.schema.computed_columns import identity_columns
from anabranch.schema.serialization import parse_schema
from anabranch.transactions.commit import commit_loop, number_reservation
from anabranch.transactions.commit.number_reservation import reservation
from anabranch.transactions.conflicts import conflict_checks
from anabranch.transactions.conflicts.conflict_context import Conflict, ConflictContext
from anabranch.transactions.conflicts.metadata_compatibility import with_marks
from anabranch.transactions.proposed_commit import ProposedCommit
from anabranch.transactions.reserved_numbers import NumberRange, ReservedNumbers
from concurrency import executor
from concurrency.random_histories import NUMBERED_ROWS
from concurrency.wrong_rules import WrongRule

Check = Callable[[ConflictContext], Conflict | None]


def _of_the_marks_read(conflict: Conflict, context: ConflictContext) -> ProposedCommit | None:
    """The reservation that ours would have made right after the version that it read."""
    latest = dataclasses.replace(context.latest, metadata=context.read.metadata)
    return reservation(conflict, dataclasses.replace(context, latest=latest))


def _of_two_writers(conflict: Conflict, context: ConflictContext) -> ProposedCommit | None:
    """It moves the newest mark, and uses the numbers behind the mark that it has read."""
    right, read = reservation(conflict, context), context.read.metadata
    if right is None or read is None:
        return right
    numberings = identity_columns(parse_schema(read.schema_string))
    ranges = {
        name: NumberRange(first=first, last=first + (numbers.count - 1) * numbers.step, step=numbers.step)
        for name, numbers in right.reserves.items()
        if (first := numberings[name].next_value) is not None
    }
    return dataclasses.replace(right, reserves=ranges)


def _with_marks_of_its_own(
    metadata: Metadata,
    numbers: Mapping[str, NumberRange],
    *,
    table: str,
    reserved: ReservedNumbers | None = None,
) -> Metadata:
    """The metadata with the last number of the statement as the mark, also where it has been moved there before."""
    if reserved is None:
        return with_moved_marks(metadata, numbers, table=table)
    return msgspec.structs.replace(
        with_marks(metadata, {name: generated.last for name, generated in numbers.items()}), name="again"
    )


def _unless_reserved(right: Check) -> Check:
    return lambda context: None if context.ours.reserved is not None else right(context)


def _holds_any(self: ReservedNumbers, name: str, numbers: Any) -> bool:
    return name in self.ranges


WRONG_NUMBERS = [
    WrongRule(
        name="numbers are used without a mark in the log that covers them",
        patches=[(number_reservation, "with_marks", lambda metadata, marks: metadata)],
        mix=NUMBERED_ROWS,
        verdict="mark",
    ),
    WrongRule(
        name="a reservation begins behind the mark that its statement has read",
        patches=[(commit_loop, "reservation", _of_the_marks_read)],
        mix=NUMBERED_ROWS,
        verdict="and the mark was",
    ),
    WrongRule(
        name="two writers reserve the same numbers",
        patches=[(commit_loop, "reservation", _of_two_writers)],
        mix=NUMBERED_ROWS,
        verdict="again",
    ),
    WrongRule(
        name="a commit with reserved numbers writes the mark behind them",
        patches=[
            (executor, "with_moved_marks", _with_marks_of_its_own),
            (conflict_checks, "metadata_changed", _unless_reserved(conflict_checks.metadata_changed)),
            (conflict_checks, "identity_columns", _unless_reserved(conflict_checks.identity_columns)),
        ],
        mix=NUMBERED_ROWS,
        verdict="the mark falls",
    ),
    WrongRule(
        name="a statement with more rows than reserved numbers counts as having reserved them all",
        patches=[(ReservedNumbers, "hold", _holds_any)],
        mix=NUMBERED_ROWS,
        verdict="mark",
    ),
    WrongRule(
        name="a statement that is executed again does not use what was reserved",
        patches=[(ReservedNumbers, "first_numbers", property(lambda self: {"v": 10}))],
        mix=NUMBERED_ROWS,
        verdict="again",
    ),
]
