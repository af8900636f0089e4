"""The version checksum of a snapshot. See "Version Checksum File" and "State Validation"."""

from __future__ import annotations

from anabranch.log.checksum import Discrepancy, VersionChecksum, discrepancies, read_checksum
from anabranch.protocol.features import supported
from anabranch.snapshot.snapshot import Snapshot
from anabranch.storage.log_store import LogStore


def checksum_of(snapshot: Snapshot, *, txn_id: str | None = None) -> VersionChecksum:
    """What `N.crc` of this version has to say; `txn_id` is that of its commit."""
    summary = snapshot.files.summary
    has_vectors = supported(snapshot.protocol, "deletionVectors")
    return VersionChecksum(
        table_size_bytes=summary.size_bytes,
        num_files=snapshot.files.count,
        metadata=snapshot.metadata,
        protocol=snapshot.protocol,
        txn_id=txn_id,
        in_commit_timestamp_ms=snapshot.timestamp_ms if snapshot.properties.in_commit_timestamps_enabled else None,
        set_transactions=tuple(snapshot.set_transactions.values()),
        domain_metadata=tuple(snapshot.domain_metadata.values()),
        file_sizes=summary.file_sizes,
        num_deleted_records=summary.deleted_records if has_vectors else None,
        num_deletion_vectors=summary.deletion_vectors if has_vectors else None,
        deleted_record_counts=tuple(summary.deleted_counts.tolist()) if has_vectors else None,
    )


def verify_checksum(store: LogStore, snapshot: Snapshot) -> list[Discrepancy] | None:
    """Where `N.crc` contradicts the log; None where there is no such file that can be read. Raises `StorageError`."""
    recorded = read_checksum(store, snapshot.version)
    return None if recorded is None else discrepancies(recorded, checksum_of(snapshot))
