"""The feed of rebased commits shows exactly the rows that their statements changed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

from pyroaring import BitMap64

from anabranch.change_feed.feed_files import feed_files
from anabranch.deletion_vectors.vector_reading import load_vector
from anabranch.log.commit_files import read_commits
from anabranch.protocol.actions import DeletionVectorDescriptor
from concurrency.conditions import Row
from concurrency.histories import Outcome, run
from concurrency.random_histories import EVERYTHING, random_history
from concurrency.statements import Foreign, ReplaceWhere, Rewriting

HISTORIES = 300


def test_a_commit_shows_its_own_rows_and_no_others(record_property: Callable[[str, object], None]) -> None:
    """Covers race 82, by random histories: DELETE, UPDATE and MERGE overtaken by each other, by OPTIMIZE and RESTORE.

    The rows that a statement changed in the version that it read are those that the files of its commit show at its
    version of the log; none is shown twice. So change files that were written when the statement was planned are right
    after a rebase, too.
    """
    commits = behind = 0
    for seed in range(HISTORIES):
        outcome = run(random_history(random.Random(seed), EVERYTHING))
        if not outcome.history.manner.vectors:
            continue
        changes = changes_by_version(outcome)
        for commit in outcome.commits:
            commits += 1
            behind += commit.version > commit.read_version + 1
            deleted, inserted = changes[commit.version]
            assert deleted - inserted == commit.effect.deleted - commit.effect.inserted, (seed, commit)
            assert inserted - deleted == commit.effect.inserted - commit.effect.deleted, (seed, commit)
            # Without change files, a commit that rewrites files shows also rows that stay.
            assert deleted <= commit.effect.deleted or isinstance(commit.statement, Rewriting | ReplaceWhere | Foreign)
    assert behind > commits / 5, "histories without races prove nothing"
    record_property("told", f"{commits} commits, {behind} of them behind others")


def changes_by_version(outcome: Outcome) -> dict[int, tuple[Counter[Row], Counter[Row]]]:
    """Deleted and inserted rows by version, as a reader derives them from the log."""
    played = outcome.played

    def hidden(vector: DeletionVectorDescriptor | None) -> BitMap64:
        return BitMap64() if vector is None else load_vector(played.store, vector)

    changes = {}
    for commit in read_commits(played.store, after=0):
        files = feed_files(iter([(commit, 0)]), table="t", partitioned=False)
        rows: dict[str | None, Counter[Row]] = {"delete": Counter(), "insert": Counter()}
        for file in files.whole:
            gone = hidden(file.deletion_vector)
            data = played.data[file.path]
            rows[file.partition_values["_change_type"]].update(
                row for position, row in enumerate(data) if position not in gone
            )
        for file in files.partial:
            assert file.deletion_vector is not None
            difference = files.differences[file.deletion_vector.path_or_inline_dv]
            shown = hidden(difference.hidden) - hidden(difference.shown)
            data = played.data[file.path]
            rows[file.partition_values["_change_type"]].update(data[position] for position in shown)
        changes[commit.version] = (rows["delete"], rows["insert"])
    return changes
