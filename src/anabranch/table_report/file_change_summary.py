"""What a commit did to the files of a table, added up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from anabranch.protocol.actions import Action, AddCDCFile, AddFile, RemoveFile
from anabranch.text_format import count, size


class _Statistics(msgspec.Struct, rename="camel"):
    """The part of a file's statistics that is shown here."""

    num_records: int | None = None


class FileChangeSummary(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Files that one commit added and removed. A file that only got another deletion vector counts as neither."""

    added: int
    added_rows: int | None
    """None where a file has no row count."""
    added_bytes: int
    removed: int
    removed_rows: int | None
    removed_bytes: int | None
    with_new_vector: int = msgspec.field(name="withNewDeletionVector")
    rows_hidden: int
    """Rows hidden by new deletion vectors; negative where rows came back."""
    change_files: int
    change_bytes: int
    data_change: bool
    """Whether any file action says that it changes rows."""

    @classmethod
    def of(cls, actions: Sequence[Action]) -> FileChangeSummary:
        """The summary of one commit's actions."""
        adds = {action.path: action for action in actions if isinstance(action, AddFile)}
        removes = {action.path: action for action in actions if isinstance(action, RemoveFile)}
        changes = [action for action in actions if isinstance(action, AddCDCFile)]
        revised = adds.keys() & removes.keys()
        new = [add for path, add in adds.items() if path not in revised]
        gone = [remove for path, remove in removes.items() if path not in revised]
        hidden = sum(adds[path].num_hidden_rows - removes[path].num_hidden_rows for path in revised)
        return cls(
            added=len(new),
            added_rows=_sum([_live_rows(add) for add in new]),
            added_bytes=sum(add.size for add in new),
            removed=len(gone),
            removed_rows=_sum([_live_rows(remove) for remove in gone]),
            removed_bytes=_sum([remove.size for remove in gone]),
            with_new_vector=len(revised),
            rows_hidden=hidden,
            change_files=len(changes),
            change_bytes=sum(change.size for change in changes),
            data_change=any(add.data_change for add in adds.values())
            or any(remove.data_change for remove in removes.values()),
        )

    def in_words(self) -> Iterator[str]:
        """One line for each kind of change."""
        if self.added:
            rows = "" if self.added_rows is None else f"{count(self.added_rows, 'row')}, "
            yield f"{count(self.added, 'file')} added ({rows}{size(self.added_bytes)})"
        if self.removed:
            facts = []
            if self.removed_rows is not None:
                facts.append(count(self.removed_rows, "row"))
            if self.removed_bytes is not None:
                facts.append(size(self.removed_bytes))
            yield f"{count(self.removed, 'file')} removed" + (f" ({', '.join(facts)})" if facts else "")
        if self.with_new_vector:
            rows = count(abs(self.rows_hidden), "row")
            change = f"{rows} came back in" if self.rows_hidden < 0 else f"{rows} hidden by deletion vectors in"
            yield f"{change} {count(self.with_new_vector, 'file')}, which stay as they are"
        if self.change_files:
            yield f"{count(self.change_files, 'file')} of change data ({size(self.change_bytes)})"
        if (self.added or self.removed or self.with_new_vector) and not self.data_change:
            yield "no row changed: the files were only rearranged"


def _live_rows(file: AddFile | RemoveFile) -> int | None:
    if file.stats is None:
        return None
    try:
        rows = msgspec.json.decode(file.stats, type=_Statistics).num_records
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return None if rows is None else rows - file.num_hidden_rows


def _sum(numbers: Sequence[int | None]) -> int | None:
    """The sum; None if one of the numbers is."""
    return None if None in numbers else sum(number for number in numbers if number is not None)
