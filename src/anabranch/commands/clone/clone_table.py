"""SHALLOW CLONE: a table whose first files are those of another table, in their folder.

The source is never changed: new files of the clone are written to its own folder. The session that makes the clone
allows it to read the folders of the source; see docs/design/restore-and-clone.md.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StructField, StructType

from anabranch.commands.catalog_registration import register
from anabranch.commands.clone.clone_definition import CloneDefinition, CloneSource, clone_definition, cloned_files
from anabranch.commands.create.create_table import CreationMode, check_location_free, check_named
from anabranch.commands.table_access import TableRef, reports_progress, table_at, table_to_create
from anabranch.errors.commits import ConflictReason, ProtocolChangedException
from anabranch.errors.tables import CloneOntoItselfError, CloneTargetError, NotADeltaTableError, TableAlreadyExistsError
from anabranch.log.commit_files import Commit
from anabranch.log.file_columns import adds_of_table
from anabranch.progress.progress_events import begin_phase
from anabranch.protocol.actions import Action, AddFile, RemoveFile
from anabranch.protocol.features import check_writable
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.spark.session.table_identifiers import PathIdentifier, parse_identifier
from anabranch.storage.external_files import canonical_root
from anabranch.transactions.commit.commit_context import CommittedVersion
from anabranch.transactions.conflicts.winners import Winner
from anabranch.transactions.proposed_commit import Operation
from anabranch.transactions.rows.deletion_vector_actions import removal
from anabranch.transactions.transaction import Transaction

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
    """The commit of a clone and its metrics."""

    committed: CommittedVersion
    metrics: Mapping[str, int]
    """By Delta's names, in the order of the result's columns."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class PreparedClone:
    """A clone that is ready to be committed."""

    transaction: Transaction
    actions: tuple[Action, ...]
    metrics: Mapping[str, int]

    def commit(self) -> Cloned:
        """Commit it. Raises `DeltaConcurrentModificationException` where another commit changed the table first."""
        committed = self.transaction.commit(self.actions, metrics=self.metrics, conflicts_with=_describes)
        return Cloned(committed=committed, metrics=self.metrics)


@reports_progress("CLONE")
def shallow_clone(
    target: TableRef, source: CloneSource, mode: CreationMode, properties: Mapping[str, str]
) -> Cloned | None:
    """Make `target` a clone of `source`; None where it exists and the mode leaves it alone. It is in the catalog then.

    `properties` take precedence over those of the source. Raises `TableAlreadyExistsError`, `NotADeltaTableError`
    (nothing to replace), `LocationNotEmptyError`, `TableInLocationError`, `CloneOntoItselfError`, `UnsafePathError`,
    and the errors of properties.
    """
    if not _is_to_be_made(target, mode):
        return None
    try:
        cloned = prepare_clone(target, source, properties).commit()
    except ProtocolChangedException as lost:
        if mode is not CreationMode.CREATE_IF_NOT_EXISTS or lost.reason is not ConflictReason.TABLE_CREATED:
            raise
        check_named(target)
        return None
    # Not before the commit: until then, a table in this folder is not our clone.
    target.session.allow_prefixes(target.path, [source.root, *source.folders])
    if target.entry is not None:
        register(target, target.entry, cloned.committed)
    return cloned


def clone_frame(session: DeltaSession, cloned: Cloned | None) -> DataFrame:
    """Delta's result: one row of sizes and numbers of files, or no row where nothing was cloned."""
    rows = [] if cloned is None else [tuple(cloned.metrics.values())]
    return session.spark.createDataFrame(rows, RESULT)


def prepare_clone(target: TableRef, source: CloneSource, properties: Mapping[str, str]) -> PreparedClone:
    """Prepare a clone for its commit. Raises as `shallow_clone` does."""
    if canonical_root(target.path) == canonical_root(source.root):
        raise CloneOntoItselfError(table=target.label)
    snapshot = target.delta_log.snapshots.latest_or_none()
    if snapshot is not None:
        check_writable(snapshot.protocol, table=target.label)
    begin_phase("list files")
    defined = clone_definition(source, snapshot, properties, label=target.label, random=target.session.random)
    files = cloned_files(
        source.files, source_root=source.root, folders=source.folders, target_root=target.delta_log.store.root
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
    """The clone as a commit: `adds` replace the files of the table that the transaction reads, if there is one."""
    removes = _removes_of(transaction.snapshot, adds, now_ms=now_ms)
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
    """The table that an absolute path or a name means as the target of a clone."""
    identifier = PathIdentifier(target) if _ABSOLUTE.match(target) else parse_identifier(target)
    if isinstance(identifier, PathIdentifier):
        return table_at(session, identifier.path)
    return table_to_create(session, identifier, location=None)


def check_target_path(path: str) -> None:
    """Raises `CloneTargetError` for a relative path: its meaning would depend on the working directory."""
    if not _ABSOLUTE.match(path):
        raise CloneTargetError(target=path, problem="write the absolute path of the clone's folder")


def _describes(commit: Commit) -> str | None:
    """A winner that changed the metadata of the target is a conflict: the clone has not read it."""
    return "it changed the table's metadata, and so does CLONE" if Winner(commit=commit).describes_table else None


def _removes_of(snapshot: Snapshot | None, adds: list[AddFile], *, now_ms: int) -> list[RemoveFile]:
    """The removes for files of the replaced table that the clone does not have."""
    if snapshot is None:
        return []
    staying = {add.key for add in adds}
    files = snapshot.files.to_actions(None)
    return [removal(add, removed_at_ms=now_ms, data_change=True) for add in files if add.key not in staying]


def _is_to_be_made(target: TableRef, mode: CreationMode) -> bool:
    registered = target.entry is not None and target.session.catalog.find(target.entry.full_name) is not None
    exists = target.delta_log.snapshots.latest_or_none() is not None
    if (registered or exists) and not mode.replaces:
        check_named(target)
        if mode is CreationMode.CREATE_IF_NOT_EXISTS:
            return False
        raise TableAlreadyExistsError(table=target.label)
    if mode is CreationMode.REPLACE and (not exists or (target.entry is not None and not registered)):
        raise NotADeltaTableError(table=target.label, found="the table to replace cannot be found")
    if not exists:
        check_location_free(target, mode)
    return True
