"""How strictly a commit must fit behind those that landed first."""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.protocol.actions import Action, AddFile, Metadata, Protocol, RemoveFile
from anabranch.protocol.isolation import IsolationLevel

SNAPSHOT_ISOLATION = "SnapshotIsolation"


def changes_no_row(actions: Sequence[Action]) -> bool:
    """Whether a commit only rearranges rows, as OPTIMIZE does.

    Nothing that such a commit has read can make it wrong, as long as the files it replaces are still there.
    """
    files = [action for action in actions if isinstance(action, AddFile | RemoveFile)]
    describes_table = any(isinstance(action, Metadata | Protocol) for action in actions)
    return bool(files) and not describes_table and not any(file.data_change for file in files)


def written_level(level: IsolationLevel | None) -> str:
    """As `commitInfo.isolationLevel` spells it; None for a commit that changes no row."""
    return SNAPSHOT_ISOLATION if level is None else level.value
