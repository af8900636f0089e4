"""Which files of a winner our reads might have found rows in."""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.predicates.expressions import Predicate
from anabranch.protocol.actions import AddFile
from anabranch.schema.column_mapping import to_physical
from anabranch.snapshot import scan_plan
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transaction.read_set import FileMask


def can_match(snapshot: Snapshot, predicate: Predicate, adds: Sequence[AddFile]) -> FileMask:
    """One entry a file: whether `predicate`, in physical names, can be true for a row of it.

    Judged by partition values and statistics, under the schema of `snapshot`.
    """
    return scan_plan.can_match(
        predicate,
        adds,
        physical_schema=to_physical(snapshot.schema, snapshot.column_mapping_mode),
        partition_columns=snapshot.physical_partition_columns,
    )
