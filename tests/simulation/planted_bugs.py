"""Bugs put in on purpose, one by one: a simulation that does not notice them proves nothing by its silence."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

import numpy as np
from pyroaring import BitMap64

from anabranch.commands.alter import row_id_backfill
from anabranch.commands.vacuum import vacuum_command
from anabranch.errors.environment import StorageError
from anabranch.errors.log import CorruptCommitError, DeletionVectorError
from anabranch.errors.protocol import MalformedActionError
from anabranch.log import commit_files, log_segment
from anabranch.log.commit_files import Commit
from anabranch.protocol import log_paths
from anabranch.transactions.commit import after_commit, commit_attempt, commit_loop
from anabranch.transactions.commit.commit_attempt import CommitOutcome
from anabranch.transactions.rows import deletion_vector_actions
from anabranch.transactions.rows.deletion_vector_actions import StoredVectors
from concurrency.random_histories import ROW_TRACKING_IN_STEPS, Mix
from simulation import simulated_run
from simulation.acts import CleanUp, Vacuum
from simulation.events import DAY_MS, Weather
from simulation.other_acts import DropTable, LeaveJunk
from simulation.scenarios import NO_FOCUS, Focus

Patch = tuple[object, str, object]


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlantedBug:
    """What is wrong, how many seeds find it at most, and what a judge says of it."""

    number: str
    """The fault or the bug of docs/design/cases.md."""
    name: str
    patches: Sequence[Patch]
    seeds: int
    focus: Focus = NO_FOCUS
    """Which seeds are likely to show it."""
    complaint: str = ""

    def __str__(self) -> str:
        return f"{self.number}: {self.name}"

    @contextlib.contextmanager
    def in_force(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for owner, name, wrong in self.patches:
                stack.enter_context(mock.patch.object(owner, name, wrong))
            yield


def _nothing(*args: object, **options: object) -> None:
    return None


def _as_storage_error(draft: Any, context: Any, *, attempts: int, cause: str) -> StorageError:
    return StorageError(root="memory", path=f"version {draft.version}", doing="write", cause=cause)


RIGHT_OUTCOME = commit_attempt._outcome_in_log


def _own_commit_is_anothers(draft: Any, context: Any, *, if_missing: Any) -> Any:
    outcome = RIGHT_OUTCOME(draft, context, if_missing=if_missing)
    if isinstance(outcome, CommitOutcome) and outcome.theirs is None:
        return CommitOutcome(theirs=commit_files.read_commit(context.store, draft.version))
    return outcome


RIGHT_CHECK = commit_loop.check_commit_is_visible


def _check_unprotected(draft: Any, timer: Any, **facts: Any) -> Any:
    facts["context"].store.head(log_paths.commit_path(draft.version))
    return RIGHT_CHECK(draft, timer, **facts)


RIGHT_PARSE = commit_files.parse_actions


def _whole_lines_alone(data: bytes) -> Iterator[Any]:
    with contextlib.suppress(MalformedActionError):
        yield from RIGHT_PARSE(data)


def _of_any_size(store: Any, file: Any) -> Any:
    return store.read(file.path)


RIGHT_READ = commit_attempt.read_commit


def _empty_where_unreadable(store: Any, version: int) -> Commit:
    try:
        return RIGHT_READ(store, version)
    except (StorageError, CorruptCommitError):
        return Commit(version=version, actions=(), info=None, timestamp_ms=0, modified_ms=0, file=None)


RIGHT_HIDDEN = StoredVectors.hidden


def _nothing_hidden(self: StoredVectors, files: Sequence[Any]) -> list[BitMap64]:
    try:
        return RIGHT_HIDDEN(self, files)
    except (DeletionVectorError, StorageError):
        return [BitMap64() for _ in files]


RIGHT_WINNERS = commit_loop._winners


def _newest_winner(outcome: Any, context: Any) -> list[Any]:
    return RIGHT_WINNERS(outcome, context)[-1:]


def _clock_of_the_writer(latest: Any, *, protocol: Any, metadata: Any, now_ms: int) -> int | None:
    return None if RIGHT_TIMESTAMP(latest, protocol=protocol, metadata=metadata, now_ms=now_ms) is None else now_ms


RIGHT_TIMESTAMP = commit_attempt.in_commit_timestamp
RIGHT_CLEAN_UP = after_commit.clean_up_log


def _plan_of_the_first_version(work: Any, snapshot: Any) -> Any:
    return RIGHT_NEEDED(work, work.snapshot)


RIGHT_NEEDED = vacuum_command._needed
RIGHT_PARSE_PATH = log_segment.parse_log_path


def _of_temporary_files(name: str) -> Any:
    return RIGHT_PARSE_PATH(name.removeprefix(".").removesuffix(".tmp"))


def _of_short_names(name: str) -> Any:
    number, _, rest = name.partition(".")
    return RIGHT_PARSE_PATH(f"{number:0>20}.{rest}")


def _pieces_by_themselves(store: Any, step: Any) -> Iterator[Any]:
    """The lines that are whole in a piece."""
    data = store.read(step.file.path)
    for start in range(0, len(data), commit_files.PIECE_BYTES):
        piece = data[start : start + commit_files.PIECE_BYTES]
        whole = piece[(piece.find(b"\n") + 1 if start else 0) : piece.rfind(b"\n") + 1]
        yield from commit_files.parse_actions(whole)


def _every_file(snapshot: Any) -> Any:
    return np.ones(snapshot.files.count, dtype=np.bool_)


class _NoBound:
    @staticmethod
    def ceil(batches: float) -> int:
        return 10**6


APPENDS = Mix(kinds={"insert": 1})
CHANGES = Mix(kinds={"insert": 3, "delete": 3, "update": 3})
EVERY_COMMIT = (("delta.checkpointInterval", "1"),)
RARELY = (("delta.checkpointInterval", "10"),)
UNKNOWN = Focus(mix=APPENDS, properties=RARELY, weather=Weather(switches=0.2, faults=0.12))
TORN = Focus(mix=CHANGES, properties=RARELY, weather=Weather(switches=0.5, torn=0.3))
LISTS = Focus(mix=CHANGES, properties=RARELY, weather=Weather(switches=0.5, bad_lists=0.5))
POWER = Focus(mix=APPENDS, properties=RARELY, weather=Weather(local=True, switches=0.5, faults=0.1, power=0.05))
JUMPS = Focus(mix=CHANGES, properties=(*RARELY, ("delta.enableInCommitTimestamps", "true")), weather=Weather(jumps=0.1))
MONTHS = Focus(
    mix=APPENDS,
    properties=EVERY_COMMIT,
    upkeep=tuple(CleanUp(20 * DAY_MS) for _ in range(6)),
    weather=Weather(switches=0.3, pauses=0.1),
)
VACUUMS = Focus(
    mix=CHANGES,
    properties=RARELY,
    upkeep=tuple(Vacuum(wait_ms, 0) for wait_ms in (0, 20, 20, 20, 20, 20)),
    weather=Weather(switches=0.6),
)
RESTORES = dataclasses.replace(VACUUMS, mix=Mix(kinds={"delete": 2, "truncate": 2, "restore": 4}))

PLANTED_BUGS: tuple[PlantedBug, ...] = (
    PlantedBug(
        number="fault F16",
        name="a commit is not recognized by its txnId",
        patches=[(commit_attempt, "_outcome_in_log", _own_commit_is_anothers)],
        focus=UNKNOWN,
        seeds=50,
    ),
    PlantedBug(
        number="fault F21",
        name="a commit that the storage may make later counts as refused",
        patches=[(commit_attempt, "unknown_outcome_error", _as_storage_error)],
        focus=dataclasses.replace(UNKNOWN, weather=Weather(switches=0.2, faults=0.3)),
        seeds=100,
        complaint="has the result refused",
    ),
    PlantedBug(
        number="fault F22",
        name="temporary files of other programs count as commits",
        patches=[(log_segment, "parse_log_path", _of_temporary_files)],
        focus=dataclasses.replace(UNKNOWN, others=(LeaveJunk(0, 0),), weather=Weather(switches=0.5)),
        seeds=20,
    ),
    PlantedBug(
        number="fault F23",
        name="a commit that was seen in the log is not made durable",
        patches=[(simulated_run.SimulatedStore, "make_durable", _nothing)],
        focus=POWER,
        seeds=200,
    ),
    PlantedBug(
        number="fault F24",
        name="a torn commit is read as far as it goes",
        patches=[(commit_files, "parse_actions", _whole_lines_alone), (commit_files, "read_whole", _of_any_size)],
        focus=TORN,
        seeds=20,
    ),
    PlantedBug(
        number="fault F25",
        name="a listing with a gap is read as if nothing were missing",
        patches=[(log_segment, "_check_complete", _nothing), (log_segment.LogSegment, "__post_init__", _nothing)],
        focus=LISTS,
        seeds=60,
    ),
    PlantedBug(
        number="fault F26",
        name="names without leading zeros count as commits",
        patches=[(log_segment, "parse_log_path", _of_short_names)],
        focus=dataclasses.replace(UNKNOWN, others=(LeaveJunk(0, 1),), weather=Weather(switches=0.5)),
        seeds=20,
    ),
    PlantedBug(
        number="fault F27",
        name="of a commit that is read in pieces what is behind the last line break of a piece is lost",
        patches=[(commit_files, "PIECE_BYTES", 300), (commit_files, "_streamed", _pieces_by_themselves)],
        focus=TORN,
        seeds=20,
    ),
    PlantedBug(
        number="fault F28",
        name="times of commits are those of the writer's clock",
        patches=[(commit_attempt, "in_commit_timestamp", _clock_of_the_writer)],
        focus=JUMPS,
        seeds=20,
        complaint="inCommitTimestamp",
    ),
    PlantedBug(
        number="fault F28",
        name="VACUUM trusts the clock of its own machine",
        patches=[(vacuum_command, "_storage_time_ms", lambda job, snapshot: job.clock.now_ms())],
        focus=dataclasses.replace(JUMPS, upkeep=tuple(Vacuum(wait_ms, None) for wait_ms in (100, 20, 20, 20))),
        seeds=40,
        complaint="after it left the table",
    ),
    PlantedBug(
        number="fault F29",
        name="a winner that cannot be read is no conflict",
        patches=[(commit_attempt, "read_commit", _empty_where_unreadable)],
        focus=TORN,
        seeds=100,
    ),
    PlantedBug(
        number="fault F30",
        name="of several winners only the newest is a conflict",
        patches=[(commit_loop, "_winners", _newest_winner)],
        focus=dataclasses.replace(LISTS, weather=Weather(switches=0.6)),
        seeds=30,
    ),
    PlantedBug(
        number="fault F31",
        name="a vector that cannot be read hides nothing",
        patches=[(deletion_vector_actions.StoredVectors, "hidden", _nothing_hidden)],
        focus=dataclasses.replace(TORN, weather=Weather(switches=0.3, faults=0.2)),
        seeds=200,
    ),
    PlantedBug(
        number="fault F32",
        name="a writer that lost tries the same version again",
        patches=[
            (commit_loop, "_winners", lambda outcome, context: []),
            (simulated_run, "LIMITS", dataclasses.replace(simulated_run.LIMITS, attempts_max=10**6)),
        ],
        focus=dataclasses.replace(UNKNOWN, weather=Weather(switches=0.6)),
        seeds=10,
        complaint="does not end",
    ),
    PlantedBug(
        number="bug B25",
        name="a put is not checked against a table that is deleted",
        patches=[(commit_loop, "check_latest_exists", _nothing), (commit_loop, "check_commit_is_visible", _nothing)],
        focus=dataclasses.replace(UNKNOWN, others=(DropTable(100),), weather=Weather(switches=0.3)),
        seeds=20,
        complaint="was acknowledged",
    ),
    PlantedBug(
        number="bug B58",
        name="what was put counts as what readers read",
        patches=[(commit_loop, "check_commit_is_visible", _nothing)],
        focus=MONTHS,
        seeds=150,
        complaint="was acknowledged",
    ),
    PlantedBug(
        number="bug B59",
        name="a fault after the put is raised",
        patches=[(commit_loop, "check_commit_is_visible", _check_unprotected)],
        focus=UNKNOWN,
        seeds=20,
        complaint="has the result refused",
    ),
    PlantedBug(
        number="bug B65",
        name="giving ids to rows commits the same files again and again",
        patches=[(row_id_backfill, "math", _NoBound), (row_id_backfill, "_without_ids", _every_file)],
        focus=Focus(mix=ROW_TRACKING_IN_STEPS, weather=Weather(switches=0.3)),
        seeds=10,
        complaint="does not end",
    ),
    PlantedBug(
        number="bug B65",
        name="VACUUM keeps its plan though commits came before its START",
        patches=[(vacuum_command, "_needed", _plan_of_the_first_version)],
        focus=RESTORES,
        seeds=60,
        complaint="which is gone",
    ),
    PlantedBug(
        number="bug B69",
        name="a commit is not checked against files that VACUUM has taken",
        patches=[(commit_loop, "check_files_exist", _nothing)],
        focus=VACUUMS,
        seeds=120,
        complaint="which is gone",
    ),
)
