"""A statement that lost to a conflict is executed again, for users who have enabled it.

Each execution is a transaction of its own, which reads the version that the execution before conflicted with. So the
result is the same as without a conflict, and the statement need not know that it is a repetition.
"""

from __future__ import annotations

import dataclasses
import logging
import random
from collections.abc import Callable
from typing import Final, TypeVar

from anabranch.errors.commits import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConflictReason,
    DeltaConcurrentModificationException,
    MetadataChangedException,
    ProtocolChangedException,
)
from anabranch.progress.progress_events import note
from anabranch.transactions.conflicts.rebase_report import LOST_TO_TAG
from anabranch.transactions.reserved_numbers import ExecuteAgainError, ReservedNumbers

LOGGER = logging.getLogger("anabranch.commit")

RE_EXECUTIONS_METRIC = "numReExecutions"
FIRST_WAIT_MS_MAX = 100.0
WAIT_MS_MAX = 5_000.0
RESERVATIONS_MAX = 10
"""How often numbers are reserved for one statement. The second time is for one that has more rows than before."""

RETRYABLE_CONFLICTS = (
    ConcurrentAppendException,
    ConcurrentDeleteReadException,
    ConcurrentDeleteDeleteException,
    MetadataChangedException,
    ProtocolChangedException,
)
"""Conflicts that another execution on the newest version can resolve. Two are missing on purpose: progress of the same
application, where the other run may be this very write, and a commit that lost thousands of attempts without a
conflict."""

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One execution of a statement."""

    number: int = 1
    lost_to: tuple[int, ...] = ()
    """The versions that earlier executions conflicted with, oldest first. An execution that lost for another reason
    than a single version has no entry."""
    reserved: ReservedNumbers | None = None
    """Numbers of identity columns for this execution, which reads no later version than that of their commit."""
    num_reservations: int = 0
    """How many of the executions before were only repeated for numbers of their own."""

    @property
    def num_retries(self) -> int:
        """How many of the executions before had a conflict that the user allows the statement to lose."""
        return self.number - 1 - self.num_reservations

    def metrics(self) -> dict[str, int]:
        """The metrics for `operationMetrics` of the commit; empty for the first execution."""
        return {RE_EXECUTIONS_METRIC: self.number - 1} if self.number > 1 else {}

    def tags(self) -> dict[str, str]:
        """The tags for `commitInfo.tags`; empty for the first execution."""
        return {LOST_TO_TAG: ",".join(map(str, self.lost_to))} if self.lost_to else {}

    def after(self, conflict: DeltaConcurrentModificationException) -> Attempt:
        """The execution after this one, which ended with `conflict`."""
        version = () if conflict.version is None else (conflict.version,)
        return Attempt(number=self.number + 1, lost_to=self.lost_to + version, num_reservations=self.num_reservations)

    def with_numbers(self, again: ExecuteAgainError) -> Attempt:
        """The execution after this one, whose numbers were taken."""
        after = self.after(again.conflict)
        return dataclasses.replace(after, reserved=again.reserved, num_reservations=self.num_reservations + 1)


FIRST: Final = Attempt()


def execute_with_retries(
    run: Callable[[Attempt], T], *, retries_max: int, random: random.Random, sleep: Callable[[float], None]
) -> T:
    """Execute `run`, after a conflict again, at most `retries_max` times more, and return its result.

    `run` must begin by reading the table's newest version, and leave nothing behind when it raises a conflict.
    Between executions it pauses for a random time that may grow; `sleep` takes milliseconds, as `Clock.sleep_ms`
    does. Raises the conflict of the last execution, and at once any other exception of `run`.

    An execution that has only lost its numbers is followed by one with reserved numbers, whatever the user allows: it
    reads no row that the one before would not have read, and writes the same rows with other numbers.
    """
    assert retries_max >= 0
    attempt = FIRST
    while True:
        try:
            return run(attempt)
        except ExecuteAgainError as again:
            if attempt.num_reservations >= RESERVATIONS_MAX:
                raise again.conflict from None
            _log_reservation(again)
            attempt = attempt.with_numbers(again)
        except RETRYABLE_CONFLICTS as conflict:
            if attempt.num_retries >= retries_max or not is_retryable(conflict):
                _note_executions(conflict, attempt)
                raise
            winner = (
                conflict.operation if conflict.version is None else f"{conflict.operation}, version {conflict.version}"
            )
            retry = attempt.num_retries + 1
            note(f"it lost to {winner}; running again, {retry} of at most {retries_max} times")
            LOGGER.info(
                "%s: execution %d lost to %s (%s); executing it again, %d of at most %d times",
                conflict.table,
                attempt.number,
                winner,
                conflict.reason,
                retry,
                retries_max,
            )
            sleep(random.uniform(0, min(WAIT_MS_MAX, FIRST_WAIT_MS_MAX * 2.0 ** min(retry - 1, 20))))
            attempt = attempt.after(conflict)


def _log_reservation(again: ExecuteAgainError) -> None:
    counts = ", ".join(f"{numbers.count:,} of {name}" for name, numbers in again.reserved.ranges.items())
    note(f"another writer has used its numbers; version {again.reserved.version} reserves {counts}, running again")
    LOGGER.info(
        "%s: %s has used the same numbers; version %d reserves %s for another execution",
        again.conflict.table,
        again.conflict.operation,
        again.reserved.version,
        counts,
    )


def is_retryable(conflict: DeltaConcurrentModificationException) -> bool:
    """Whether the statement, executed again, does what its user meant.

    If the table was replaced by another one, the user must check that it is the one they mean.
    """
    return isinstance(conflict, RETRYABLE_CONFLICTS) and conflict.reason is not ConflictReason.TABLE_REPLACED


def _note_executions(conflict: DeltaConcurrentModificationException, attempt: Attempt) -> None:
    if attempt.number > 1:
        lost_to = ", ".join(map(str, attempt.after(conflict).lost_to))
        conflict.add_note(f"anabranch: executed {attempt.number} times; lost to versions {lost_to}.")
