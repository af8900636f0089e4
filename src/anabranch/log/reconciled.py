"""Actions of several commits without those that a later one supersedes. See "Action Reconciliation"."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from anabranch.protocol.actions import (
    Action,
    AddFile,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
)

Subject = tuple[object, ...]


def subject_of(action: Action) -> Subject | None:
    """What an action is about; None for what a compaction leaves out: provenance and change data."""
    match action:
        case AddFile() | RemoveFile():
            return ("file", *action.key)
        case SetTransaction():
            return ("txn", action.app_id)
        case DomainMetadata():
            return ("domain", action.domain)
        case Metadata():
            return ("metadata",)
        case Protocol():
            return ("protocol",)
        case _:
            return None


def reconciled(actions: Iterable[Action]) -> Iterator[Action]:
    """The actions of consecutive commits without those that a later one supersedes.

    Removals stay, also those of domain metadata: they cancel what stands in the log before.
    """
    newest: dict[Subject, Action] = {}
    for action in actions:
        subject = subject_of(action)
        if subject is not None:
            newest.pop(subject, None)
            newest[subject] = action
    yield from newest.values()


class Doublets:
    """Looks for what shows that the actions of a file are not reconciled."""

    def __init__(self) -> None:
        self._subjects: set[Subject] = set()
        self._added: set[str] = set()

    def found_with(self, action: Action) -> str | None:
        """What the next action shows, in words. Of a path one vector is live at most, so a second add is too many."""
        subject = subject_of(action)
        if subject is not None and subject in self._subjects:
            return f"it is not reconciled: {' '.join(str(part) for part in subject if part)} is in it twice"
        if subject is not None:
            self._subjects.add(subject)
        if isinstance(action, AddFile):
            if action.path in self._added:
                return f"it is not reconciled: {action.path} is live in it under two deletion vectors"
            self._added.add(action.path)
        return None
