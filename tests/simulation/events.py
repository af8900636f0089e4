"""What happens at the calls of a simulated process, and the plans that decide it.

A call is named by the actor, the number of its act and the number of the call within that act. So when an act is left
out, the events of the others stay where they are.
"""

from __future__ import annotations

import dataclasses
import enum
import random
from collections.abc import Mapping, Sequence
from typing import Protocol

Step = tuple[str, int, int]
"""An actor, the number of its act, and the number of a call within the act."""
DAY_MS = 24 * 3_600_000


class Kind(enum.Enum):
    """What can happen at a call."""

    SWITCH = "another actor goes on"
    PAUSE = "the process pauses"
    CLOCK = "the clock of the process jumps"
    DEATH = "the process dies before the call"
    DEATH_AFTER = "the process dies after the call"
    POWER_LOSS = "the machine loses power"
    FAILS = "the call fails"
    FAILS_AFTER = "the call has its effect and fails"
    REQUEST_LOST = "the request is lost, and the outcome unknown"
    REPLY_LOST = "the reply is lost, and the outcome unknown"
    RETRIED_INSIDE = "the client repeats the request, and finds its own file"
    LATE = "the request takes effect later, and the outcome is unknown"
    REPEATED = "the request takes effect again later"
    STALE = "the listing lacks new files"
    PARTIAL = "the listing ends early"
    GAP = "the listing lacks a file"
    TORN = "the file is read in part"
    SYNC_FAILS = "fsync fails"
    SYNC_FAILS_ALWAYS = "fsync fails from now on"


THINK = "think"
"""No call of the store, but the moment between what an act reads and what it commits."""
TIMED = {Kind.PAUSE, Kind.CLOCK, Kind.LATE, Kind.REPEATED, Kind.STALE}


@dataclasses.dataclass(frozen=True)
class Event:
    """One thing that happens at a call. `value` is a time in ms, a number of files, or a share of a file in percent."""

    kind: Kind
    value: int = 0
    actor: str = ""
    """The actor that goes on."""

    def __str__(self) -> str:
        if self.kind is Kind.SWITCH:
            return f"{self.actor} goes on"
        if self.kind in TIMED:
            return f"{self.kind.value} ({duration(self.value)})"
        return f"{self.kind.value} ({self.value})" if self.value else self.kind.value


def duration(time_ms: int) -> str:
    """A time as a person would write it."""
    sign, time_ms = ("-" if time_ms < 0 else ""), abs(time_ms)
    for unit, length in (("days", DAY_MS), ("hours", 3_600_000), ("min", 60_000), ("s", 1_000)):
        if time_ms >= length:
            return f"{sign}{time_ms / length:.3g} {unit}"
    return f"{sign}{time_ms} ms"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Weather:
    """How often what happens, at each call."""

    local: bool = False
    """Whether the store is a local disk, on one machine, else an object store."""
    switches: float = 0.3
    faults: float = 0.0
    deaths: float = 0.0
    pauses: float = 0.0
    jumps: float = 0.0
    power: float = 0.0
    bad_lists: float = 0.0
    torn: float = 0.0


class EventPlan(Protocol):
    """What happens at each call."""

    def events(self, step: Step, call: str, actors: Sequence[str]) -> Sequence[Event]:
        """The events of a call, of the store's method `call`. `actors` may go on in the place of this one."""


class RecordedPlan:
    """The events of a run before."""

    def __init__(self, events: Mapping[Step, tuple[Event, ...]]) -> None:
        self.recorded = dict(events)

    def events(self, step: Step, call: str, actors: Sequence[str]) -> Sequence[Event]:
        return self.recorded.get(step, ())


class RandomPlan:
    """Events drawn at random, and recorded."""

    def __init__(self, rng: random.Random, weather: Weather) -> None:
        self.recorded: dict[Step, tuple[Event, ...]] = {}
        self._rng = rng
        self._weather = weather

    def events(self, step: Step, call: str, actors: Sequence[str]) -> Sequence[Event]:
        drawn = tuple(self._drawn(call, actors))
        if drawn:
            self.recorded[step] = drawn
        return drawn

    def _drawn(self, call: str, actors: Sequence[str]) -> list[Event]:
        rng, weather = self._rng, self._weather
        events: list[Event] = []
        if rng.random() < weather.pauses:
            events.append(
                Event(Kind.PAUSE, rng.choice([1_000, 20_000, 3_600_000, 2 * DAY_MS, 31 * DAY_MS, 62 * DAY_MS]))
            )
        if actors and rng.random() < (3 * weather.switches if call == THINK else weather.switches):
            events.append(Event(Kind.SWITCH, actor=rng.choice(actors)))
        if rng.random() < weather.jumps:
            events.append(Event(Kind.CLOCK, rng.choice([-3_600_000, -1_000, 5_000, 3_600_000, 365 * DAY_MS])))
        if rng.random() < weather.deaths:
            events.append(Event(rng.choice([Kind.DEATH, Kind.DEATH_AFTER])))
        if weather.local and rng.random() < weather.power:
            events.append(Event(Kind.POWER_LOSS))
        if call != THINK and rng.random() < weather.faults:
            events.append(self._fault(call))
        elif call in ("list_from", "list_tree", "walk") and rng.random() < weather.bad_lists:
            stale = Event(Kind.STALE, rng.choice([100, 1_000, 60_000]))
            events.append(
                rng.choice([stale, Event(Kind.PARTIAL, rng.randint(0, 6)), Event(Kind.GAP, rng.randint(0, 9))])
            )
        elif call in ("read", "open", "read_range") and rng.random() < weather.torn:
            events.append(Event(Kind.TORN, rng.randint(0, 99)))
        return events

    def _fault(self, call: str) -> Event:
        rng, later = self._rng, self._rng.choice([50, 5_000, 3_600_000, 40 * DAY_MS])
        if call == "sync":
            return Event(rng.choice([Kind.SYNC_FAILS, Kind.SYNC_FAILS_ALWAYS]))
        fails = [Event(Kind.FAILS)]
        if call in ("put", "delete", "delete_many"):
            fails.append(Event(Kind.FAILS_AFTER))
        if self._weather.local:
            return rng.choice(fails)
        if call == "put_if_absent":
            unknown = [Event(Kind.REQUEST_LOST), Event(Kind.REPLY_LOST), Event(Kind.RETRIED_INSIDE)]
            return rng.choice([*fails, *unknown, Event(Kind.LATE, later), Event(Kind.REPEATED, later)])
        if call == "put":
            return rng.choice([*fails, Event(Kind.LATE, later), Event(Kind.REPEATED, later)])
        return rng.choice(fails)
