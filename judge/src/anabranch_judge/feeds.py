"""Whether the change feed of each version is the difference of the versions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from anabranch_judge.faults import Fault
from anabranch_judge.recorded_history import Feed
from anabranch_judge.rows import Row, Rows, row_of, text_of
from anabranch_judge.table_log import SIGNS, TableLog, Version


def faults_of_feeds(log: TableLog, feeds: Iterable[Feed], *, first: int) -> list[Fault]:
    """What is wrong with the feed in the log, and with those that readers recorded."""
    faults = []
    for version in log.versions[first + 1 :]:
        if version.feed is not None:
            faults += _compared(version, version.feed, "the change files")
        if version.difference and not version.changes_data:
            text = f"version {version.number} says that it changes no data, and it does: readers of changes miss it"
            faults.append(Fault("broken feed", version.number, None, text))
    for feed in feeds:
        for version in log.versions[feed.first : feed.last + 1]:
            if version.number > first:
                counts: Rows = Counter()
                for kind, values in feed.rows.get(version.number, []):
                    counts[row_of(values)] += SIGNS[kind]
                faults += _compared(version, counts, f"the feed that {feed.reader} read")
    return faults


def _compared(version: Version, feed: Rows, source: str) -> list[Fault]:
    """A fault if the feed of a version, as numbers of rows, is not what the version did."""
    expected: Rows = Counter(version.difference.added)
    expected.subtract(version.difference.removed)
    rows = sorted({row for row in {*feed, *expected} if feed[row] != expected[row]}, key=repr)
    if not rows:
        return []
    shown = "; ".join(_text(row, feed[row], expected[row]) for row in rows[:5])
    text = f"{source} of version {version.number}: {shown}" + ("; …" if len(rows) > 5 else "")
    return [Fault("broken feed", version.number, None, text)]


def _text(row: Row, count: int, expected: int) -> str:
    kinds = {True: "insertion", False: "deletion"}
    if abs(count) < abs(expected) or count * expected < 0:
        return f"the {kinds[expected > 0]} of ({text_of(row)}) is missing"
    return f"an {kinds[count > 0]} of ({text_of(row)}) did not happen".replace("an d", "a d")
