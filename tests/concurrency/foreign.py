"""Commits of another engine: it puts them into the log by itself, and says less of them than ours do."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import msgspec

from anabranch.protocol.actions import Action, AddFile, CommitInfo
from anabranch.protocol.actions_json import encode_actions
from anabranch.protocol.features import supported
from anabranch.protocol.log_paths import commit_path
from anabranch.storage.log_store import PutOutcome
from anabranch.transactions.rows.row_ids import (
    ROW_TRACKING_DOMAIN,
    ROW_TRACKING_FEATURE,
    high_water_mark_of,
    with_row_ids,
)
from concurrency.played_table import NOW_MS, PlayedTable, Version
from concurrency.statements import Foreign, Insert


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ForeignCommit:
    """A commit that waits to be put."""

    played: PlayedTable
    version: int
    actions: tuple[Action, ...]

    def put(self) -> ForeignCommit | None:
        """None where the version is taken: the engine gives up, as one without conflict checks has to."""
        outcome = self.played.store.put_if_absent(commit_path(self.version), encode_actions(self.actions))
        return self if outcome is PutOutcome.CREATED else None


def foreign_commit(
    played: PlayedTable, read: Version, statement: Foreign, actions: Sequence[Action], *, operation: str
) -> ForeignCommit:
    """What the engine would write behind the version that it read."""
    version = read.snapshot.version + 1
    written = list(actions)
    if supported(read.snapshot.protocol, ROW_TRACKING_FEATURE):
        mark = high_water_mark_of(read.snapshot.domain_metadata.get(ROW_TRACKING_DOMAIN), table="t")
        written = list(with_row_ids(written, after=mark, version=version, table=played.store.root))
    elif not statement.counts:
        written = [
            msgspec.structs.replace(action, stats=None) if isinstance(action, AddFile) else action for action in written
        ]
    if statement.tells:
        info = CommitInfo(
            timestamp=NOW_MS,
            operation=operation,
            operation_parameters={},
            read_version=read.snapshot.version,
            is_blind_append=isinstance(statement.statement, Insert),
            engine_info="another engine",
            txn_id=f"foreign {version} {len(played.data)}",
        )
        written.insert(0, info)
    return ForeignCommit(played=played, version=version, actions=tuple(written))
