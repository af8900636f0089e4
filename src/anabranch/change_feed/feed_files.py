"""Which files hold the changes of a commit, and which of their rows. See "Reader Requirements for AddCDCFile".

Files are told as `add` actions whose partition values hold, beside the table's own, what the feed says of every row.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Protocol

import msgspec
from pyroaring import BitMap64
from pyspark.sql.types import TimestampType

from anabranch.change_feed.change_files import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION, DELETE, INSERT
from anabranch.errors.dml import ChangesIncompleteError, ChangesRangeError, ChangesStartAfterLatestError
from anabranch.errors.log import TimestampAfterLatestCommitError
from anabranch.log.commit_files import Commit
from anabranch.log.time_travel import TimestampSearch
from anabranch.protocol.actions import AddCDCFile, AddFile, DeletionVectorDescriptor, RemoveFile
from anabranch.protocol.partition_values import serialize_partition_value
from anabranch.transaction.rows.row_ids import row_count

DIFFERENCE = "difference"
"""Storage type of a vector that is stored nowhere: it names the rows by which two vectors differ."""
_NO_MERGE_CHANGED = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")


class LoadVector(Protocol):
    """The positions that a vector hides; `num_rows` of its data file bounds them."""

    def __call__(self, descriptor: DeletionVectorDescriptor, *, num_rows: int | None = None) -> BitMap64: ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class VectorDifference:
    """The rows that `hidden` hides and `shown` does not; no vector hides nothing."""

    hidden: DeletionVectorDescriptor
    shown: DeletionVectorDescriptor | None
    num_rows: int | None
    """Of the data file, where the log says it; it bounds both."""

    def rows(self, load_vector: LoadVector) -> BitMap64:
        """Their positions. Raises what `load_vector` does."""
        hidden = load_vector(self.hidden, num_rows=self.num_rows)
        return hidden if self.shown is None else hidden - load_vector(self.shown, num_rows=self.num_rows)

    def descriptor(self) -> DeletionVectorDescriptor:
        """By which a scan asks for the rows. Two differences of the same vectors have the same."""
        name = f"{self.hidden.unique_id} {self.shown.unique_id if self.shown else ''}"
        return DeletionVectorDescriptor(
            storage_type=DIFFERENCE, path_or_inline_dv=name, size_in_bytes=0, cardinality=self.hidden.cardinality
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FeedFiles:
    """The files of the changes of some commits, by how they are read."""

    told: tuple[AddFile, ...] = ()
    """Change data files, whose rows say themselves what became of them."""
    whole: tuple[AddFile, ...] = ()
    """Data files that came or went, and with them the rows that their vectors leave."""
    partial: tuple[AddFile, ...] = ()
    """Data files that stayed. Their vectors, all in `differences`, name the rows that went or came back."""
    differences: Mapping[str, VectorDifference] = dataclasses.field(default_factory=dict)
    """By the `path_or_inline_dv` of their descriptors."""


def feed_files(commits: Iterator[tuple[Commit, int]], *, table: str, partitioned: bool) -> FeedFiles:
    """The files of the changes of commits, each with its time in milliseconds since the epoch.

    Raises `ChangesIncompleteError`.
    """
    each = [_of_commit(commit, at_ms, table=table, partitioned=partitioned) for commit, at_ms in commits]
    return FeedFiles(
        told=tuple(chain.from_iterable(found.told for found in each)),
        whole=tuple(chain.from_iterable(found.whole for found in each)),
        partial=tuple(chain.from_iterable(found.partial for found in each)),
        differences={name: difference for found in each for name, difference in found.differences.items()},
    )


def _of_commit(commit: Commit, at_ms: int, *, table: str, partitioned: bool) -> FeedFiles:
    when = {
        COMMIT_VERSION: str(commit.version),
        COMMIT_TIMESTAMP: serialize_partition_value(at_ms * 1000, TimestampType()),
    }
    told = [action for action in commit.actions if isinstance(action, AddCDCFile)]
    if told:
        return FeedFiles(told=tuple(_told(file, when) for file in told))
    if _is_merge_that_changed_nothing(commit):
        return FeedFiles()
    came = {action.path: action for action in commit.actions if isinstance(action, AddFile) and action.data_change}
    gone = {action.path: action for action in commit.actions if isinstance(action, RemoveFile) and action.data_change}
    for remove in gone.values():
        if remove.path not in came and (remove.size is None or (partitioned and remove.partition_values is None)):
            raise ChangesIncompleteError(table=table, version=commit.version, path=remove.path)
    whole = [_came(add, when) for path, add in came.items() if path not in gone]
    whole += [_gone(remove, when) for path, remove in gone.items() if path not in came]
    partial: list[AddFile] = []
    differences: dict[str, VectorDifference] = {}
    for path in sorted(came.keys() & gone.keys()):
        for file, difference in _differing(came[path], gone[path], when):
            partial.append(file)
            differences[difference.descriptor().path_or_inline_dv] = difference
    return FeedFiles(whole=tuple(whole), partial=tuple(partial), differences=differences)


def _is_merge_that_changed_nothing(commit: Commit) -> bool:
    """Whether files were rewritten and every row stayed as it was, as early versions of Delta did."""
    if commit.info is None or commit.info.operation != "MERGE":
        return False
    metrics = commit.info.operation_metrics or {}
    return all(str(metrics.get(name)) == "0" for name in _NO_MERGE_CHANGED)


def _told(file: AddCDCFile, when: Mapping[str, str | None]) -> AddFile:
    return AddFile(
        path=file.path,
        partition_values={**file.partition_values, **when},
        size=file.size,
        modification_time=0,
        data_change=False,
    )


def _came(add: AddFile, when: Mapping[str, str | None]) -> AddFile:
    values = {**add.partition_values, **when, CHANGE_TYPE: INSERT}
    return msgspec.structs.replace(add, partition_values=values, tags=None)


def _gone(remove: RemoveFile, when: Mapping[str, str | None]) -> AddFile:
    return AddFile(
        path=remove.path,
        partition_values={**(remove.partition_values or {}), **when, CHANGE_TYPE: DELETE},
        size=remove.size or 0,
        modification_time=0,
        data_change=False,
        stats=remove.stats,
        deletion_vector=remove.deletion_vector,
    )


def _differing(
    add: AddFile, remove: RemoveFile, when: Mapping[str, str | None]
) -> Iterator[tuple[AddFile, VectorDifference]]:
    """The file that stays under another vector: once for the rows that went, once for those that are back."""
    if add.key == remove.key:
        return
    # Bounds of a file that hides rows may be those of the rows left, which a row that went need not obey.
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
                partition_values={**add.partition_values, **when, CHANGE_TYPE: change},
                size=add.size,
                modification_time=0,
                data_change=False,
                deletion_vector=difference.descriptor(),
            ),
            difference,
        )


# Which versions a change data feed is asked for.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FeedBound:
    """One end of a range: a version, or a time."""

    version: int | None = None
    timestamp_ms: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FeedRange:
    """Versions from `start` to `end`, both included."""

    start: int
    end: int


def resolve_range(
    start: FeedBound, end: FeedBound | None, search: TimestampSearch, *, allows_out_of_range: bool
) -> FeedRange | None:
    """The versions meant; None where there are none, and that is no mistake.

    A range that starts at a time starts with the first version of that time or later, one that ends at a time ends
    with the last version of that time or earlier. An end behind the newest version means the newest.

    Raises `ChangesRangeError`, `ChangesStartAfterLatestError`, `TimestampAfterLatestCommitError` and
    `TimestampEarlierThanFirstCommitError`.
    """
    latest, table = search.latest.version, search.store.root
    first = _first_version(start, search, allows_out_of_range=allows_out_of_range)
    last = math.inf if end is None else _last_version(end, search, allows_out_of_range=allows_out_of_range)
    if first > latest:
        if allows_out_of_range:
            return None
        raise ChangesStartAfterLatestError(table=table, start=first, latest=latest)
    if last < first:
        # Two times between two neighbouring versions make an empty range, not a wrong one.
        ascending = _is_ascending(start, end)
        if ascending and last == first - 1:
            return None
        raise ChangesRangeError(table=table, start=first, end=int(last))
    return FeedRange(start=first, end=int(min(last, latest)))


def _is_ascending(start: FeedBound, end: FeedBound | None) -> bool:
    if end is None or start.timestamp_ms is None or end.timestamp_ms is None:
        return False
    return start.timestamp_ms <= end.timestamp_ms


def _first_version(bound: FeedBound, search: TimestampSearch, *, allows_out_of_range: bool) -> int:
    if bound.timestamp_ms is None:
        assert bound.version is not None
        return bound.version
    found = search.version_at(bound.timestamp_ms, can_return_last=True, can_return_earliest=True)
    if found.timestamp_ms >= bound.timestamp_ms:
        return found.version
    if found.version == search.latest.version and not allows_out_of_range:
        raise TimestampAfterLatestCommitError(
            table=search.store.root,
            timestamp_ms=bound.timestamp_ms,
            latest_version=found.version,
            latest_timestamp_ms=found.timestamp_ms,
        )
    return found.version + 1


def _last_version(bound: FeedBound, search: TimestampSearch, *, allows_out_of_range: bool) -> int:
    if bound.timestamp_ms is None:
        assert bound.version is not None
        return bound.version
    return search.version_at(bound.timestamp_ms, can_return_last=allows_out_of_range).version
