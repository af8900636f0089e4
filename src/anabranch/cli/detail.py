"""`anabranch detail`: the columns of DESCRIBE DETAIL, and more facts that need no Spark."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from anabranch.cli.output import facts_table
from anabranch.commands.describe.describe_table import detail_of
from anabranch.data_skipping.statistics_columns import read_num_records
from anabranch.log.log_segment import list_log
from anabranch.protocol.features import FEATURES, active, supported_features
from anabranch.protocol.log_paths import LOG_DIRECTORY
from anabranch.snapshot.snapshot import Snapshot
from anabranch.snapshot.snapshot_cache import SnapshotCache
from anabranch.text_format import count, iso_time, listed, local_time, plain, size

if TYPE_CHECKING:
    from rich.console import Console


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TableDetail:
    """The newest version of a table, and the state of its log."""

    snapshot: Snapshot
    facts: dict[str, Any]
    """The columns of DESCRIBE DETAIL by name, then the additional ones."""

    def document(self) -> dict[str, Any]:
        return self.facts

    def print_to(self, out: Console) -> None:
        snapshot, table = self.snapshot, facts_table()
        for name, text in _facts_in_words(self.facts, snapshot):
            if text:
                table.add_row(name, text)
        out.print(table)
        out.print()
        columns = facts_table()
        for field in snapshot.schema.fields:
            mark = " (partition)" if field.name in snapshot.partition_columns else ""
            required = "" if field.nullable else " not null"
            columns.add_row(f"  {plain(field.name)}", f"{plain(field.dataType.simpleString())}{required}{mark}")
        out.print(count(len(snapshot.schema.fields), "column"), style="bold")
        out.print(columns)


def table_detail(snapshots: SnapshotCache) -> TableDetail:
    """The detail of the newest version. Raises `TableNotFoundError`, `StorageError`."""
    snapshot, store = snapshots.latest(), snapshots.store
    listing = list_log(store, first=0, upto=None)
    checkpoints = listing.checkpoints
    detail = detail_of(snapshot, location=snapshot.table_root, name=None)
    features = supported_features(snapshot.protocol)
    summary = snapshot.files.summary
    facts = {
        **detail,
        "createdAt": _iso(snapshot.metadata.created_time),
        "lastModified": iso_time(snapshot.timestamp_ms),
        "version": snapshot.version,
        "earliestVersion": listing.earliest_recreatable_version(),
        "activeFeatures": sorted(name for name in features if _is_active(snapshot, name)),
        "numCheckpoints": len(checkpoints),
        "lastCheckpointVersion": checkpoints[-1].version if checkpoints else None,
        "logFiles": sum(1 for _ in store.list_tree(LOG_DIRECTORY)),
        "logSizeInBytes": sum(file.size_bytes for file in store.list_tree(LOG_DIRECTORY)),
        "numDeletionVectors": summary.deletion_vectors,
        "numRows": _rows_in_files(snapshot, hidden=summary.deleted_records),
        "numHiddenRows": summary.deleted_records,
        "schema": snapshot.schema.jsonValue(),
    }
    return TableDetail(snapshot=snapshot, facts=facts)


def _facts_in_words(document: dict[str, Any], snapshot: Snapshot) -> list[tuple[str, str]]:
    created = snapshot.metadata.created_time
    properties = [f"{plain(name)} = {plain(value)}" for name, value in sorted(document["properties"].items())]
    return [
        ("table", plain(document["location"])),
        ("name", plain(document["name"] or "")),
        ("description", plain(document["description"] or "")),
        ("id", plain(document["id"])),
        ("version", f"{document['version']}, of {local_time(snapshot.timestamp_ms)}"),
        ("history", f"the log has versions {document['earliestVersion']} to {document['version']}"),
        ("created", "" if created is None else local_time(created)),
        ("files", f"{count(document['numFiles'], 'file')}, {size(document['sizeInBytes'])}"),
        ("rows", _rows_in_words(document)),
        ("deletion vectors", _vectors_in_words(document)),
        ("partitioned by", plain(", ".join(document["partitionColumns"]))),
        ("clustered by", plain(", ".join(document["clusteringColumns"]))),
        ("log", _log_in_words(document)),
        ("protocol", _protocol_in_words(document)),
        ("features", _features_in_words(document)),
        ("properties", "\n".join(properties)),
    ]


def _rows_in_files(snapshot: Snapshot, *, hidden: int) -> int | None:
    """The rows that a query sees; None where the log lacks the row count of a file."""
    rows = read_num_records(snapshot.files.stats_batches())
    return None if rows.null_count else (pc.sum(rows).as_py() or 0) - hidden


def _rows_in_words(document: dict[str, Any]) -> str:
    if document["numRows"] is None:
        return "unknown: some files have no statistics"
    hidden = document["numHiddenRows"]
    return f"{document['numRows']:,}" + (f", and {hidden:,} deleted that are still in the files" if hidden else "")


def _vectors_in_words(document: dict[str, Any]) -> str:
    number = document["numDeletionVectors"]
    return f"on {count(number, 'file')}" if number else ""


def _log_in_words(document: dict[str, Any]) -> str:
    files = f"{count(document['logFiles'], 'file')}, {size(document['logSizeInBytes'])}"
    last = document["lastCheckpointVersion"]
    if last is None:
        return f"{files}; no checkpoint yet"
    return f"{files}; {count(document['numCheckpoints'], 'checkpoint')}, the last of version {last}"


def _protocol_in_words(document: dict[str, Any]) -> str:
    return f"reader version {document['minReaderVersion']}, writer version {document['minWriterVersion']}"


def _features_in_words(document: dict[str, Any]) -> str:
    names = document["tableFeatures"]
    in_use = set(document["activeFeatures"])
    used = [plain(name) for name in names if name in in_use]
    idle = [plain(name) for name in names if name not in in_use]
    unknown = [plain(name) for name in names if name not in FEATURES]
    lines = []
    if used:
        lines.append(f"in use: {listed(used)}")
    if idle:
        lines.append(f"supported, not in use: {listed(idle)}")
    if unknown:
        lines.append(f"unknown to this release: {listed(unknown)}")
    return "\n".join(lines) or "none"


def _is_active(snapshot: Snapshot, name: str) -> bool:
    return active(snapshot.protocol, name, properties=snapshot.properties, schema=snapshot.schema)


def _iso(timestamp_ms: int | None) -> str | None:
    return None if timestamp_ms is None else iso_time(timestamp_ms)
