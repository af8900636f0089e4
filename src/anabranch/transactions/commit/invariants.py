"""Invariants of a commit at its version, checked before every attempt, in production too.

A violation that is detected here costs one operation; a violation in the log may cost the table. See "Delta Log
Entries", "Consistency Between Table Metadata and Data Files" and "Append-only Tables".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence

from anabranch.deletion_vectors.vector_descriptors import is_vector_file
from anabranch.errors.commits import AppendOnlyTableError, InvalidCommitError
from anabranch.errors.protocol import MalformedActionError
from anabranch.protocol.actions import (
    AddCDCFile,
    AddFile,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
    row_count,
)
from anabranch.protocol.actions_json import encode_action, parse_action
from anabranch.protocol.features import check_writable, supported
from anabranch.protocol.properties import TableProperties, compat_versions
from anabranch.schema.iceberg_rules import check_iceberg_files, check_iceberg_table
from anabranch.transactions.conflicts.description_rules import faults_of_description, physical_partition_columns
from anabranch.transactions.conflicts.latest_state import LatestState
from anabranch.transactions.proposed_commit import ProposedCommit


def check_invariants(ours: ProposedCommit, latest: LatestState) -> tuple[Protocol, Metadata]:
    """Check `ours` as the commit right after `latest`, and return the protocol and metadata of that version.

    Raises `InvalidCommitError`, `AppendOnlyTableError`, `UnsupportedFeatureError`, `IcebergCompatError`.
    """
    protocol, metadata = ours.protocol or latest.protocol, ours.metadata or latest.metadata
    if protocol is None or metadata is None:
        raise _invalid(latest, "the first commit of a table needs `protocol` and `metaData`")
    for required in (latest.protocol, ours.protocol):
        if required is not None:
            check_writable(required, table=latest.table)
    _check_append_only(ours, latest)
    _check_iceberg_rules(ours, latest, protocol, metadata)
    violation = next(_violations(ours, latest, protocol, metadata), None)
    if violation is not None:
        raise _invalid(latest, violation)
    return protocol, metadata


def _violations(ours: ProposedCommit, latest: LatestState, protocol: Protocol, metadata: Metadata) -> Iterator[str]:
    yield from _unreadable_actions(ours)
    yield from _duplicate_kinds(ours)
    yield from _duplicate_files(ours)
    yield from _inconsistent_files(ours, latest)
    yield from _vectors_of_uncounted_files(ours)
    yield from _missing_features(ours, protocol)
    yield from _partition_columns(ours, latest, metadata)
    yield from _description(ours, latest, metadata)


def _unreadable_actions(ours: ProposedCommit) -> Iterator[str]:
    """Actions that describe the table must be readable; a number larger than a long would make the log unreadable.

    File actions are not checked: their numbers are sizes and row counts of our own files, or were read from the log.
    """
    for action in ours.actions:
        if not isinstance(action, AddFile | RemoveFile | AddCDCFile):
            try:
                parse_action(encode_action(action))
            except MalformedActionError as error:
                yield f"a reader would refuse it, because {error.reason}"


def _duplicate_kinds(ours: ProposedCommit) -> Iterator[str]:
    number_of = Counter(map(type, ours.actions))
    for kind in (Metadata, Protocol):
        if number_of[kind] > 1:
            yield f"it has more than one {kind.__name__} action"
    for app_id in _twice([action.app_id for action in ours.actions if isinstance(action, SetTransaction)]):
        yield f"it names the application {app_id!r} twice"
    for domain in _twice([action.domain for action in ours.actions if isinstance(action, DomainMetadata)]):
        yield f"it names the metadata domain {domain!r} twice"


def _duplicate_files(ours: ProposedCommit) -> Iterator[str]:
    for path in _twice([add.path for add in ours.adds]):
        yield f"it adds {path} twice"
    for path in _twice([remove.path for remove in ours.removes]):
        yield f"it removes {path} twice"
    removed = {remove.key for remove in ours.removes}
    for add in ours.adds:
        if add.key in removed:
            yield f"it both adds and removes {add.path} with the same deletion vector"


def _inconsistent_files(ours: ProposedCommit, latest: LatestState) -> Iterator[str]:
    """A remove names a live file; no path is live twice after an add."""
    if not ours.removes and not ours.adds:
        return
    live = latest.live_keys({file.path for file in ours.files})
    removed = {remove.key for remove in ours.removes}
    # A tombstone may name a vector file, which never was live: then a VACUUM that does not know vectors keeps it.
    not_live = {key for key in removed - live if not is_vector_file(key[0])}
    for path, vector in sorted(not_live, key=str):
        yield f"it removes {path} (deletion vector: {vector or 'none'}), which is not in version {latest.version}"
    kept_vectors = dict(live - removed)
    for add in ours.adds:
        # Adding the same logical file again is allowed: it gives the file tags or row ids.
        if add.path in kept_vectors and kept_vectors[add.path] != add.key[1]:
            yield f"it adds {add.path}, which is in version {latest.version} with another deletion vector"


def _vectors_of_uncounted_files(ours: ProposedCommit) -> Iterator[str]:
    """A commit that hides rows of a file states how many rows the file has. See "Deletion Vectors".

    Files that RESTORE or CLONE add as they were are not checked: another engine may have written their vectors.
    """
    hides = bool(ours.bins) or any(rows is not None for rows in ours.deleted_rows.values())
    for add in ours.adds if hides else ():
        if add.deletion_vector is not None and row_count(add.stats) is None:
            yield f"it hides rows of {add.path} and does not say how many rows the file has"


def _missing_features(ours: ProposedCommit, protocol: Protocol) -> Iterator[str]:
    if any(add.deletion_vector is not None for add in ours.adds) and not supported(protocol, "deletionVectors"):
        yield "it adds a deletion vector, and the table does not support the feature `deletionVectors`"
    if ours.domain_metadata and not supported(protocol, "domainMetadata"):
        yield "it has a metadata domain, and the table does not support the feature `domainMetadata`"


def _partition_columns(ours: ProposedCommit, latest: LatestState, metadata: Metadata) -> Iterator[str]:
    if not metadata.partition_columns and ours.metadata is None:
        return
    columns = physical_partition_columns(metadata, table=latest.table)
    for logical, physical in columns.items():
        if physical is None:
            yield f"it is partitioned by {logical!r}, which is no column of its schema"
    required = {physical for physical in columns.values() if physical is not None}
    for action in ours.actions:
        if isinstance(action, AddFile | AddCDCFile) and (missing := required - action.partition_values.keys()):
            yield f"{action.path} has no value for the partition columns {', '.join(sorted(missing))}"


def _description(ours: ProposedCommit, latest: LatestState, metadata: Metadata) -> Iterator[str]:
    """The commit adds no contradiction to the description of the table. One that exists already may stay."""
    if ours.metadata is None and not ours.domain_metadata:
        return
    before = latest.metadata
    old = () if before is None else tuple(faults_of_description(before, latest.domain_metadata, table=latest.table))
    new = faults_of_description(metadata, {**latest.domain_metadata, **ours.domain_metadata}, table=latest.table)
    yield from (fault for fault in new if fault not in old)


def _check_append_only(ours: ProposedCommit, latest: LatestState) -> None:
    if latest.protocol is None or not supported(latest.protocol, "appendOnly") or not latest.properties.append_only:
        return
    if any(remove.data_change for remove in ours.removes):
        raise AppendOnlyTableError(table=latest.table, operation=ours.operation.name)


def _check_iceberg_rules(ours: ProposedCommit, latest: LatestState, protocol: Protocol, metadata: Metadata) -> None:
    if ours.metadata is not None or ours.protocol is not None:
        check_iceberg_table(metadata, protocol, old=latest.metadata, table=latest.table)
    versions = compat_versions(TableProperties(metadata.configuration))
    if versions:
        check_iceberg_files(ours.adds, versions[0], table=latest.table)


def _twice(values: Sequence[Hashable]) -> list[Hashable]:
    if len(set(values)) == len(values):
        return []
    return [value for value, count in Counter(values).items() if count > 1]


def _invalid(latest: LatestState, violation: str) -> InvalidCommitError:
    return InvalidCommitError(table=latest.table, version=latest.version + 1, violation=violation)
