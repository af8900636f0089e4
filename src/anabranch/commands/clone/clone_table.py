"""SHALLOW CLONE: a table that begins with the files of another, where they are.

Nothing of the source is written or deleted, now or later: the clone's own files go to its own folder. The session that
makes the clone lets it read there; see docs/design/restore-and-clone.md.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StructField, StructType

from anabranch.commands.catalog_registration import register
from anabranch.commands.clone.clone_definition import CloneDefinition, CloneSource, clone_definition, cloned_files
from anabranch.commands.definition.create_table import CreationMode, check_location_free, check_named
from anabranch.commands.table_access import TableRef, table_at, table_to_create
from anabranch.errors.commits import ConflictReason, ProtocolChangedException
from anabranch.errors.tables import CloneOntoItselfError, CloneTargetError, NotADeltaTableError, TableAlreadyExistsError
from anabranch.log.commit_files import Commit
from anabranch.log.file_columns import adds_of_table
from anabranch.protocol.actions import Action, AddFile, RemoveFile
from anabranch.protocol.features import check_writable
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.spark.session.table_identifiers import PathIdentifier, parse_identifier
from anabranch.storage.external_files import canonical_root
from anabranch.transaction.commit.commit_context import CommittedVersion
from anabranch.transaction.conflicts.winners import Winner
from anabranch.transaction.proposed_commit import Operation
from anabranch.transaction.rows.deletion_vector_actions import removal
from anabranch.transaction.transaction import Transaction

_ABSOLUTE = re.compile(r"^(/|~|[A-Za-z][A-Za-z0-9+.\-]+:)")

RESULT = StructType(
    [
        StructField(name, LongType())
        for name in (
            "source_table_size",
            "source_num_of_files",
            "num_removed_files",
            "num_copied_files",
            "removed_files_size",
            "copied_files_size",
        )
    ]
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cloned:
    """What a clone did."""

    committed: CommittedVersion
    metrics: Mapping[str, int]
    """By Delta's names, in the order of the result's columns."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PreparedClone:
    """All of a clone but its commit."""

    transaction: Transaction
    actions: tuple[Action, ...]
    metrics: Mapping[str, int]

    def commit(self) -> Cloned:
        """Land it. Raises `DeltaConcurrentModificationException` behind whoever made or changed the table meanwhile."""
        committed = self.transaction.commit(self.actions, metrics=self.metrics, conflicts_with=_describes)
        return Cloned(committed=committed, metrics=self.metrics)


def shallow_clone(
    target: TableRef, source: CloneSource, mode: CreationMode, properties: Mapping[str, str]
) -> Cloned | None:
    """Make `target` a clone of `source`; None where it is there and the mode lets it be. The catalog knows it then.

    `properties` go before those of the source. Raises `TableAlreadyExistsError`, `NotADeltaTableError` (nothing to
    replace), `LocationNotEmptyError`, `TableInLocationError`, `CloneOntoItselfError`, `UnsafePathError`, and the
    errors of properties.
    """
    if not _shall_be_made(target, mode):
        return None
    try:
        cloned = prepare_clone(target, source, properties).commit()
    except ProtocolChangedException as lost:
        if mode is not CreationMode.CREATE_IF_NOT_EXISTS or lost.reason is not ConflictReason.TABLE_CREATED:
            raise
        check_named(target)
        return None
    # Only now: until the commit, whatever is there is not of our making.
    target.session.allow_prefixes(target.path, [source.root, *source.places])
    if target.entry is not None:
        register(target, target.entry, cloned.committed)
    return cloned


def clone_frame(session: DeltaSession, cloned: Cloned | None) -> DataFrame:
    """The result as Delta has it: one row of sizes and numbers of files, none where nothing was done."""
    rows = [] if cloned is None else [tuple(cloned.metrics.values())]
    return session.spark.createDataFrame(rows, RESULT)


def prepare_clone(target: TableRef, source: CloneSource, properties: Mapping[str, str]) -> PreparedClone:
    """All of `shallow_clone` but the commit."""
    if canonical_root(target.path) == canonical_root(source.root):
        raise CloneOntoItselfError(table=target.label)
    snapshot = target.delta_log.snapshots.latest_or_none()
    if snapshot is not None:
        check_writable(snapshot.protocol, table=target.label)
    defined = clone_definition(source, snapshot, properties, label=target.label, random=target.session.random)
    files = cloned_files(
        source.files, source_root=source.root, places=source.places, target_root=target.delta_log.store.root
    )
    operation = Operation(name="CLONE", parameters={"source": source.name, "sourceVersion": source.version})
    transaction = target.begin_at(operation, snapshot=snapshot)
    if snapshot is not None:
        transaction.record_whole_table()
    return planned_clone(
        transaction, defined, adds_of_table(files, data_change=True), now_ms=target.session.clock.now_ms()
    )


def planned_clone(
    transaction: Transaction, defined: CloneDefinition, adds: list[AddFile], *, now_ms: int
) -> PreparedClone:
    """What makes the table that the transaction reads, or none, into one of these files."""
    removes = _leaving(transaction.snapshot, adds, now_ms=now_ms)
    size_bytes = sum(add.size for add in adds)
    return PreparedClone(
        transaction=transaction,
        actions=(defined.protocol, defined.metadata, *defined.domains, *removes, *adds),
        metrics={
            "sourceTableSize": size_bytes,
            "sourceNumOfFiles": len(adds),
            "numRemovedFiles": len(removes),
            "numCopiedFiles": 0,
            "removedFilesSize": sum(remove.size or 0 for remove in removes),
            "copiedFilesSize": 0,
        },
    )


def clone_target(session: DeltaSession, target: str) -> TableRef:
    """Where a clone goes that is given by an absolute path or by a name."""
    identifier = PathIdentifier(target) if _ABSOLUTE.match(target) else parse_identifier(target)
    if isinstance(identifier, PathIdentifier):
        return table_at(session, identifier.path)
    return table_to_create(session, identifier, location=None)


def check_target_path(path: str) -> None:
    """Raises `CloneTargetError`: what is relative would depend on who asks."""
    if not _ABSOLUTE.match(path):
        raise CloneTargetError(target=path, problem="a clone's folder is given by its absolute path")


def _describes(commit: Commit) -> str | None:
    """Whoever changes the description of a table while it becomes a clone is not known to the clone."""
    return "it changed how the table is described, and so does CLONE" if Winner(commit=commit).describes_table else None


def _leaving(snapshot: Snapshot | None, adds: list[AddFile], *, now_ms: int) -> list[RemoveFile]:
    """Files of the table that is replaced, but for those that the clone has as well."""
    if snapshot is None:
        return []
    staying = {add.key for add in adds}
    files = snapshot.files.to_actions(None)
    return [removal(add, removed_at_ms=now_ms, data_change=True) for add in files if add.key not in staying]


def _shall_be_made(target: TableRef, mode: CreationMode) -> bool:
    known = target.entry is not None and target.session.catalog.find(target.entry.full_name) is not None
    there = target.delta_log.snapshots.latest_or_none() is not None
    if (known or there) and not mode.replaces:
        check_named(target)
        if mode is CreationMode.CREATE_IF_NOT_EXISTS:
            return False
        raise TableAlreadyExistsError(table=target.label)
    if mode is CreationMode.REPLACE and (not there or (target.entry is not None and not known)):
        raise NotADeltaTableError(table=target.label, found="what is to be replaced cannot be found")
    if not there:
        check_location_free(target, mode)
    return True
