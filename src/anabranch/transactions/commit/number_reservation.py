"""The commit that reserves numbers of identity columns for a statement whose own numbers are taken."""

from __future__ import annotations

import dataclasses

from anabranch.errors.commits import ConflictReason
from anabranch.schema.computed_columns import identity_columns
from anabranch.schema.serialization import parse_schema
from anabranch.transactions.conflicts.conflict_context import Conflict, ConflictContext
from anabranch.transactions.conflicts.metadata_compatibility import with_marks
from anabranch.transactions.proposed_commit import ProposedCommit
from anabranch.transactions.read_set import ReadSet
from anabranch.transactions.reserved_numbers import NumberRange

OPERATION = "RESERVE IDENTITY"
"""The name of its operation in the history."""


def reservation(conflict: Conflict, context: ConflictContext) -> ProposedCommit | None:
    """The commit that moves the newest marks by as many numbers as ours has used, in the place of ours.

    None where ours has another conflict, or cannot be executed again, or its numbers would not be BIGINTs.
    """
    ours, latest = context.ours, context.latest
    if conflict.reason is not ConflictReason.IDENTITY_COLUMNS or not ours.generated or latest.metadata is None:
        return None
    numberings = identity_columns(parse_schema(latest.metadata.schema_string, latest.table), latest.table)
    ranges: dict[str, NumberRange] = {}
    for name, used in ours.generated.items():
        numbers = NumberRange.next_of(numberings[name], count=used.count)
        if numbers is None:
            return None
        ranges[name] = numbers
    return ProposedCommit(
        txn_id=ours.txn_id,
        operation=dataclasses.replace(
            ours.operation, name=OPERATION, parameters={"columns": {name: used.count for name, used in ranges.items()}}
        ),
        read_version=ours.read_version,
        isolation=ours.isolation,
        reads=ReadSet(),
        actions=(with_marks(latest.metadata, {name: numbers.last for name, numbers in ranges.items()}),),
        reserves=ranges,
    )
