"""What follows a commit: checksum, checkpoint, clean-up. If it fails, the commit is still in the log."""

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
from anabranch.protocol.properties import writes_iceberg
from anabranch.snapshot.checkpointing import write_checkpoint
from anabranch.snapshot.snapshot import Snapshot
from anabranch.storage.external_files import allowed_prefixes_of
from anabranch.storage.log_store import LogStore, is_on_local_disk
from anabranch.transactions.commit.commit_context import CommittedVersion
from anabranch.uniform.iceberg_library import check_installed

LOGGER = logging.getLogger("anabranch.commit")


class AfterCommitStep(typing.Protocol):
    """One piece of upkeep."""

    @property
    def name(self) -> str:
        """The name of the step in log messages."""

    def run(self, committed: CommittedVersion) -> None:
        """Run the step, if it is due."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AfterCommit:
    """The upkeep of one table."""

    steps: Sequence[AfterCommitStep] = ()

    def run(self, committed: CommittedVersion) -> None:
        """Run all steps, also after one that failed. Raises nothing but an interrupt by the user.

        The commit is in the log: if a failure were reported now, the caller would write its rows again.
        """
        for step in self.steps:
            try:
                step.run(committed)
            except DeltaError as error:
                LOGGER.warning("version %d is committed, but its %s failed: %s", committed.version, step.name, error)
            except Exception:
                message = "version %d is committed, but its %s failed"
                LOGGER.warning(message, committed.version, step.name, exc_info=True)


# Manifests in the symlink format: one text file for each partition, which lists the data files of the partition for
# engines that do not read Delta.


MANIFEST_DIRECTORY = "_symlink_format_manifest"
_MANIFEST = "manifest"
_LINE_BREAK = r"[\x00-\x1F\x7F\x{0085}\x{2028}\x{2029}]"
"""Characters that some reader takes for the end of a line, and the other control characters."""
_ABSOLUTE = "^(/|[A-Za-z][A-Za-z0-9+.-]*:/)"

PartitionKey = tuple[str | None, ...]
"""Partition values as the log has them, None for null, in the order of the partition columns."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WriteManifests:
    """Writes the manifests of the partitions that a commit changed.

    See `delta.compatibility.symlinkFormatManifest.enabled`.
    """

    store: LogStore
    name: str = "symlink manifest"

    def run(self, committed: CommittedVersion) -> None:
        snapshot = committed.snapshot
        if not snapshot.properties.symlink_manifests_enabled:
            return
        write_manifests(self.store, snapshot, only=self._touched(committed))

    def _touched(self, committed: CommittedVersion) -> set[PartitionKey] | None:
        """The partitions in which files were added or removed.

        None means all partitions: where the changed ones are not known, or no manifest exists yet.
        """
        if any(isinstance(action, Metadata) for action in committed.actions):
            return None
        if next(iter(self.store.list_tree(MANIFEST_DIRECTORY)), None) is None:
            return None
        columns = committed.snapshot.partition_columns
        touched = set()
        for action in committed.actions:
            if isinstance(action, AddFile | RemoveFile):
                if action.partition_values is None:
                    return None
                touched.add(tuple(action.partition_values.get(name) or None for name in columns))
        return touched


def write_manifests(store: LogStore, snapshot: Snapshot, *, only: Collection[PartitionKey] | None = None) -> None:
    """Write the manifests of the table, or of the partitions `only`, and delete those of partitions without files.

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
    """Check that the data files alone have the table's rows, as readers of manifests need.

    Raises `ManifestsHideVectorsError` and `ManifestsNeedPlainColumnsError`.
    """
    if snapshot.column_mapping_mode.maps:
        raise ManifestsNeedPlainColumnsError(table=table)
    vectors = snapshot.files.columns("deletion_vector")["deletion_vector"]
    with_vector = len(vectors) - vectors.null_count
    if with_vector:
        raise ManifestsHideVectorsError(table=table, num_files=with_vector)


def _files_by_partition(snapshot: Snapshot, store: LogStore) -> dict[PartitionKey, list[str]]:
    """The absolute paths of the data files, unencoded and as Hadoop spells them, sorted, by partition."""
    files = snapshot.files.columns("path", "partition_values")
    root = f"file:{store.root}" if is_on_local_disk(store) else store.root
    plain = decode_path_column(files["path"], table_root=store.root, allowed_prefixes=allowed_prefixes_of(store))
    elsewhere = pc.if_else(pc.starts_with(plain, "/"), "file:", "")
    before = pc.if_else(pc.match_substring_regex(plain, _ABSOLUTE), elsewhere, f"{root.rstrip('/')}/")
    names = pc.binary_join_element_wise(before, plain, "")
    broken = names.filter(pc.match_substring_regex(names, _LINE_BREAK))
    if len(broken):
        raise ManifestLineError(table=store.root, file=broken[0].as_py())
    if not snapshot.partition_columns:
        return {(): sorted(names.to_pylist())}
    labels = [f"p{index}" for index in range(len(snapshot.partition_columns))]
    columns = [partition_texts(files["partition_values"], name) for name in snapshot.partition_columns]
    by_partition = pa.table([*columns, names], names=[*labels, "name"]).group_by(labels, use_threads=False)
    groups = by_partition.aggregate([("name", "list")])
    keys = zip(*(groups[label].to_pylist() for label in labels), strict=True)
    return {key: sorted(paths) for key, paths in zip(keys, groups["name_list"].to_pylist(), strict=True)}


def _path(snapshot: Snapshot, key: Sequence[str | None]) -> str:
    values: Mapping[str, str | None] = dict(zip(snapshot.partition_columns, key, strict=True))
    return "/".join(part for part in (MANIFEST_DIRECTORY, partition_path(values), _MANIFEST) if part)


# Files for readers besides the commits: `N.crc`, checkpoints, metadata for readers of Iceberg.


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WriteChecksum:
    """Writes the checksum of the version, once, and never over an existing one. See "Version Checksum File"."""

    store: LogStore
    name: str = "checksum"

    def run(self, committed: CommittedVersion) -> None:
        write_checksum(self.store, committed.version, committed.snapshot.checksum(txn_id=committed.txn_id))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WriteCheckpoint:
    """Writes a checkpoint if one is due. See "Checkpoints" and `delta.checkpointInterval`."""

    store: LogStore
    clock: Clock
    random: random.Random
    name: str = "checkpoint"

    def run(self, committed: CommittedVersion) -> None:
        if committed.snapshot.is_checkpoint_due:
            new_uuid = functools.partial(random_uuid, self.random)
            write_checkpoint(self.store, committed.snapshot, clock=self.clock, new_uuid=new_uuid)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CleanUpLog:
    """Deletes expired log files. See "Metadata Cleanup" and `delta.logRetentionDuration`."""

    store: LogStore
    clock: Clock
    name: str = "log clean-up"

    def run(self, committed: CommittedVersion) -> None:
        snapshot = committed.snapshot
        if not snapshot.is_checkpoint_due or not snapshot.properties.expired_log_cleanup_enabled:
            return
        # A clock that is ahead must not make log files expire early, so the storage's time of our commit bounds it.
        now_ms = min(self.clock.now_ms(), snapshot.segment.modified_ms)
        clean_up_log(self.store, upto=snapshot.version, now_ms=now_ms, properties=snapshot.properties)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WriteIcebergMetadata:
    """Writes metadata for readers of Iceberg. See `delta.universalFormat.enabledFormats`.

    After a failure the next version also has the changes of the version that is missing.
    """

    store: LogStore
    random: random.Random
    name: str = "Iceberg metadata"

    def run(self, committed: CommittedVersion) -> None:
        if not writes_iceberg(committed.snapshot.properties):
            return
        check_installed(committed.snapshot.properties, table=committed.snapshot.table_root)
        # Only writers of such tables need the library.
        from anabranch.uniform.conversion import convert_to_iceberg  # noqa: PLC0415

        convert_to_iceberg(self.store, committed.snapshot, random=self.random)


def standard_upkeep(store: LogStore, clock: Clock, random: random.Random) -> AfterCommit:
    """The steps that every writer runs after a commit."""
    return AfterCommit(
        steps=(
            WriteChecksum(store=store),
            WriteCheckpoint(store=store, clock=clock, random=random),
            WriteManifests(store=store),
            WriteIcebergMetadata(store=store, random=random),
            CleanUpLog(store=store, clock=clock),
        )
    )
