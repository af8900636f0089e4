"""Column mapping is turned off: data files are rewritten with logical column names, in one commit.

See "Column Mapping". Ids and physical names leave the schema; partition values, statistics and clustering columns have
logical names from then on. Older versions of the table stay as they are.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from anabranch.commands.definition.clustering import clustering_columns
from anabranch.commands.definition.table_definition import MAX_ID
from anabranch.commands.dml.statement import check_same_table
from anabranch.commands.read.read_table import scan_request
from anabranch.commands.table_access import TableRef, reports_progress
from anabranch.data_skipping.file_skipping import live_row_count
from anabranch.errors.alterations import ColumnNamesNeedMappingError
from anabranch.errors.commits import DeltaConcurrentModificationException
from anabranch.errors.maintenance import RowOrderError
from anabranch.log.commit_files import Commit
from anabranch.log.file_columns import FileMask
from anabranch.progress.progress_events import begin_phase
from anabranch.protocol.actions import Action, AddFile, DomainMetadata, Metadata, RemoveFile
from anabranch.protocol.properties import TableProperties
from anabranch.schema.column_mapping import ColumnMappingMode, has_mapping, strip_mapping
from anabranch.schema.computed_columns import RowTrackingColumns
from anabranch.schema.logical_types import without_void
from anabranch.schema.names import invalid_names
from anabranch.schema.paths import quote
from anabranch.schema.serialization import parse_schema, schema_string
from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.engine import WriteRequest
from anabranch.spark.rows.row_tracking import with_stable_ids, with_tracking
from anabranch.spark.write.rewrite_request import NO_LIMIT
from anabranch.transactions.commit.commit_attempt import rows_kept_tags
from anabranch.transactions.commit.commit_context import CommittedVersion
from anabranch.transactions.conflicts.description_rules import CLUSTERING_DOMAIN
from anabranch.transactions.proposed_commit import Operation
from anabranch.transactions.read_set import FileKey
from anabranch.transactions.rows.deletion_vector_actions import removal

LOGGER = logging.getLogger("anabranch.features")
MODE = "delta.columnMapping.mode"
ROUNDS_MAX = 5


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Rewritten:
    """Some files of the table, and what their rows were written to."""

    sources: frozenset[FileKey]
    adds: tuple[AddFile, ...]
    num_rows: int
    schema_json: str
    """The schema of the table when they were rewritten."""
    tracking: RowTrackingColumns | None


@reports_progress("REMOVE COLUMN MAPPING")
def remove_column_mapping(table: TableRef, *, unset: bool) -> CommittedVersion | None:
    """Turn column mapping off; `unset` removes the property instead of setting it to `none`.

    None where the table has no mapping. Rows that other writers add meanwhile are rewritten too, a few times; then the
    conflict is raised. Rows keep their row ids. Raises `ColumnNamesNeedMappingError`.
    """
    done: list[_Rewritten] = []
    table_id = table.latest().metadata.id
    for number in range(1, ROUNDS_MAX + 1):
        snapshot = table.latest()
        check_same_table(table, snapshot, table_id=table_id)
        if not snapshot.column_mapping_mode.maps and not has_mapping(snapshot.schema):
            return None
        _check_names(table, snapshot)
        if snapshot.column_mapping_mode.maps:
            done = _rewritten(table, snapshot, done)
        try:
            return _committed(table, snapshot, done, unset=unset)
        except DeltaConcurrentModificationException as lost:
            if number == ROUNDS_MAX:
                raise
            LOGGER.info("%s: turning column mapping off begins again: %s", table.label, lost)
    raise AssertionError("the loop returns or raises")


def unmapped_metadata(metadata: Metadata, *, unset: bool) -> Metadata:
    """`metadata` without mode, ids and physical names. All other metadata of columns stays."""
    stripped = schema_string(strip_mapping(parse_schema(metadata.schema_string)))
    kept: Mapping[str, str | None] = {
        name: value for name, value in metadata.configuration.items() if name not in {MODE, MAX_ID}
    }
    mode = {} if unset else {MODE: ColumnMappingMode.NONE.value}
    return msgspec.structs.replace(metadata, schema_string=stripped, configuration={**kept, **mode})


def unmapped_clustering(snapshot: Snapshot) -> DomainMetadata | None:
    """The clustering domain with logical names; None where the table has no clustering columns."""
    domain = snapshot.domain_metadata.get(CLUSTERING_DOMAIN)
    columns = clustering_columns(snapshot)
    if domain is None or not columns:
        return None
    logical = {**msgspec.json.decode(domain.configuration), "clusteringColumns": columns}
    return msgspec.structs.replace(domain, configuration=msgspec.json.encode(logical).decode())


def _check_names(table: TableRef, snapshot: Snapshot) -> None:
    names = invalid_names(snapshot.schema)
    if names:
        raise ColumnNamesNeedMappingError(table=table.label, columns=names)


def _rewritten(table: TableRef, snapshot: Snapshot, before: Sequence[_Rewritten]) -> list[_Rewritten]:
    """All rows of `snapshot` in files with logical names. Files written `before` are reused where they still fit."""
    keys = [add.key for add in snapshot.files.to_actions()]
    live, described = frozenset(keys), (snapshot.metadata.schema_string, snapshot.row_tracking)
    kept = [part for part in before if part.sources <= live and (part.schema_json, part.tracking) == described]
    covered = frozenset(key for part in kept for key in part.sources)
    left = np.array([key not in covered for key in keys], dtype=np.bool_)
    return [*kept, _written(table, snapshot, left, live - covered)] if left.any() else kept


def _written(table: TableRef, snapshot: Snapshot, chosen: FileMask, sources: frozenset[FileKey]) -> _Rewritten:
    request, tracking = scan_request(table, snapshot), snapshot.row_tracking
    files = snapshot.files.rows(np.flatnonzero(chosen))
    begin_phase("rewrite files", files=len(files))
    scan = with_tracking(dataclasses.replace(request, files=files, prune=None), tracking)
    frame = with_stable_ids(table.session.engine.scan(scan), files, tracking)
    schema = without_void(strip_mapping(snapshot.schema))
    if tracking is not None:
        schema = tracking.added_to(schema)
    written = table.session.engine.write(
        WriteRequest(
            table_root=table.path,
            frame=frame.select(*(frame[quote(name)] for name in schema.fieldNames())),
            schema=schema,
            partition_columns=snapshot.partition_columns,
            column_mapping=ColumnMappingMode.NONE,
            properties=TableProperties(unmapped_metadata(snapshot.metadata, unset=True).configuration),
            max_records_per_file=NO_LIMIT,
            options=table.storage,
        )
    )
    _check_nothing_is_lost(table, snapshot, chosen, written.num_rows)
    return _Rewritten(
        sources=sources,
        adds=written.adds,
        num_rows=written.num_rows,
        schema_json=snapshot.metadata.schema_string,
        tracking=tracking,
    )


def _check_nothing_is_lost(table: TableRef, snapshot: Snapshot, chosen: FileMask, num_rows: int) -> None:
    """Raises `RowOrderError` where fewer or more rows were written than the log counts; it may not count them."""
    due = live_row_count(snapshot.skipping_columns, chosen)
    if due is not None and due != num_rows:
        raise RowOrderError(table=table.label, problem=f"{num_rows} rows were written, but the log counts {due}")


def _committed(table: TableRef, snapshot: Snapshot, done: Sequence[_Rewritten], *, unset: bool) -> CommittedVersion:
    now_ms = table.session.clock.now_ms()
    adds = [msgspec.structs.replace(add, data_change=False) for rewritten in done for add in rewritten.adds]
    gone = snapshot.files.to_actions() if done else []
    removes = [removal(add, removed_at_ms=now_ms, data_change=False) for add in gone]
    clustering = unmapped_clustering(snapshot)
    actions: list[Action] = [
        unmapped_metadata(snapshot.metadata, unset=unset),
        *([] if clustering is None else [clustering]),
        *removes,
        *adds,
    ]
    metrics = {
        "numRewrittenFiles": len(removes),
        "numOutputBytes": sum(add.size for add in adds),
        "numRemovedBytes": sum(remove.size or 0 for remove in removes),
        "numCopiedRows": sum(rewritten.num_rows for rewritten in done),
        "numDeletionVectorsRemoved": sum(remove.deletion_vector is not None for remove in removes),
    }
    transaction = table.begin_at(Operation(name="REMOVE COLUMN MAPPING"), snapshot=snapshot)
    transaction.record_whole_table()
    return transaction.commit(actions, metrics=metrics, tags=rows_kept_tags(snapshot), conflicts_with=_files)


def _files(commit: Commit) -> str | None:
    """The files that a winner adds or removes: ours would then hold other rows, or outdated column names."""
    touched = [action.path for action in commit.actions if isinstance(action, AddFile | RemoveFile)]
    return f"{len(touched)} files, such as {touched[0]}" if touched else None
