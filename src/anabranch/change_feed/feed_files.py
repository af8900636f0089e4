"""The files that hold the changes of a commit, and which of their rows. See "Reader Requirements for AddCDCFile".

Files are represented by `add` actions whose partition values are the table's and those of the feed's columns.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import msgspec
from pyroaring import BitMap64
from pyspark.sql.types import TimestampType

from anabranch.change_feed.feed_columns import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION, DELETE, INSERT
from anabranch.deletion_vectors.vector_reading import LoadVectors
from anabranch.errors.dml import ChangesIncompleteError
from anabranch.log.commit_files import Commit
from anabranch.protocol.actions import AddCDCFile, AddFile, DeletionVectorDescriptor, RemoveFile, row_count
from anabranch.protocol.partition_values import serialize_partition_value

DIFFERENCE = "difference"
"""Storage type of a vector that is stored nowhere: it names the rows by which two vectors differ."""
_NO_MERGE_CHANGED = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class VectorDifference:
    """The rows that `hidden` hides and `shown` does not; no vector hides nothing."""

    hidden: DeletionVectorDescriptor
    shown: DeletionVectorDescriptor | None
    num_rows: int | None
    """The number of rows of the data file, where the log has it; it bounds both."""

    def descriptor(self) -> DeletionVectorDescriptor:
        """The descriptor by which a scan requests the rows. It is equal for equal differences."""
        name = f"{self.hidden.unique_id} {self.shown.unique_id if self.shown else ''} {self.num_rows}"
        return DeletionVectorDescriptor(
            storage_type=DIFFERENCE, path_or_inline_dv=name, size_in_bytes=0, cardinality=self.hidden.cardinality
        )


def differing_rows(differences: Sequence[VectorDifference], load_vectors: LoadVectors) -> list[BitMap64]:
    """The positions of the rows of each difference. Raises the errors of `load_vectors`."""
    hidden = [(difference.hidden, difference.num_rows) for difference in differences]
    shown = [(difference.shown, difference.num_rows) for difference in differences if difference.shown is not None]
    descriptors, num_rows = zip(*hidden, *shown, strict=True)
    loaded = load_vectors(descriptors, num_rows=num_rows)
    of_shown = iter(loaded[len(hidden) :])
    return [
        rows if difference.shown is None else rows - next(of_shown)
        for difference, rows in zip(differences, loaded[: len(hidden)], strict=True)
    ]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FeedFiles:
    """The files of the changes of some commits, by how they are read."""

    change_data: tuple[AddFile, ...] = ()
    """Change data files, whose rows have a change type each."""
    whole: tuple[AddFile, ...] = ()
    """Data files that were added or removed, with all rows that their vectors do not hide."""
    partial: tuple[AddFile, ...] = ()
    """Data files that stayed. Their vectors, all in `differences`, name the rows that were deleted or restored."""
    differences: Mapping[str, VectorDifference] = dataclasses.field(default_factory=dict)
    """The vectors of `partial`, by the `path_or_inline_dv` of their descriptors."""


def feed_files(commits: Iterator[tuple[Commit, int]], *, table: str, partitioned: bool) -> FeedFiles:
    """The files of the changes of commits, each with its time in milliseconds since the epoch.

    Raises `ChangesIncompleteError`.
    """
    by_commit = [_of_commit(commit, at_ms, table=table, partitioned=partitioned) for commit, at_ms in commits]
    return FeedFiles(
        change_data=tuple(chain.from_iterable(files.change_data for files in by_commit)),
        whole=tuple(chain.from_iterable(files.whole for files in by_commit)),
        partial=tuple(chain.from_iterable(files.partial for files in by_commit)),
        differences={name: difference for files in by_commit for name, difference in files.differences.items()},
    )


def _of_commit(commit: Commit, at_ms: int, *, table: str, partitioned: bool) -> FeedFiles:
    commit_values = {
        COMMIT_VERSION: str(commit.version),
        COMMIT_TIMESTAMP: serialize_partition_value(at_ms * 1000, TimestampType()),
    }
    change_data = [action for action in commit.actions if isinstance(action, AddCDCFile)]
    if change_data:
        return FeedFiles(change_data=tuple(_change_data_file(file, commit_values) for file in change_data))
    if _is_merge_that_changed_nothing(commit):
        return FeedFiles()
    adds = {action.path: action for action in commit.actions if isinstance(action, AddFile) and action.data_change}
    removes = {
        action.path: action for action in commit.actions if isinstance(action, RemoveFile) and action.data_change
    }
    for remove in removes.values():
        if remove.path not in adds and (remove.size is None or (partitioned and remove.partition_values is None)):
            raise ChangesIncompleteError(table=table, version=commit.version, path=remove.path)
    whole = [_inserted_file(add, commit_values) for path, add in adds.items() if path not in removes]
    whole += [_deleted_file(remove, commit_values) for path, remove in removes.items() if path not in adds]
    partial: list[AddFile] = []
    differences: dict[str, VectorDifference] = {}
    for path in sorted(adds.keys() & removes.keys()):
        for file, difference in _vector_changes(adds[path], removes[path], commit_values):
            partial.append(file)
            differences[difference.descriptor().path_or_inline_dv] = difference
    return FeedFiles(whole=tuple(whole), partial=tuple(partial), differences=differences)


def _is_merge_that_changed_nothing(commit: Commit) -> bool:
    """Whether files were rewritten without a changed row, as early versions of Delta did."""
    if commit.info is None or commit.info.operation != "MERGE":
        return False
    metrics = commit.info.operation_metrics or {}
    return all(str(metrics.get(name)) == "0" for name in _NO_MERGE_CHANGED)


def _change_data_file(file: AddCDCFile, commit_values: Mapping[str, str | None]) -> AddFile:
    return AddFile(
        path=file.path,
        partition_values={**file.partition_values, **commit_values},
        size=file.size,
        modification_time=0,
        data_change=False,
    )


def _inserted_file(add: AddFile, commit_values: Mapping[str, str | None]) -> AddFile:
    values = {**add.partition_values, **commit_values, CHANGE_TYPE: INSERT}
    return msgspec.structs.replace(add, partition_values=values, tags=None)


def _deleted_file(remove: RemoveFile, commit_values: Mapping[str, str | None]) -> AddFile:
    return AddFile(
        path=remove.path,
        partition_values={**(remove.partition_values or {}), **commit_values, CHANGE_TYPE: DELETE},
        size=remove.size or 0,
        modification_time=0,
        data_change=False,
        stats=remove.stats,
        deletion_vector=remove.deletion_vector,
    )


def _vector_changes(
    add: AddFile, remove: RemoveFile, commit_values: Mapping[str, str | None]
) -> Iterator[tuple[AddFile, VectorDifference]]:
    """The file of an `add` with another vector than the `remove`: once with the deleted, once with restored rows."""
    if add.key == remove.key:
        return
    # No statistics: those of a file that hides rows may be about the other rows, and not bound the deleted ones.
    for change, hidden, shown in (
        (DELETE, add.deletion_vector, remove.deletion_vector),
        (INSERT, remove.deletion_vector, add.deletion_vector),
    ):
        if hidden is None:
            continue
        difference = VectorDifference(hidden=hidden, shown=shown, num_rows=row_count(add.stats))
        yield (
            AddFile(
                path=add.path,
                partition_values={**add.partition_values, **commit_values, CHANGE_TYPE: change},
                size=add.size,
                modification_time=0,
                data_change=False,
                deletion_vector=difference.descriptor(),
            ),
            difference,
        )
