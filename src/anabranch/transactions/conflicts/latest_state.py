"""The state of the table right before the version to be committed."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.cached_property import cached_property
from anabranch.log.file_columns import adds_of_table, vector_ids
from anabranch.log.log_segment import CommitFile
from anabranch.protocol.actions import Action, AddFile, DomainMetadata, Metadata, Protocol, visible_row_count
from anabranch.protocol.features import same_protocol
from anabranch.protocol.properties import TableProperties
from anabranch.snapshot.live_files import LiveFiles
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transactions.conflicts.winners import Winner
from anabranch.transactions.proposed_commit import ProposedCommit
from anabranch.transactions.read_set import FileKey
from anabranch.transactions.rows.row_ids import ROW_TRACKING_DOMAIN, RowIds, high_water_mark_of

FEW_FILES = 32
"""A snapshot with so few files is indexed at once, which takes less time than a search for single paths."""


class LiveFileIndex:
    """Finds live files of one snapshot by path, in columns and without a Python object for every file.

    Results are cached, since a commit needs the same paths at every attempt.
    """

    def __init__(self, files: LiveFiles) -> None:
        self.files = files
        self._cache: dict[str, tuple[FileKey, int] | None] = {}

    def find(self, paths: Iterable[str]) -> dict[FileKey, int]:
        """The live files with these paths, and their rows in the file table. A path is live at most once."""
        paths = set(paths)
        self._look_up(paths - self._cache.keys())
        return dict(entry for path in paths if (entry := self._cache[path]) is not None)

    def row_ids(self, paths: Iterable[str]) -> dict[FileKey, RowIds]:
        """The row ids of the live files with these paths, without files that have none."""
        keys, rows = self._rows_of(paths)
        chosen = self.files.columns("base_row_id", "default_row_commit_version").take(pa.array(rows, pa.int64()))
        ids = zip(chosen["base_row_id"].to_pylist(), chosen["default_row_commit_version"].to_pylist(), strict=True)
        return {
            key: RowIds(base_row_id=base, default_row_commit_version=version)
            for key, (base, version) in zip(keys, ids, strict=True)
            if base is not None
        }

    def live_rows(self, paths: Iterable[str]) -> dict[FileKey, int | None]:
        """The number of visible rows of the live files with these paths; None where statistics do not have it."""
        keys, rows = self._rows_of(paths)
        chosen = self.files.rows(rows)
        cardinalities = pc.fill_null(pc.struct_field(chosen["deletion_vector"], "cardinality"), 0)
        counts = zip(chosen["stats"].to_pylist(), cardinalities.to_pylist(), strict=True)
        return {key: visible_row_count(stats, hidden) for key, (stats, hidden) in zip(keys, counts, strict=True)}

    def adds(self, paths: Iterable[str]) -> dict[str, AddFile]:
        """The live files with these paths, by path."""
        _, rows = self._rows_of(paths)
        return {add.path: add for add in adds_of_table(self.files.rows(rows), data_change=False)}

    def _rows_of(self, paths: Iterable[str]) -> tuple[list[FileKey], list[int]]:
        """The keys of the live files with these paths, and their rows, in the order of the table."""
        rows = sorted(self.find(paths).items(), key=lambda item: item[1])
        return [key for key, _ in rows], [row for _, row in rows]

    def _look_up(self, paths: set[str]) -> None:
        """Search the snapshot for these paths and cache the results."""
        self._cache.update(dict.fromkeys(paths))
        if not paths or self.files.count == 0:
            return
        table = self.files.columns("path", "deletion_vector")
        if table.num_rows <= FEW_FILES:
            paths_and_vectors = zip(table["path"].to_pylist(), _vector_ids(table), strict=True)
            self._cache.update({key[0]: (key, row) for row, key in enumerate(paths_and_vectors)})
            return
        # Filtered by mask: to take by position, Arrow would first join all chunks of the column.
        hits = pc.is_in(table["path"], value_set=pa.array(sorted(paths), pa.string()))
        rows = np.flatnonzero(hits.to_numpy())
        if not len(rows):
            return
        chosen = table.filter(hits)
        keys = zip(chosen["path"].to_pylist(), _vector_ids(chosen), strict=True)
        for key, row in zip(keys, rows.tolist(), strict=True):
            self._cache[key[0]] = (key, row)


def _vector_ids(table: pa.Table) -> list[str | None]:
    vectors = table["deletion_vector"]
    if vectors.null_count == len(vectors):
        return [None] * len(vectors)
    ids: list[str | None] = vector_ids(vectors).to_pylist()
    return ids


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class LatestState:
    """The newest version that is known, as far as a commit depends on it.

    It consists of the snapshot that was read and the commits since, so the cost of the next state depends on these
    commits and not on the size of the table.
    """

    table: str
    base: Snapshot | None
    """The snapshot that was read; None where the table did not exist."""
    base_files: LiveFileIndex
    winners: tuple[Winner, ...] = ()
    """Every commit since `base`, oldest first."""
    protocol: Protocol | None
    metadata: Metadata | None
    timestamp_ms: int
    """The time of the newest version: its in-commit timestamp where it has one, else the time of its file."""
    modified_ms: int
    """The time at which the newest version was written, by the storage's clock."""
    added: Mapping[FileKey, AddFile]
    """Files that were added since `base` and are live. A file of `base` that was added again is among them."""
    removed: frozenset[FileKey]
    """Files that were removed since `base` and are not live: files of `base`, and files that were added since."""

    def __post_init__(self) -> None:
        expected = range(self.read_version + 1, self.read_version + 1 + len(self.winners))
        assert [winner.version for winner in self.winners] == list(expected), "winners must be consecutive"

    @property
    def read_version(self) -> int:
        """The version of `base`; -1 without one."""
        return -1 if self.base is None else self.base.version

    @property
    def version(self) -> int:
        """The newest version; -1 where the table does not exist yet."""
        return self.read_version + len(self.winners)

    @property
    def commit_files(self) -> list[CommitFile]:
        """The files of the commits since `base`, as far as they are known."""
        files = [(winner.version, winner.commit.file) for winner in self.winners]
        return [CommitFile(version=version, file=file) for version, file in files if file is not None]

    @cached_property
    def properties(self) -> TableProperties:
        return TableProperties({} if self.metadata is None else self.metadata.configuration)

    @cached_property
    def domain_metadata(self) -> dict[str, DomainMetadata]:
        """The domain actions by domain; a domain that was removed since `base` has the action that removed it."""
        domains = dict(self.base.domain_metadata) if self.base else {}
        for winner in self.winners:
            domains |= winner.domain_metadata
        return domains

    @cached_property
    def row_id_high_water_mark(self) -> int:
        """The highest row id assigned so far. Raises `MalformedDomainError`."""
        base = None if self.base is None else self.base.domain_metadata.get(ROW_TRACKING_DOMAIN)
        domains = [base, *(winner.domain_metadata.get(ROW_TRACKING_DOMAIN) for winner in self.winners)]
        return max(high_water_mark_of(domain, table=self.table) for domain in domains)

    @cached_property
    def removed_from_base(self) -> frozenset[FileKey]:
        """Files of `base` that were removed since."""
        same_paths = self.base_files.find(path for path, _ in self.removed)
        return frozenset(key for key in same_paths if key in self.removed)

    def live_keys(self, paths: set[str]) -> set[FileKey]:
        """The live logical files with these paths."""
        from_base = {key for key in self.base_files.find(paths) if key not in self.removed}
        return from_base | {key for key in self.added if key[0] in paths}

    def without_redundant(self, ours: ProposedCommit) -> ProposedCommit:
        """`ours` without metadata, protocol and domains that equal those of this state.

        So two writers that make the same change both succeed.
        """
        repeated: list[Action | None] = []
        if ours.metadata is not None and ours.metadata == self.metadata:
            repeated.append(ours.metadata)
        if ours.protocol is not None and self.protocol is not None and same_protocol(ours.protocol, self.protocol):
            repeated.append(ours.protocol)
        domains = ours.domain_metadata.items()
        repeated += [domain for name, domain in domains if self.domain_metadata.get(name) == domain]
        return ours.without(*repeated)

    def row_ids_by_path(self, paths: set[str]) -> dict[str, RowIds]:
        """The row ids of the live files with these paths, without files that have none."""
        row_ids = {
            path: ids
            for (path, vector), ids in self.base_files.row_ids(paths).items()
            if (path, vector) not in self.removed
        }
        for (path, _), add in self.added.items():
            if path in paths and add.base_row_id is not None:
                row_ids[path] = RowIds(
                    base_row_id=add.base_row_id, default_row_commit_version=add.default_row_commit_version
                )
        return row_ids

    def after(self, winners: Sequence[Winner]) -> LatestState:
        """The state after these commits, which must follow it in the log."""
        if not winners:
            return self
        added, removed = dict(self.added), set(self.removed)
        protocol, metadata = self.protocol, self.metadata
        for winner in winners:
            for remove in winner.removes:
                key = remove.key
                added.pop(key, None)
                removed.add(key)
            for add in winner.adds:
                key = add.key
                added[key] = add
                removed.discard(key)
            protocol, metadata = winner.protocol or protocol, winner.metadata or metadata
        return dataclasses.replace(
            self,
            winners=(*self.winners, *winners),
            protocol=protocol,
            metadata=metadata,
            timestamp_ms=winners[-1].commit.timestamp_ms,
            modified_ms=winners[-1].commit.modified_ms,
            added=added,
            removed=frozenset(removed),
        )


def latest_state_at(snapshot: Snapshot | None, *, table: str) -> LatestState:
    """The state at the version that was read."""
    if snapshot is None:
        return LatestState(
            table=table,
            base=None,
            base_files=LiveFileIndex(LiveFiles()),
            protocol=None,
            metadata=None,
            timestamp_ms=0,
            modified_ms=0,
            added={},
            removed=frozenset(),
        )
    return LatestState(
        table=table,
        base=snapshot,
        base_files=LiveFileIndex(snapshot.files),
        protocol=snapshot.protocol,
        metadata=snapshot.metadata,
        timestamp_ms=snapshot.timestamp_ms,
        modified_ms=snapshot.segment.modified_ms,
        added={},
        removed=frozenset(),
    )
