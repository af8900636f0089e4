"""One run of a scenario: every actor to its end, and the verdict."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import random
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from unittest import mock

import msgspec

from anabranch.errors.base import DeltaError
from anabranch.errors.commits import CommitFateUnknownError, DeltaConcurrentModificationException
from anabranch.log import commit_files
from anabranch.protocol.actions import Action, AddFile, CommitInfo, Metadata, Protocol
from anabranch.protocol.actions_json import encode_actions, parse_actions
from anabranch.transactions.commit.commit_context import RetryLimits
from anabranch.transactions.delta_log import DeltaLog
from anabranch.transactions.rows import deletion_vector_actions
from concurrency.conditions import Row
from concurrency.played_ids import KeptId
from concurrency.played_table import PlayedTable
from simulation.acts import Act, Attempt, Process, VersionsGone
from simulation.events import Event, EventPlan, Kind, Step
from simulation.log_watch import LogWatch
from simulation.scenarios import Scenario
from simulation.scheduling import InlinePool, Scheduler, SimulatedClock, StorageClock, Turn
from simulation.simulated_store import Disk, SimulatedStore
from simulation.simulated_table import SimulatedTable, as_parquet, as_text
from simulation.verdicts import problems_of_attempts, problems_of_log
from storage.faults import WriterDied
from transactions.table_on_memory import features, with_properties

PIECE_BYTES = 1_500
"""Larger commits are read in pieces, and so some are here."""
INLINE_BYTES_MAX = (0, 256)
"""Vectors are files for every other seed, so that they can be missing and unreadable."""
HARMLESS = {Kind.SWITCH, Kind.PAUSE, Kind.CLOCK}
"""What happens beside a call, which has its result."""
LIMITS = RetryLimits(attempts_max=30, unresolved_attempts_max=2)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunResult:
    """What came of a run."""

    scenario: Scenario
    problems: tuple[str, ...]
    events: Mapping[Step, tuple[Event, ...]]
    trace: tuple[str, ...]
    steps: int
    versions: int
    reads: int
    results: Counter[str]
    happened: Counter[str]
    disk: Disk
    played: PlayedTable


class Simulation:
    """The actors of one scenario on one disk."""

    def __init__(self, scenario: Scenario, plan: EventPlan) -> None:
        self.scenario = scenario
        self.plan = plan
        self.content = as_parquet if scenario.has_rows_in_files else as_text
        self.scheduler = Scheduler(plan)
        self.clock = StorageClock(self.scheduler)
        self.disk = Disk(self.clock)
        self.watch = LogWatch(self.disk, self.clock, self.scheduler.complain)
        self.attempts: list[Attempt] = []
        self.memories: dict[str, dict[str, object]] = {}
        self.data: dict[str, tuple[Row, ...]] = {}
        self.kept: dict[str, tuple[KeptId | None, ...]] = {}
        self.changes: dict[str, tuple[tuple[str, Row], ...]] = {}
        self.scheduler.lose_power = self.disk.lose_power
        self._create()

    def run(self) -> RunResult:
        """Run all actors, then judge."""
        bodies = {name: self._body(acts) for name, acts in self.scenario.programs}
        with _in_one_thread(self.scenario.seed):
            self.scheduler.run(bodies)
            played = self._played(self.watch.archive)
            if not self.scheduler.problems:
                self.scheduler.complain(problems_of_attempts(self.attempts, self.watch))
            if not self.scheduler.problems:
                self.scheduler.complain(problems_of_log(self.scenario, played, self.watch, self.attempts))
        return RunResult(
            scenario=self.scenario,
            problems=tuple(self.scheduler.problems),
            events=self.plan.recorded,  # type: ignore[attr-defined]
            trace=tuple(self.scheduler.trace),
            steps=self.scheduler.steps,
            versions=len(self.watch.commits),
            reads=self.watch.reads,
            results=Counter(attempt.result for attempt in self.attempts),
            happened=Counter(event.kind.value for event in self.scheduler.happened),
            disk=self.disk,
            played=played,
        )

    def _create(self) -> None:
        """Version 0, which is there before the actors come."""
        scenario = self.scenario
        made = PlayedTable.created(scenario.files, level=scenario.level, manner=scenario.manner)
        self.data |= made.data
        actions = parse_actions(made.store.read("_delta_log/00000000000000000000.json"))
        actions = [self._described(action, dict(scenario.properties)) for action in actions]
        self.disk.watcher = self.watch
        creation = Attempt(actor="creator", number=0, act=Act(0), result="committed", version=0)
        for path, rows in self.data.items():
            self.disk.replace(path, self.content(rows), creation)
        self.disk.sync("")
        self.disk.create("_delta_log/00000000000000000000.json", encode_actions(actions), creation)
        self.disk.sync("_delta_log")
        self.attempts.append(creation)

    def _described(self, action: Action, properties: dict[str, str]) -> Action:
        """The first version's description with more properties, and the features that they need."""
        if isinstance(action, AddFile):
            return msgspec.structs.replace(action, size=len(self.content(self.data[action.path])))
        if isinstance(action, Metadata):
            return with_properties(
                action, **{name.removeprefix("delta.").replace(".", "_"): value for name, value in properties.items()}
            )
        if isinstance(action, CommitInfo) and "delta.enableInCommitTimestamps" in properties:
            return msgspec.structs.replace(action, in_commit_timestamp=action.timestamp)
        if isinstance(action, Protocol):
            more = {"delta.checkpointPolicy": "v2Checkpoint", "delta.enableInCommitTimestamps": "inCommitTimestamp"}
            named = [feature for name, feature in more.items() if name in properties]
            return features(*(action.writer_features or ()), *named)
        return action

    def _body(self, acts: tuple[Act, ...]) -> object:
        def body(turn: Turn) -> None:
            process = None
            for number, act in enumerate(acts):
                turn.begin(number)
                attempt = Attempt(actor=turn.name, number=number, act=act)
                try:
                    self.scheduler.sleep(turn, act.wait_ms)
                    process = process or self._process(turn, number)
                    self.attempts.append(attempt)
                    self._attempt(dataclasses.replace(process, attempt=attempt))
                except WriterDied:
                    self.scheduler.say(turn.name, "dies, and is started again")
                    attempt.result = "died"
                    turn.dies, process = False, None

        return body

    def _attempt(self, process: Process) -> None:
        attempt, turn = process.attempt, process.turn
        turn.cause = attempt
        was_dropped = self.watch.is_dropped
        self.scheduler.say(turn.name, f"begins {attempt.act}")
        try:
            attempt.version = attempt.act.run(process)
            attempt.result = "committed" if attempt.version is not None else "done"
        except DeltaConcurrentModificationException as conflict:
            attempt.result, attempt.error = "conflict", conflict
        except CommitFateUnknownError as unknown:
            attempt.result, attempt.error, attempt.version = "unknown", unknown, unknown.version
        except (DeltaError, VersionsGone) as error:
            attempt.result, attempt.error = "refused", error
        attempt.newest_version = self.watch.newest_version
        attempt.saw_drop = self.watch.is_dropped and not was_dropped
        attempt.calls_failed = any(
            event.kind not in HARMLESS
            for (actor, act, _), events in self.plan.recorded.items()  # type: ignore[attr-defined]
            if (actor, act) == (turn.name, turn.act)
            for event in events
        )
        error = f" ({type(attempt.error).__name__})" if attempt.error is not None else ""
        self.scheduler.say(turn.name, f"{attempt.result}{error}, version {attempt.version}")

    def _process(self, turn: Turn, number: int) -> Process:
        store = SimulatedStore(self.disk, turn, local=self.scenario.weather.local)
        source = random.Random(f"{self.scenario.seed} {turn.name} {number}")
        clock = SimulatedClock(turn)
        table = DeltaLog(store, clock, source, bounds=LIMITS)
        played = SimulatedTable(
            store=store,  # type: ignore[arg-type]
            clock=clock,  # type: ignore[arg-type]
            table=table,
            manner=self.scenario.manner,
            data=self.data,
            kept=self.kept,
            changes=self.changes,
            random=source,
            content=self.content,
        )
        return Process(
            turn=turn,
            played=played,
            watch=self.watch,
            attempt=self.attempts[0],
            memory=self.memories.setdefault(turn.name, {}),
        )

    def _played(self, store: object) -> PlayedTable:
        return PlayedTable(
            store=store,  # type: ignore[arg-type]
            clock=self.clock,  # type: ignore[arg-type]
            table=DeltaLog(store, self.clock, random.Random(0)),  # type: ignore[arg-type]
            manner=self.scenario.manner,
            data=self.data,
            kept=self.kept,
            changes=self.changes,
        )


@contextlib.contextmanager
def _in_one_thread(seed: int) -> Iterator[None]:
    """Pools of threads work inline, and what is logged is lost."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch("concurrent.futures.ThreadPoolExecutor", InlinePool))
        for name, module in list(sys.modules.items()):
            if name.startswith("anabranch.") and hasattr(module, "ThreadPoolExecutor"):
                stack.enter_context(mock.patch.object(module, "ThreadPoolExecutor", InlinePool))
        stack.enter_context(mock.patch.object(commit_files, "PIECE_BYTES", PIECE_BYTES))
        stack.enter_context(mock.patch.object(deletion_vector_actions, "INLINE_BYTES_MAX", INLINE_BYTES_MAX[seed % 2]))
        logger = logging.getLogger("anabranch")
        level = logger.level
        logger.setLevel(logging.CRITICAL)
        stack.callback(logger.setLevel, level)
        yield
