"""The judge of change data feeds: that of each version has the net changes of its commit, and no others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from anabranch.change_feed.feed_columns import DELETE, INSERT, UPDATE_POSTIMAGE, UPDATE_PREIMAGE
from concurrency.conditions import Row
from concurrency.histories import Outcome
from concurrency.played_feed import feed_of


def feed_has_net_changes(outcome: Outcome, tables: Sequence[Counter[Row]]) -> list[str]:
    """What is wrong with the feed, in words.

    The feed of a version, applied to the rows of the version before, gives its rows. It has no row as deleted or
    inserted that its statements together do not delete or insert, so none that came and went within a transaction.
    """
    faults = []
    for commit in outcome.commits:
        feed = feed_of(outcome.played, commit.version)
        counts = Counter(dict.fromkeys((UPDATE_PREIMAGE, UPDATE_POSTIMAGE), 0))
        rows: dict[str, Counter[Row]] = {DELETE: Counter(), INSERT: Counter()}
        for (change, row), count in feed.items():
            counts[change] += count
            rows[DELETE if change in (DELETE, UPDATE_PREIMAGE) else INSERT][row] += count
        before, after = tables[commit.version - 1], tables[commit.version]
        words = f"version {commit.version}: the feed of T{commit.number} has {dict(feed)}"
        if not rows[DELETE] <= before or before - rows[DELETE] + rows[INSERT] != after:
            faults.append(f"{words}; the table went from {dict(before)} to {dict(after)}")
        if not (rows[DELETE] <= commit.effect.deleted and rows[INSERT] <= commit.effect.inserted):
            changed = f"{dict(commit.effect.deleted)} and inserts {dict(commit.effect.inserted)}"
            faults.append(f"{words}, more than its net changes: it deletes {changed}")
        if counts[UPDATE_PREIMAGE] != counts[UPDATE_POSTIMAGE]:
            faults.append(f"{words}, images without their counterpart")
    return faults
