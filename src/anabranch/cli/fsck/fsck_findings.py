"""Findings of a check of a table."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

Item = TypeVar("Item")


class FindingKind(enum.Enum):
    """The kind of a problem. The value is its name in JSON."""

    LOG_GAP = "log-gap"
    COMMIT_UNREADABLE = "commit-unreadable"
    CHECKPOINT_UNREADABLE = "checkpoint-unreadable"
    CHECKPOINT_INCOMPLETE = "checkpoint-incomplete"
    CHECKPOINT_DISAGREES = "checkpoint-disagrees"
    COMPACTION_UNREADABLE = "compaction-unreadable"
    LAST_CHECKPOINT_CORRUPT = "last-checkpoint-corrupt"
    LAST_CHECKPOINT_STALE = "last-checkpoint-stale"
    CHECKSUM_UNREADABLE = "checksum-unreadable"
    CHECKSUM_DISAGREES = "checksum-disagrees"
    STATE_INCOMPLETE = "state-incomplete"
    FEATURE_UNSUPPORTED = "feature-unsupported"
    DATA_FILE_MISSING = "data-file-missing"
    DATA_FILE_SIZE = "data-file-size"
    DATA_FILE_OUTSIDE = "data-file-outside"
    VECTOR_UNREADABLE = "deletion-vector-unreadable"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem of a table."""

    kind: FindingKind
    path: str
    """The file at fault, relative to the table; empty where the problem is not in a file."""
    problem: str
    """What is wrong, as a sentence without its full stop."""
    way_out: str
    """What to do, as a sentence without its full stop."""
    version: int | None = None

    def document(self) -> dict[str, Any]:
        return {
            "kind": self.kind.value,
            "path": self.path or None,
            "version": self.version,
            "problem": self.problem,
            "wayOut": self.way_out,
        }


Steps = Callable[[Iterable[Item], str, int | None], Iterable[Item]]
"""Passes items on and counts them. Takes the items, a name for them, and their number where it is certain."""
