"""The feed of commits that were fitted behind others: what their files tell is what their statements did."""

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


def test_a_commit_tells_its_own_rows_and_no_others(record_property: Callable[[str, object], None]) -> None:
    """Covers race 82, by random histories: DELETE, UPDATE and MERGE overtaken by each other, by OPTIMIZE and RESTORE.

    The very rows by which a statement was planned on the version that it read are those that the files of its commit
    tell at its place in the log; nothing is told twice and taken back. So change files that were written when the
    statement was planned are right there, too.
    """
    commits = behind = 0
    for seed in range(HISTORIES):
        outcome = run(random_history(random.Random(seed), EVERYTHING))
        if not outcome.history.manner.vectors:
            continue
        told = changes_by_version(outcome)
        for commit in outcome.commits:
            commits += 1
            behind += commit.version > commit.read_version + 1
            gone, came = told[commit.version]
            assert gone - came == commit.effect.deleted - commit.effect.inserted, (seed, commit)
            assert came - gone == commit.effect.inserted - commit.effect.deleted, (seed, commit)
            # Who writes files anew tells rows that stay, and that is what change files are for.
            assert gone <= commit.effect.deleted or isinstance(commit.statement, Rewriting | ReplaceWhere | Foreign)
    assert behind > commits / 5, "histories without races prove nothing"
    record_property("told", f"{commits} commits, {behind} of them behind others")


def changes_by_version(outcome: Outcome) -> dict[int, tuple[Counter[Row], Counter[Row]]]:
    """The rows that went and those that came, by version, as a reader of the log finds them."""
    played = outcome.played

    def hidden(vector: DeletionVectorDescriptor | None) -> BitMap64:
        return BitMap64() if vector is None else load_vector(played.store, vector)

    found = {}
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
        found[commit.version] = (rows["delete"], rows["insert"])
    return found
