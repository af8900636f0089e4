"""The table right before the version that we want to write."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cached_property

from anabranch.protocol.actions import AddFile, DomainMetadata, Metadata, Protocol
from anabranch.protocol.properties import TableProperties
from anabranch.snapshot.live_files import LiveFiles
from anabranch.snapshot.snapshot import Snapshot
from anabranch.transaction.live_file_index import LiveFileIndex
from anabranch.transaction.read_set import FileKey
from anabranch.transaction.row_ids import NO_ROW_IDS, ROW_TRACKING_DOMAIN, RowIds, high_water_mark_of
from anabranch.transaction.winners import Winner


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Head:
    """The newest version we know, as far as a commit depends on it.

    Made of the snapshot that was read and the commits that landed since, so that going on to the next
    head costs what those commits cost, however large the table is.
    """

    table: str
    base: Snapshot | None
    """None where there was no table."""
    base_files: LiveFileIndex
    winners: tuple[Winner, ...] = ()
    """Every commit since `base`, oldest first."""
    protocol: Protocol | None
    metadata: Metadata | None
    row_id_high_water_mark: int
    timestamp_ms: int
    """Of the newest version: its in-commit timestamp where it has one, else the time of its file."""
    modified_ms: int
    """When storage says that the newest version was written."""
    added: Mapping[FileKey, AddFile]
    """Files that came since `base` and are still there. A file of `base` that was added again is one."""
    removed: frozenset[FileKey]
    """Files that are gone since `base`, be they its own or such as came and went."""

    def __post_init__(self) -> None:
        expected = range(self.read_version + 1, self.read_version + 1 + len(self.winners))
        assert [winner.version for winner in self.winners] == list(expected), "winners must be consecutive"

    @property
    def read_version(self) -> int:
        """The version of `base`; -1 for none."""
        return -1 if self.base is None else self.base.version

    @property
    def version(self) -> int:
        """-1 where there is no table yet."""
        return self.read_version + len(self.winners)

    @cached_property
    def properties(self) -> TableProperties:
        return TableProperties({} if self.metadata is None else self.metadata.configuration)

    @cached_property
    def domain_metadata(self) -> dict[str, DomainMetadata]:
        """By domain; one that was removed since `base` stands here as removed."""
        domains = dict(self.base.domain_metadata) if self.base else {}
        for winner in self.winners:
            domains |= winner.domain_metadata
        return domains

    @cached_property
    def removed_from_base(self) -> frozenset[FileKey]:
        """Files of `base` that are gone."""
        known = self.base_files.find(path for path, _ in self.removed)
        return frozenset(key for key in known if key in self.removed)

    def live_keys(self, paths: set[str]) -> set[FileKey]:
        """The logical files that are live under these paths."""
        from_base = {key for key in self.base_files.find(paths) if key not in self.removed}
        return from_base | {key for key in self.added if key[0] in paths}

    def row_ids_by_path(self, paths: set[str]) -> dict[str, RowIds]:
        """The row ids of the live files under these paths, as far as they have any."""
        found = {
            path: ids
            for (path, vector), ids in self.base_files.row_ids(paths).items()
            if (path, vector) not in self.removed
        }
        for (path, _), add in self.added.items():
            if path in paths and add.base_row_id is not None:
                found[path] = RowIds(
                    base_row_id=add.base_row_id, default_row_commit_version=add.default_row_commit_version
                )
        return found

    def after(self, winners: Sequence[Winner]) -> Head:
        """The head once these commits, which follow it, have landed."""
        head = self
        for winner in winners:
            head = head._after(winner)
        return head

    def _after(self, winner: Winner) -> Head:
        gone = {remove.key for remove in winner.removes}
        came = {add.key: add for add in winner.adds}
        kept = {key: add for key, add in self.added.items() if key not in gone}
        marks = winner.domain_metadata.get(ROW_TRACKING_DOMAIN)
        return dataclasses.replace(
            self,
            winners=(*self.winners, winner),
            protocol=winner.protocol or self.protocol,
            metadata=winner.metadata or self.metadata,
            row_id_high_water_mark=max(self.row_id_high_water_mark, high_water_mark_of(marks, table=self.table)),
            timestamp_ms=winner.commit.timestamp_ms,
            modified_ms=winner.commit.modified_ms,
            added=kept | came,
            removed=(self.removed | gone) - came.keys(),
        )


def head_at(snapshot: Snapshot | None, *, table: str) -> Head:
    """The head as it was when the table was read."""
    if snapshot is None:
        return Head(
            table=table,
            base=None,
            base_files=LiveFileIndex(LiveFiles()),
            protocol=None,
            metadata=None,
            row_id_high_water_mark=NO_ROW_IDS,
            timestamp_ms=0,
            modified_ms=0,
            added={},
            removed=frozenset(),
        )
    return Head(
        table=table,
        base=snapshot,
        base_files=LiveFileIndex(snapshot.files),
        protocol=snapshot.protocol,
        metadata=snapshot.metadata,
        row_id_high_water_mark=high_water_mark_of(snapshot.domain_metadata.get(ROW_TRACKING_DOMAIN), table=table),
        timestamp_ms=snapshot.timestamp_ms,
        modified_ms=snapshot.segment.modified_ms,
        added={},
        removed=frozenset(),
    )
