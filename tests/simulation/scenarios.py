"""What a seed means: a table, actors with their acts, and what weather they have."""

from __future__ import annotations

import dataclasses
import random

from concurrency.conditions import Row
from concurrency.histories import History
from concurrency.played_table import Manner
from concurrency.random_histories import SHARES, Mix, random_history, random_statement
from concurrency.statements import shown
from simulation.acts import Act, Change, Checkpoint, CleanUp, CompactLog, Read, Vacuum
from simulation.events import DAY_MS, Weather, duration
from simulation.other_acts import DropTable, GiveRowIds, LeaveJunk, MicroBatch

Programs = tuple[tuple[str, tuple[Act, ...]], ...]
WAITS_MS = [*[0] * 20, 10, 200, 60_000, DAY_MS, 15 * DAY_MS, 31 * DAY_MS]
COMMITS_MAX = 14
"""The judge of WriteSerializable looks for an order of so many."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scenario:
    """All that a run depends on, but for what happens at calls."""

    seed: int
    level: str
    manner: Manner
    files: tuple[tuple[Row, ...], ...]
    properties: tuple[tuple[str, str], ...]
    """Those that concern the log."""
    programs: Programs
    weather: Weather
    has_rows_in_files: bool = False
    """Whether data files are Parquet, which only other engines read here."""

    @property
    def history(self) -> History:
        """The table and its level, for the judges of histories."""
        return History(level=self.level, files=self.files, statements=(), schedule=(), manner=self.manner)

    def in_words(self) -> str:
        """The scenario as a person would write it down."""
        store = "a local disk" if self.weather.local else "an object store"
        named = ", ".join(f"{name}={value}" for name, value in self.properties)
        lines = [f"a table on {store}, {self.level}, {named}, {self.manner}"]
        lines += [f"  file {number}: {', '.join(map(shown, rows))}" for number, rows in enumerate(self.files)]
        for name, acts in self.programs:
            lines.append(f"  {name}:")
            lines += [f"    {number}: {_waits(act)}{act}" for number, act in enumerate(acts)]
        return "\n".join(lines)


def _waits(act: Act) -> str:
    return f"after {duration(act.wait_ms)}, " if act.wait_ms else ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Focus:
    """Parts of a scenario that are not drawn."""

    mix: Mix | None = None
    upkeep: tuple[Act, ...] | None = None
    """The acts of the keeper."""
    others: tuple[Act, ...] | None = None
    """Those of another program."""
    properties: tuple[tuple[str, str], ...] | None = None
    weather: Weather | None = None


NO_FOCUS = Focus()


def random_scenario(seed: int, focus: Focus = NO_FOCUS) -> Scenario:
    """The scenario of a seed, always the same."""
    rng = random.Random(f"scenario {seed}")
    mixes, shares = zip(*SHARES.values(), strict=True)
    mix = _ours(focus.mix or rng.choices(mixes, shares)[0])
    history = random_history(rng, mix)
    opening = [Change(0, statement) for statement in history.statements[: len(mix.opens)]]
    writers = [
        (f"writer {number}", tuple(_changes(rng, mix, most=5 if number == 1 else 4)))
        for number in range(1, rng.choice([2, 2, 3]) + 1)
    ]
    name, acts = writers[0]
    writers[0] = name, (*opening, *acts)
    programs = [*writers]
    if mix.opens == ("support",):
        programs.append(("backfill", (GiveRowIds(rng.choice([0, 50, 200])),)))
    if focus.upkeep or (focus.upkeep is None and rng.random() < 0.7):
        programs.append(("keeper", focus.upkeep or tuple(_upkeep(rng, mix) for _ in range(rng.randint(1, 5)))))
    if rng.random() < 0.5:
        programs.append(("reader", tuple(Read(rng.choice(WAITS_MS), rng.choice([0, 0, 1, 3])) for _ in range(3))))
    if rng.random() < 0.3:
        programs.append(("stream", tuple(MicroBatch(rng.choice(WAITS_MS), rng.choice([1, 2, 100])) for _ in range(4))))
    disturbs = rng.random() < 0.1
    others = ((_disturbance(rng),) if disturbs else ()) if focus.others is None else focus.others
    programs += [("other program", others)] if others else []
    return Scenario(
        seed=seed,
        level=history.level,
        manner=history.manner,
        files=history.files,
        properties=_properties(rng) if focus.properties is None else focus.properties,
        programs=tuple(programs),
        weather=focus.weather or _weather(rng),
    )


def _ours(mix: Mix) -> Mix:
    """Without other engines, which are not ours to simulate."""
    kinds = {kind: share for kind, share in mix.kinds.items() if kind != "engine"}
    return dataclasses.replace(mix, kinds=kinds, opens=tuple(kind for kind in mix.opens if kind != "engine"))


def _changes(rng: random.Random, mix: Mix, *, most: int) -> list[Act]:
    return [Change(rng.choice(WAITS_MS), random_statement(rng, mix)) for _ in range(rng.randint(1, most))]


def _upkeep(rng: random.Random, mix: Mix) -> Act:
    wait_ms = rng.choice(WAITS_MS)
    # RESTORE does not see a VACUUM that is still deleting and whose START is in the version that RESTORE reads.
    hours = None if "restore" in mix.kinds else rng.choice([None, None, 0, 1])
    return rng.choice(
        [
            Checkpoint(wait_ms),
            CleanUp(wait_ms),
            CompactLog(wait_ms, rng.randint(2, 4)),
            Vacuum(wait_ms, hours, lite=rng.random() < 0.3),
        ]
    )


def _disturbance(rng: random.Random) -> Act:
    wait_ms = rng.choice([0, 100, 500, 60_000])
    return DropTable(wait_ms) if rng.random() < 0.3 else LeaveJunk(wait_ms, rng.randrange(6))


def _properties(rng: random.Random) -> tuple[tuple[str, str], ...]:
    properties = {"delta.checkpointInterval": str(rng.choice([1, 2, 3, 5, 10]))}
    if rng.random() < 0.3:
        properties["delta.logRetentionDuration"] = rng.choice(["interval 1 day", "interval 2 hours"])
    if rng.random() < 0.3:
        properties["delta.enableInCommitTimestamps"] = "true"
    if rng.random() < 0.4:
        properties["delta.checkpointPolicy"] = "v2"
    return tuple(properties.items())


def _weather(rng: random.Random) -> Weather:
    local = rng.random() < 0.4
    calm = rng.random() < 0.2
    return Weather(
        local=local,
        switches=rng.choice([0.1, 0.3, 0.6]),
        faults=0.0 if calm else rng.choice([0.0, 0.02, 0.06, 0.15]),
        deaths=0.0 if calm else rng.choice([0.0, 0.0, 0.01]),
        pauses=rng.choice([0.0, 0.0, 0.01, 0.03]),
        jumps=rng.choice([0.0, 0.0, 0.01]),
        power=0.0 if calm else rng.choice([0.0, 0.005, 0.01]),
        bad_lists=0.0 if calm or local else rng.choice([0.0, 0.0, 0.05]),
        torn=0.0 if calm else rng.choice([0.0, 0.0, 0.02]),
    )
