"""Actors that take turns at the calls of their stores, by a simulated time. One thread moves at a time."""

from __future__ import annotations

import _thread
import dataclasses
import heapq
import itertools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Self

from simulation.events import Event, EventPlan, Kind, Step, duration
from storage.faults import WriterDied

START_MS = 1_700_000_000_000
CALL_MS = 7
"""How long each call takes."""
CALLS_MAX = 500
"""More calls than an act has where it ends by itself."""


class EndlessAct(AssertionError):
    """An act that makes calls and does not end."""


class Stopped(BaseException):
    """The simulation ends here: a judge has something to say."""


class Scheduler:
    """The time, whose turn it is, and what happens at each call."""

    def __init__(self, plan: EventPlan) -> None:
        self.now_ms = START_MS
        self.steps = 0
        self.trace: list[str] = []
        self.happened: list[Event] = []
        self.stopped = False
        self.problems: list[str] = []
        self.lose_power: Callable[[], None] = lambda: None
        self._plan = plan
        self._actors: dict[str, Turn] = {}
        self._later: list[tuple[int, int, Callable[[], object]]] = []
        self._numbers = itertools.count()
        self._ended = _thread.allocate_lock()

    def run(self, bodies: dict[str, Callable[[Turn], None]]) -> None:
        """Run all actors to their end."""
        self._ended.acquire()
        for name, body in bodies.items():
            self._actors[name] = Turn(self, name, body)
        for turn in self._actors.values():
            turn.thread.start()
        self._next().go_on()
        self._ended.acquire()
        for turn in self._actors.values():
            turn.thread.join()
        while self._later:
            self.now_ms = max(self.now_ms, self._later[0][0])
            self._do_what_is_due()

    def call(self, turn: Turn, name: str, path: str) -> Sequence[Event]:
        """Let happen what happens before a call, and return what the store must do."""
        turn.check()
        self.steps += 1
        self.now_ms += CALL_MS
        step: Step = (turn.name, turn.act, turn.calls)
        turn.calls += 1
        if turn.calls > CALLS_MAX:
            raise EndlessAct(f"an act of {turn.name} does not end within {CALLS_MAX} calls")
        self._do_what_is_due()
        others = [other.name for other in self._actors.values() if other is not turn and other.may_go_on]
        events = self._plan.events(step, name, others)
        for event in events:
            self._happens(turn, event, name, path)
        return events

    def after_call(self, turn: Turn, events: Sequence[Event]) -> None:
        if any(event.kind is Kind.DEATH_AFTER for event in events):
            turn.dies = True
            turn.check()

    def later(self, delay_ms: int, effect: Callable[[], object]) -> None:
        heapq.heappush(self._later, (self.now_ms + delay_ms, next(self._numbers), effect))

    def sleep(self, turn: Turn, time_ms: float) -> None:
        """Let others go on until the time has passed."""
        turn.wakes_ms = self.now_ms + int(time_ms)
        self._switch(turn, self._next())

    def complain(self, problems: Sequence[str]) -> None:
        """A judge has something to say: everything ends here."""
        self.problems += problems
        if problems:
            self.stopped = True

    def _happens(self, turn: Turn, event: Event, name: str, path: str) -> None:
        self.happened.append(event)
        self.say(turn.name, f"{name} {path}: {event}")
        if event.kind is Kind.PAUSE:
            self.sleep(turn, event.value)
        elif event.kind is Kind.SWITCH:
            other = self._actors.get(event.actor)
            if other is not None and other is not turn and other.may_go_on:
                self._switch(turn, other)
        elif event.kind is Kind.CLOCK:
            turn.skew_ms += event.value
        elif event.kind is Kind.DEATH:
            turn.dies = True
        elif event.kind is Kind.POWER_LOSS:
            for other in self._actors.values():
                other.dies = other.has_begun
            self.lose_power()
        turn.check()

    def say(self, name: str, text: str) -> None:
        self.trace.append(f"{duration(self.now_ms - START_MS):>9}  {name}: {text}")

    def _do_what_is_due(self) -> None:
        while self._later and self._later[0][0] <= self.now_ms:
            heapq.heappop(self._later)[2]()

    def _next(self) -> Turn:
        """The first actor that is awake; where all sleep, time passes."""
        alive = [turn for turn in self._actors.values() if not turn.has_ended]
        awake = next((turn for turn in alive if turn.may_go_on), None)
        if awake is not None:
            return awake
        first = min(alive, key=lambda turn: turn.wakes_ms)
        self.now_ms = max(self.now_ms, first.wakes_ms)
        return first

    def _switch(self, turn: Turn, other: Turn) -> None:
        if other is not turn:
            other.go_on()
            turn.wait()
        turn.check()

    def ended(self, turn: Turn) -> None:
        """An actor has done all its acts."""
        turn.has_ended = True
        if all(other.has_ended for other in self._actors.values()):
            self._ended.release()
        else:
            self._next().go_on()


@dataclasses.dataclass(eq=False)
class Turn:
    """One actor, in a thread of its own that moves only when it has the turn."""

    scheduler: Scheduler
    name: str
    body: Callable[[Turn], None]
    act: int = 0
    calls: int = 0
    wakes_ms: int = 0
    skew_ms: int = 0
    """How far the clock of this machine is ahead."""
    cause: object = None
    """What it is at."""
    dies: bool = False
    has_begun: bool = False
    has_ended: bool = False

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run, name=f"simulated {self.name}", daemon=True)
        self._baton = _thread.allocate_lock()
        self._baton.acquire()

    @property
    def may_go_on(self) -> bool:
        return not self.has_ended and self.wakes_ms <= self.scheduler.now_ms

    def go_on(self) -> None:
        self._baton.release()

    def wait(self) -> None:
        self._baton.acquire()

    def check(self) -> None:
        """Raise where the process is dead, or the simulation has ended."""
        if self.scheduler.stopped:
            raise Stopped
        if self.dies:
            raise WriterDied

    def call(self, name: str, path: str) -> Sequence[Event]:
        return self.scheduler.call(self, name, path)

    def after_call(self, events: Sequence[Event]) -> None:
        self.scheduler.after_call(self, events)

    def later(self, time_ms: int, effect: Callable[[], object]) -> None:
        self.scheduler.later(time_ms, effect)

    def begin(self, act: int) -> None:
        """The next act, in a process that lives."""
        self.act, self.calls = act, 0

    def _run(self) -> None:
        self.wait()
        self.has_begun = True
        try:
            self.body(self)
        except Stopped:
            pass
        except BaseException as error:
            self.scheduler.complain([f"{self.name} ends with {type(error).__name__}: {error}"])
        finally:
            self.scheduler.ended(self)


class SimulatedClock:
    """The clock of one actor's machine, which may be wrong."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn

    def now_ms(self) -> int:
        return self._turn.scheduler.now_ms + self._turn.skew_ms

    def elapsed_ms(self) -> int:
        return self._turn.scheduler.now_ms - START_MS

    def sleep_ms(self, duration_ms: float) -> None:
        self._turn.check()
        self._turn.scheduler.sleep(self._turn, duration_ms)


class StorageClock:
    """The clock by which the storage stamps files."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def now_ms(self) -> int:
        return self._scheduler.now_ms

    def elapsed_ms(self) -> int:
        return self._scheduler.now_ms

    def sleep_ms(self, duration_ms: float) -> None:
        raise AssertionError("storage does not sleep")


class InlinePool:
    """A pool of threads that does everything at once in the thread that submits it."""

    def __init__(self, *args: object, **options: object) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None: ...

    def submit(self, work: Callable[..., Any], *args: Any, **options: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(work(*args, **options))
        except Exception as error:
            future.set_exception(error)
        return future

    def map(self, work: Callable[..., Any], *arguments: Any) -> Any:
        return iter(
            [future.result() for future in [self.submit(work, *values) for values in zip(*arguments, strict=False)]]
        )

    def shutdown(self, **options: object) -> None: ...
