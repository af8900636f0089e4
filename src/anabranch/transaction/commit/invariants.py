"""What must hold of a commit at its place in the log, checked before every attempt, in production too.

A mistake found here costs one operation; found by a reader it costs the table. See "Delta Log Entries",
"Consistency Between Table Metadata and Data Files" and "Append-only Tables".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator

from anabranch.deletion_vectors.vector_locations import is_vector_file
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
)
from anabranch.protocol.actions_json import encode_action, parse_action
from anabranch.protocol.features import check_writable, supported
from anabranch.protocol.properties import TableProperties
from anabranch.schema.iceberg_rules import check_iceberg_files, check_iceberg_table
from anabranch.transaction.conflicts.description_rules import faults_of_description, physical_partition_columns
from anabranch.transaction.conflicts.latest_state import LatestState
from anabranch.transaction.proposed_commit import ProposedCommit
from anabranch.transaction.rows.row_ids import row_count


def check_invariants(ours: ProposedCommit, latest: LatestState) -> tuple[Protocol, Metadata]:
    """The protocol and the metadata that hold once `ours` stands right after `latest`.

    Raises `InvalidCommitError`, `AppendOnlyTableError`, `UnsupportedFeatureError`, `IcebergCompatError`.
    """
    protocol, metadata = ours.protocol or latest.protocol, ours.metadata or latest.metadata
    if protocol is None or metadata is None:
        raise _invalid(latest, "the first commit of a table needs `protocol` and `metaData`")
    for needed in (latest.protocol, ours.protocol):
        if needed is not None:
            check_writable(needed, table=latest.table)
    _check_append_only(ours, latest)
    _check_iceberg_rules(ours, latest, protocol, metadata)
    violation = next(_violations(ours, latest, protocol, metadata), None)
    if violation is not None:
        raise _invalid(latest, violation)
    return protocol, metadata


def _violations(ours: ProposedCommit, latest: LatestState, protocol: Protocol, metadata: Metadata) -> Iterator[str]:
    yield from _unreadable_actions(ours)
    yield from _kinds_given_twice(ours)
    yield from _files_given_twice(ours)
    yield from _files_that_do_not_fit(ours, latest)
    yield from _vectors_of_uncounted_files(ours)
    yield from _missing_features(ours, protocol)
    yield from _partition_columns(ours, latest, metadata)
    yield from _description(ours, latest, metadata)


def _unreadable_actions(ours: ProposedCommit) -> Iterator[str]:
    """What describes the table must come back as it is written; a number beyond a long would spoil the log.

    Numbers of files are ours, sizes and row counts, or came out of the log.
    """
    for action in ours.actions:
        if not isinstance(action, AddFile | RemoveFile | AddCDCFile):
            try:
                parse_action(encode_action(action))
            except MalformedActionError as error:
                yield f"a reader would refuse it, because {error.reason}"


def _kinds_given_twice(ours: ProposedCommit) -> Iterator[str]:
    for kind in (Metadata, Protocol):
        if sum(isinstance(action, kind) for action in ours.actions) > 1:
            yield f"it has more than one {kind.__name__} action"
    for app_id in _twice(action.app_id for action in ours.actions if isinstance(action, SetTransaction)):
        yield f"it names the application {app_id!r} twice"
    for domain in _twice(action.domain for action in ours.actions if isinstance(action, DomainMetadata)):
        yield f"it names the metadata domain {domain!r} twice"


def _files_given_twice(ours: ProposedCommit) -> Iterator[str]:
    for path in _twice(add.path for add in ours.adds):
        yield f"it adds {path} twice"
    for path in _twice(remove.path for remove in ours.removes):
        yield f"it removes {path} twice"
    removed = {remove.key for remove in ours.removes}
    for add in ours.adds:
        if add.key in removed:
            yield f"it both adds and removes {add.path} with the same deletion vector"


def _files_that_do_not_fit(ours: ProposedCommit, latest: LatestState) -> Iterator[str]:
    """A remove names what is there; an add brings no path to life twice."""
    if not ours.removes and not ours.adds:
        return
    live = latest.live_keys({file.path for file in ours.files})
    removed = {remove.key for remove in ours.removes}
    # A tombstone may name a file of vectors, which never was live: a VACUUM that knows no vectors then spares it.
    strays = {key for key in removed - live if not is_vector_file(key[0])}
    for path, vector in sorted(strays, key=str):
        yield f"it removes {path} (deletion vector: {vector or 'none'}), which is not in version {latest.version}"
    staying = dict(live - removed)
    for add in ours.adds:
        # The same logical file again is no second one: tags or row ids are being added to it.
        if add.path in staying and staying[add.path] != add.key[1]:
            yield f"it adds {add.path}, which is in version {latest.version} with another deletion vector"


def _vectors_of_uncounted_files(ours: ProposedCommit) -> Iterator[str]:
    """Who hides rows of a file says how many it has. See "Deletion Vectors".

    What comes back as it was, as by RESTORE or in a clone, may be another engine's work.
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
    wanted = {physical for physical in columns.values() if physical is not None}
    for action in ours.actions:
        if isinstance(action, AddFile | AddCDCFile) and (missing := wanted - action.partition_values.keys()):
            yield f"{action.path} has no value for the partition columns {', '.join(sorted(missing))}"


def _description(ours: ProposedCommit, latest: LatestState, metadata: Metadata) -> Iterator[str]:
    """Ours brings no contradiction into what describes the table. One that is there already may stay."""
    if ours.metadata is None and not ours.domain_metadata:
        return
    before = latest.metadata
    known = () if before is None else tuple(faults_of_description(before, latest.domain_metadata, table=latest.table))
    after = faults_of_description(metadata, {**latest.domain_metadata, **ours.domain_metadata}, table=latest.table)
    yield from (fault for fault in after if fault not in known)


def _check_append_only(ours: ProposedCommit, latest: LatestState) -> None:
    if latest.protocol is None or not supported(latest.protocol, "appendOnly") or not latest.properties.append_only:
        return
    if any(remove.data_change for remove in ours.removes):
        raise AppendOnlyTableError(table=latest.table, operation=ours.operation.name)


def _check_iceberg_rules(ours: ProposedCommit, latest: LatestState, protocol: Protocol, metadata: Metadata) -> None:
    if ours.metadata is not None or ours.protocol is not None:
        check_iceberg_table(metadata, protocol, old=latest.metadata, table=latest.table)
    check_iceberg_files(ours.adds, TableProperties(metadata.configuration), table=latest.table)


def _twice(values: Iterable[Hashable]) -> Iterator[Hashable]:
    return (value for value, count in Counter(values).items() if count > 1)


def _invalid(latest: LatestState, violation: str) -> InvalidCommitError:
    return InvalidCommitError(table=latest.table, version=latest.version + 1, violation=violation)
