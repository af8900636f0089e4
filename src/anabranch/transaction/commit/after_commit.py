"""What follows a landed commit: checksum, checkpoint, clean-up. It may fail; the commit stands."""

from __future__ import annotations

import dataclasses
import functools
import logging
import random
import typing
from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.clock import Clock, random_uuid
from anabranch.data_skipping.partition_columns import partition_texts
from anabranch.errors.base import DeltaError
from anabranch.errors.other_formats import ManifestLineError, ManifestsHideVectorsError, ManifestsNeedPlainColumnsError
from anabranch.log.checksum import write_checksum
from anabranch.log.cleanup import clean_up_log
from anabranch.protocol.actions import AddFile, Metadata, RemoveFile
from anabranch.protocol.data_paths import decode_path_column, partition_path
from anabranch.protocol.iceberg_compat import writes_iceberg
from anabranch.snapshot.checkpointing import checksum_of, is_checkpoint_due, write_checkpoint
from anabranch.snapshot.snapshot import Snapshot
from anabranch.storage.external_files import allowed_prefixes_of
from anabranch.storage.log_store import LogStore
from anabranch.transaction.commit.commit_context import CommittedVersion
from anabranch.uniform.iceberg_library import check_installed

LOGGER = logging.getLogger("anabranch.commit")


class AfterCommitStep(typing.Protocol):
    """One piece of upkeep."""

    @property
    def name(self) -> str:
        """What it is called in a log message."""

    def run(self, landed: CommittedVersion) -> None:
        """Do it, or nothing where it is not due."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AfterCommit:
    """The upkeep of one table."""

    steps: Sequence[AfterCommitStep] = ()

    def run(self, landed: CommittedVersion) -> None:
        """All steps, whatever becomes of the ones before. Raises nothing but an interrupt by the user.

        The commit is in the log: who reported a failure now would make the caller write its rows again.
        """
        for step in self.steps:
            try:
                step.run(landed)
            except DeltaError as error:
                LOGGER.warning("version %d landed, but its %s failed: %s", landed.version, step.name, error)
            except Exception:
                LOGGER.warning("version %d landed, but its %s failed", landed.version, step.name, exc_info=True)


# Manifests in the symlink format: a text file a partition that lists its data files, for engines without Delta.


MANIFEST_DIRECTORY = "_symlink_format_manifest"
_MANIFEST = "manifest"
_LINE_BREAK = r"[\x00-\x1F\x7F\x{0085}\x{2028}\x{2029}]"
"""What some reader takes for the end of a line; no other control character is of use in a name."""
_ABSOLUTE = "^(/|[A-Za-z][A-Za-z0-9+.-]*:/)"

PartitionKey = tuple[str | None, ...]
"""Values as the log has them, None for null, in the order of the partition columns."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WriteManifests:
    """See `delta.compatibility.symlinkFormatManifest.enabled`: after each commit, the partitions that it changed."""

    store: LogStore
    name: str = "symlink manifest"

    def run(self, landed: CommittedVersion) -> None:
        snapshot = landed.snapshot
        if not snapshot.properties.symlink_manifests_enabled:
            return
        write_manifests(self.store, snapshot, only=self._touched(landed))

    def _touched(self, landed: CommittedVersion) -> set[PartitionKey] | None:
        """The partitions that got or lost files; None for all, where that is not known or none has a manifest yet."""
        if any(isinstance(action, Metadata) for action in landed.actions):
            return None
        if next(iter(self.store.list_tree(MANIFEST_DIRECTORY)), None) is None:
            return None
        columns = landed.snapshot.partition_columns
        touched = set()
        for action in landed.actions:
            if isinstance(action, AddFile | RemoveFile):
                if action.partition_values is None:
                    return None
                touched.add(tuple(action.partition_values.get(name) or None for name in columns))
        return touched


def write_manifests(store: LogStore, snapshot: Snapshot, *, only: Collection[PartitionKey] | None = None) -> None:
    """Make the manifests say what is in the table, or in the partitions `only`; those of partitions without files go.

    Raises `ManifestsHideVectorsError`, `ManifestsNeedPlainColumnsError`, `ManifestLineError` and `StorageError`.
    """
    check_listable(snapshot, table=store.root)
    listed = _files_by_partition(snapshot, store)
    chosen = listed if only is None else {key: listed[key] for key in only if key in listed}
    for key, names in chosen.items():
        store.put(_path(snapshot, key), "".join(f"{name}\n" for name in names).encode())
    if only is None:
        kept = {_path(snapshot, key) for key in listed}
        stale = [file.path for file in store.list_tree(MANIFEST_DIRECTORY) if file.path not in kept]
    else:
        stale = [_path(snapshot, key) for key in only if key not in listed]
    for path in stale:
        store.delete(path)


def check_listable(snapshot: Snapshot, *, table: str) -> None:
    """Check that files by themselves show the table's rows.

    Raises `ManifestsHideVectorsError` and `ManifestsNeedPlainColumnsError`.
    """
    if snapshot.column_mapping_mode.maps:
        raise ManifestsNeedPlainColumnsError(table=table)
    vectors = snapshot.files.columns("deletion_vector")["deletion_vector"]
    with_vector = len(vectors) - vectors.null_count
    if with_vector:
        raise ManifestsHideVectorsError(table=table, num_files=with_vector)


def _files_by_partition(snapshot: Snapshot, store: LogStore) -> dict[PartitionKey, list[str]]:
    """Absolute plain names as Hadoop spells them, in order, by partition."""
    files = snapshot.files.columns("path", "partition_values")
    root = f"file:{store.root}" if store.root.startswith("/") else store.root
    plain = decode_path_column(files["path"], table_root=store.root, allowed_prefixes=allowed_prefixes_of(store))
    elsewhere = pc.if_else(pc.starts_with(plain, "/"), "file:", "")
    before = pc.if_else(pc.match_substring_regex(plain, _ABSOLUTE), elsewhere, f"{root.rstrip('/')}/")
    names = pc.binary_join_element_wise(before, plain, "")
    broken = names.filter(pc.match_substring_regex(names, _LINE_BREAK))
    if len(broken):
        raise ManifestLineError(table=store.root, file=broken[0].as_py())
    if not snapshot.partition_columns:
        return {(): sorted(names.to_pylist())}
    places = [f"p{place}" for place in range(len(snapshot.partition_columns))]
    columns = [partition_texts(files["partition_values"], name) for name in snapshot.partition_columns]
    by_partition = pa.table([*columns, names], names=[*places, "name"]).group_by(places, use_threads=False)
    told = by_partition.aggregate([("name", "list")])
    keys = zip(*(told[place].to_pylist() for place in places), strict=True)
    return {key: sorted(found) for key, found in zip(keys, told["name_list"].to_pylist(), strict=True)}


def _path(snapshot: Snapshot, key: Sequence[str | None]) -> str:
    values: Mapping[str, str | None] = dict(zip(snapshot.partition_columns, key, strict=True))
    return "/".join(part for part in (MANIFEST_DIRECTORY, partition_path(values), _MANIFEST) if part)


# What readers find besides the commits: `N.crc`, a checkpoint every few, metadata for readers of Iceberg.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WriteChecksum:
    """See "Version Checksum File": written once, after the commit, never over another."""

    store: LogStore
    name: str = "checksum"

    def run(self, landed: CommittedVersion) -> None:
        write_checksum(self.store, landed.version, checksum_of(landed.snapshot, txn_id=landed.txn_id))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WriteCheckpoint:
    """See "Checkpoints" and `delta.checkpointInterval`."""

    store: LogStore
    clock: Clock
    random: random.Random
    name: str = "checkpoint"

    def run(self, landed: CommittedVersion) -> None:
        if is_checkpoint_due(landed.snapshot):
            new_uuid = functools.partial(random_uuid, self.random)
            write_checkpoint(self.store, landed.snapshot, clock=self.clock, new_uuid=new_uuid)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CleanUpLog:
    """See "Metadata Cleanup", `delta.enableExpiredLogCleanup` and `delta.logRetentionDuration`."""

    store: LogStore
    clock: Clock
    name: str = "log clean-up"

    def run(self, landed: CommittedVersion) -> None:
        snapshot = landed.snapshot
        if not is_checkpoint_due(snapshot) or not snapshot.properties.expired_log_cleanup_enabled:
            return
        # A clock that is ahead must not make history old: what storage says of our own commit counts as well.
        now_ms = min(self.clock.now_ms(), snapshot.segment.modified_ms)
        clean_up_log(self.store, upto=snapshot.version, now_ms=now_ms, properties=snapshot.properties)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WriteIcebergMetadata:
    """See `delta.universalFormat.enabledFormats`. A version that was left out is made up for by the next one."""

    store: LogStore
    random: random.Random
    name: str = "Iceberg metadata"

    def run(self, landed: CommittedVersion) -> None:
        if not writes_iceberg(landed.snapshot.properties):
            return
        check_installed(landed.snapshot.properties, table=landed.snapshot.table_root)
        # Only who writes such a table needs the library.
        from anabranch.uniform.conversion import convert  # noqa: PLC0415

        convert(self.store, landed.snapshot, random=self.random)


def standard_upkeep(store: LogStore, clock: Clock, random: random.Random) -> AfterCommit:
    """What every writer does for its readers."""
    return AfterCommit(
        steps=(
            WriteChecksum(store=store),
            WriteCheckpoint(store=store, clock=clock, random=random),
            WriteManifests(store=store),
            WriteIcebergMetadata(store=store, random=random),
            CleanUpLog(store=store, clock=clock),
        )
    )
