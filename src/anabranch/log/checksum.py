"""The checksum file of a version: a summary of the table, by its writer. See "Version Checksum File"."""

from __future__ import annotations

import dataclasses
from typing import Any, Final, TypeVar

import msgspec
import numpy as np

from anabranch.errors.environment import FileMissingError, FileTooLargeError
from anabranch.errors.protocol import MalformedActionError
from anabranch.protocol.actions import Action, DomainMetadata, Metadata, Protocol, SetTransaction
from anabranch.protocol.actions_json import KEY_BY_TYPE, encode_action, parse_action
from anabranch.protocol.log_paths import checksum_path
from anabranch.storage.log_store import LogStore, PutOutcome

# Histograms of the sizes of files and of their deleted rows.
#
# See "File Size Histogram Schema" and "Deleted Record Counts Histogram Schema".


_KB: Final = 1024
_MB: Final = 1024 * _KB
_GB: Final = 1024 * _MB


def _boundaries(*ranges: tuple[int, int, int]) -> list[int]:
    """The boundaries of ranges `(start, end, step)`: from `start`, which is left out, to `end`, which is included."""
    return [boundary for start, end, step in ranges for boundary in range(start + step, end + 1, step)]


FILE_SIZE_BOUNDARIES: Final[tuple[int, ...]] = (
    0,
    *(size * _KB for size in (8, 16, 32, 64, 128, 256, 512)),
    *(size * _MB for size in (1, 2, 4)),
    *_boundaries(
        (4 * _MB, 40 * _MB, 4 * _MB),
        (40 * _MB, 120 * _MB, 8 * _MB),
        (120 * _MB, 144 * _MB, 4 * _MB),
        (144 * _MB, 576 * _MB, 16 * _MB),
        (576 * _MB, 1408 * _MB, 64 * _MB),
        (1408 * _MB, 2 * _GB, 128 * _MB),
        (2 * _GB, 4 * _GB, 256 * _MB),
    ),
    *(size * _GB for size in (8, 16, 32, 64, 128, 256)),
)
"""The bins that Delta uses, so that histograms of different writers can be compared."""

DELETED_RECORDS_BOUNDARIES: Final[tuple[int, ...]] = (0, *(10**power for power in range(8)), 2**31 - 1)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FileSizeHistogram:
    """The number of files and their bytes, by size; bin i is for sizes from boundary i up to the next."""

    boundaries: tuple[int, ...]
    file_counts: tuple[int, ...]
    total_bytes: tuple[int, ...]

    def __post_init__(self) -> None:
        if not len(self.boundaries) == len(self.file_counts) == len(self.total_bytes) > 0:
            raise ValueError("the arrays of a histogram differ in length")
        if self.boundaries[0] != 0 or sorted(set(self.boundaries)) != list(self.boundaries):
            raise ValueError("the boundaries of a histogram do not ascend from 0")


def file_size_histogram(sizes: np.ndarray) -> FileSizeHistogram:
    """The histogram of these file sizes in bytes; negative ones, which no file has, count as 0."""
    sizes = np.maximum(sizes.astype(np.int64), 0)
    bins = np.searchsorted(np.array(FILE_SIZE_BOUNDARIES), sizes, side="right") - 1
    counts = np.bincount(bins, minlength=len(FILE_SIZE_BOUNDARIES))
    totals = np.zeros(len(FILE_SIZE_BOUNDARIES), dtype=np.int64)
    # `bincount` with weights would add in floating point and lose bytes beyond 2^53.
    np.add.at(totals, bins, sizes)
    return FileSizeHistogram(
        boundaries=FILE_SIZE_BOUNDARIES, file_counts=tuple(counts.tolist()), total_bytes=tuple(totals.tolist())
    )


def deleted_record_counts(cardinalities: np.ndarray) -> tuple[int, ...]:
    """The number of files, by the cardinality of their deletion vectors, which is 0 for a file without one."""
    bins = np.searchsorted(np.array(DELETED_RECORDS_BOUNDARIES), cardinalities, side="right") - 1
    counts = np.bincount(np.maximum(bins, 0), minlength=len(DELETED_RECORDS_BOUNDARIES))
    return tuple(counts.tolist())


A = TypeVar("A", bound=Action)


CHECKSUM_BYTES_MAX = 256 * 1024 * 1024
"""A checksum file may list the table's files, but ours does not; a larger one is ignored."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class VersionChecksum:
    """The fields of `N.crc`; None where the writer left one out."""

    table_size_bytes: int
    num_files: int
    metadata: Metadata
    protocol: Protocol
    num_metadata: int = 1
    num_protocol: int = 1
    txn_id: str | None = None
    in_commit_timestamp_ms: int | None = None
    set_transactions: tuple[SetTransaction, ...] | None = None
    domain_metadata: tuple[DomainMetadata, ...] | None = None
    file_sizes: FileSizeHistogram | None = None
    num_deleted_records: int | None = None
    num_deletion_vectors: int | None = None
    deleted_record_counts: tuple[int, ...] | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Discrepancy:
    """A field of a checksum file that differs from the log, which is right."""

    field: str
    """The name of the field in the file."""
    recorded: Any
    computed: Any


def read_checksum(store: LogStore, version: int) -> VersionChecksum | None:
    """The checksum of a version; None where there is none that can be read."""
    try:
        return decode_checksum(store.read(checksum_path(version), size_max=CHECKSUM_BYTES_MAX))
    except (FileMissingError, FileTooLargeError, ValueError):
        return None


def write_checksum(store: LogStore, version: int, checksum: VersionChecksum) -> PutOutcome:
    """Write the checksum of a version, unless it exists: it is never overwritten. Raises `StorageError`."""
    return store.put_if_absent(checksum_path(version), encode_checksum(checksum))


def encode_checksum(checksum: VersionChecksum) -> bytes:
    """The JSON object that the file consists of."""
    fields: dict[str, Any] = {
        "txnId": checksum.txn_id,
        "tableSizeBytes": checksum.table_size_bytes,
        "numFiles": checksum.num_files,
        "numMetadata": checksum.num_metadata,
        "numProtocol": checksum.num_protocol,
        "inCommitTimestampOpt": checksum.in_commit_timestamp_ms,
        "setTransactions": _raw_all(checksum.set_transactions),
        "domainMetadata": _raw_all(checksum.domain_metadata),
        "metadata": _raw(checksum.metadata),
        "protocol": _raw(checksum.protocol),
        "numDeletedRecordsOpt": checksum.num_deleted_records,
        "numDeletionVectorsOpt": checksum.num_deletion_vectors,
    }
    if checksum.file_sizes is not None:
        fields["fileSizeHistogram"] = {
            "sortedBinBoundaries": checksum.file_sizes.boundaries,
            "fileCounts": checksum.file_sizes.file_counts,
            "totalBytes": checksum.file_sizes.total_bytes,
        }
    if checksum.deleted_record_counts is not None:
        fields["deletedRecordCountsHistogramOpt"] = {"deletedRecordCounts": checksum.deleted_record_counts}
    return msgspec.json.encode({name: value for name, value in fields.items() if value is not None})


def decode_checksum(data: bytes) -> VersionChecksum:
    """The checksum in the content of a file. Raises `ValueError` if it is none."""
    try:
        fields = msgspec.json.decode(data, type=dict[str, Any])
        histogram = fields.get("fileSizeHistogram") or fields.get("histogramOpt")
        deleted = fields.get("deletedRecordCountsHistogramOpt")
        return VersionChecksum(
            table_size_bytes=int(fields["tableSizeBytes"]),
            num_files=int(fields["numFiles"]),
            num_metadata=int(fields["numMetadata"]),
            num_protocol=int(fields["numProtocol"]),
            metadata=_action(Metadata, fields["metadata"]),
            protocol=_action(Protocol, fields["protocol"]),
            txn_id=fields.get("txnId"),
            in_commit_timestamp_ms=fields.get("inCommitTimestampOpt"),
            set_transactions=_actions(SetTransaction, fields.get("setTransactions")),
            domain_metadata=_actions(DomainMetadata, fields.get("domainMetadata")),
            file_sizes=None if histogram is None else _histogram(histogram),
            num_deleted_records=fields.get("numDeletedRecordsOpt"),
            num_deletion_vectors=fields.get("numDeletionVectorsOpt"),
            deleted_record_counts=None if deleted is None else tuple(deleted["deletedRecordCounts"]),
        )
    except (MalformedActionError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not a version checksum: {error}") from error


def discrepancies(recorded: VersionChecksum, computed: VersionChecksum) -> list[Discrepancy]:
    """The fields in which a checksum file differs from the log. A field that either lacks is not compared."""
    pairs: list[tuple[str, Any, Any]] = [
        ("tableSizeBytes", recorded.table_size_bytes, computed.table_size_bytes),
        ("numFiles", recorded.num_files, computed.num_files),
        ("numMetadata", recorded.num_metadata, computed.num_metadata),
        ("numProtocol", recorded.num_protocol, computed.num_protocol),
        ("metadata", recorded.metadata, computed.metadata),
        ("protocol", _comparable(recorded.protocol), _comparable(computed.protocol)),
        ("inCommitTimestampOpt", recorded.in_commit_timestamp_ms, computed.in_commit_timestamp_ms),
        ("setTransactions", _by_id(recorded.set_transactions), _by_id(computed.set_transactions)),
        ("domainMetadata", _by_domain(recorded.domain_metadata), _by_domain(computed.domain_metadata)),
        ("numDeletedRecordsOpt", recorded.num_deleted_records, computed.num_deleted_records),
        ("numDeletionVectorsOpt", recorded.num_deletion_vectors, computed.num_deletion_vectors),
        ("deletedRecordCountsHistogramOpt", recorded.deleted_record_counts, computed.deleted_record_counts),
    ]
    if _same_bins(recorded.file_sizes, computed.file_sizes):
        pairs.append(("fileSizeHistogram", recorded.file_sizes, computed.file_sizes))
    return [
        Discrepancy(field=field, recorded=ours, computed=log)
        for field, ours, log in pairs
        if ours is not None and log is not None and ours != log
    ]


def _same_bins(one: FileSizeHistogram | None, other: FileSizeHistogram | None) -> bool:
    return one is not None and other is not None and one.boundaries == other.boundaries


def _comparable(protocol: Protocol) -> tuple[int, int, frozenset[str], frozenset[str]]:
    """The protocol without the order of its features, which has no meaning."""
    readers, writers = frozenset(protocol.reader_features or ()), frozenset(protocol.writer_features or ())
    return protocol.min_reader_version, protocol.min_writer_version, readers, writers


def _by_id(transactions: tuple[SetTransaction, ...] | None) -> dict[str, int] | None:
    return None if transactions is None else {action.app_id: action.version for action in transactions}


def _by_domain(domains: tuple[DomainMetadata, ...] | None) -> dict[str, str] | None:
    return None if domains is None else {action.domain: action.configuration for action in domains}


def _histogram(fields: dict[str, Any]) -> FileSizeHistogram:
    return FileSizeHistogram(
        boundaries=tuple(fields["sortedBinBoundaries"]),
        file_counts=tuple(fields["fileCounts"]),
        total_bytes=tuple(fields["totalBytes"]),
    )


def _raw(action: Action) -> msgspec.Raw:
    """The JSON of an action below its key in a commit, unknown fields included."""
    return msgspec.Raw(encode_action(action)[len(f'{{"{KEY_BY_TYPE[type(action)]}":') : -1])


def _raw_all(actions: tuple[SetTransaction, ...] | tuple[DomainMetadata, ...] | None) -> list[msgspec.Raw] | None:
    return None if actions is None else [_raw(action) for action in actions]


def _action(kind: type[A], fields: Any) -> A:
    action = parse_action(msgspec.json.encode({KEY_BY_TYPE[kind]: fields}))
    if not isinstance(action, kind):
        raise TypeError(f"{KEY_BY_TYPE[kind]} is missing")
    return action


def _actions(kind: type[A], rows: list[Any] | None) -> tuple[A, ...] | None:
    return None if rows is None else tuple(_action(kind, row) for row in rows)
