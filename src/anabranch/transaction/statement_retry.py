"""Doing a whole statement again that lost to a conflict, for users who ask for it.

It is another transaction, which reads the version that made the first one wrong. So whatever lands is as if
nobody had been in the way, and the statement need not know that it is done again.
"""

from __future__ import annotations

import dataclasses
import logging
import random
from collections.abc import Callable
from typing import TypeVar

from anabranch.errors.commits import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConflictReason,
    DeltaConcurrentModificationException,
    MetadataChangedException,
    ProtocolChangedException,
)
from anabranch.transaction.conflicts.rebase_report import LOST_TO_TAG

LOGGER = logging.getLogger("anabranch.commit")

RE_EXECUTIONS_METRIC = "numReExecutions"
FIRST_WAIT_MS_MAX = 100.0
WAIT_MS_MAX = 5_000.0

MENDED_BY_READING_AGAIN = (
    ConcurrentAppendException,
    ConcurrentDeleteReadException,
    ConcurrentDeleteDeleteException,
    MetadataChangedException,
    ProtocolChangedException,
)
"""Not among them: progress of one application, where the other run may be this very write, and a commit that lost
thousands of races without a conflict."""

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One execution of a statement."""

    number: int = 1
    lost_to: tuple[int, ...] = ()
    """The version that each execution before this one lost to, oldest first, as far as a single one did."""

    def metrics(self) -> dict[str, int]:
        """For `operationMetrics` of the commit: nothing where it is the first."""
        return {RE_EXECUTIONS_METRIC: self.number - 1} if self.number > 1 else {}

    def tags(self) -> dict[str, str]:
        """For `commitInfo.tags`."""
        return {LOST_TO_TAG: ",".join(map(str, self.lost_to))} if self.lost_to else {}

    def after(self, conflict: DeltaConcurrentModificationException) -> Attempt:
        """The execution after one that ended so."""
        version = () if conflict.version is None else (conflict.version,)
        return Attempt(number=self.number + 1, lost_to=self.lost_to + version)


def re_executed(
    run: Callable[[Attempt], T], *, retries_max: int, random: random.Random, sleep: Callable[[float], None]
) -> T:
    """What `run` returns, executed again after a conflict, at most `retries_max` times.

    `run` must begin by reading the table's newest version, and leave nothing behind when it raises a conflict.
    Between executions it pauses for a random time that may grow; `sleep` takes milliseconds, as `Clock.sleep_ms`
    does. Raises the conflict of the last execution, and whatever else `run` raises at once.
    """
    assert retries_max >= 0
    attempt = Attempt()
    while True:
        try:
            return run(attempt)
        except MENDED_BY_READING_AGAIN as conflict:
            if attempt.number > retries_max or not is_mended_by_reading_again(conflict):
                _note_executions(conflict, attempt)
                raise
            LOGGER.info(
                "%s: execution %d lost to %s (%s); executing it again, %d of at most %d times",
                conflict.table,
                attempt.number,
                conflict.operation if conflict.version is None else f"{conflict.operation}, version {conflict.version}",
                conflict.reason,
                attempt.number,
                retries_max,
            )
            sleep(random.uniform(0, min(WAIT_MS_MAX, FIRST_WAIT_MS_MAX * 2.0 ** min(attempt.number - 1, 20))))
            attempt = attempt.after(conflict)


def is_mended_by_reading_again(conflict: DeltaConcurrentModificationException) -> bool:
    """Whether the statement, executed again, does what its user meant.

    Another table in the place of ours is for the user to look at.
    """
    return isinstance(conflict, MENDED_BY_READING_AGAIN) and conflict.reason is not ConflictReason.TABLE_REPLACED


def _note_executions(conflict: DeltaConcurrentModificationException, attempt: Attempt) -> None:
    if attempt.number > 1:
        lost_to = ", ".join(map(str, attempt.after(conflict).lost_to))
        conflict.add_note(f"anabranch: executed {attempt.number} times; lost to versions {lost_to}.")
