"""The writers of the demo: starts their processes, sends them orders and receives their events."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from anabranch.errors.arguments import DemoFailedError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# The statements of the demo's concurrent writers: executed on the table, and replayed by Spark one after the other.


UPDATE, DELETE, MERGE, OPTIMIZE = "UPDATE", "DELETE", "MERGE", "OPTIMIZE"
SOURCE = "carrier string, minutes int"
_NEW_FLIGHT = {
    "year": "2013",
    "day": "31",
    "dep_time": "900",
    "dep_delay": "0",
    "arr_delay": "s.minutes",
    "carrier": "s.carrier",
    "flight": "1",
    "origin": "'JFK'",
    "dest": "'BOS'",
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement. Its fields can be written as JSON."""

    kind: str
    words: str
    """A description for the output."""
    condition: str = ""
    """The rows that it changes. For a MERGE, the flights that it may match: those of one month that were flown."""
    values: Mapping[str, str] = dataclasses.field(default_factory=dict)
    month: int = 0
    """For a MERGE, the month of the flights that it inserts."""
    source: Sequence[tuple[str, int]] = ()

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Statement:
        """The statement that `dataclasses.asdict` turned into this document."""
        source = tuple((carrier, minutes) for carrier, minutes in document["source"])
        return cls(**{**document, "source": source})


def statements_by_writer() -> list[list[Statement]]:
    """The statements of each writer. They change different rows of the same files."""
    return [
        [_on_time("UA", 1), _on_time("B6", 2)],
        [_without_cancelled(1), _without_cancelled(3)],
        [_corrected(1), _corrected(2)],
        [Statement(kind=OPTIMIZE, words="compact small files")] * 2,
    ]


def conflicting_update() -> Statement:
    """The statement that two writers execute on the same rows."""
    return Statement(
        kind=UPDATE,
        words="one minute more for the flights of Christmas from JFK",
        condition="month = 12 AND day = 25 AND origin = 'JFK'",
        values={"arr_delay": "arr_delay + 1"},
    )


def run(spark: SparkSession, path: str, statement: Statement) -> None:
    """Execute the statement on the table."""
    from anabranch.tables import DeltaTable  # noqa: PLC0415 - only the demo loads Spark

    table = DeltaTable.forPath(spark, path)
    if statement.kind == UPDATE:
        table.update(statement.condition, dict(statement.values))
    elif statement.kind == DELETE:
        table.delete(statement.condition)
    elif statement.kind == OPTIMIZE:
        table.optimize().executeCompaction()
    else:
        merge = table.alias("t").merge(_source(spark, statement), f"t.carrier = s.carrier AND {statement.condition}")
        merge.whenMatchedUpdate(set=dict(statement.values)).whenNotMatchedInsert(
            values=_new_flight(statement)
        ).execute()


def replayed(spark: SparkSession, flights: DataFrame, statements: Sequence[Statement]) -> DataFrame:
    """The rows after these statements, executed one after the other by Spark without a table."""
    for statement in statements:
        flights = _replayed(spark, flights, statement)
    return flights


def _replayed(spark: SparkSession, flights: DataFrame, statement: Statement) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - PySpark's own convention; only the demo loads it

    if statement.kind == OPTIMIZE:
        return flights
    if statement.kind == DELETE:
        return flights.where(f"NOT coalesce({statement.condition}, false)")
    if statement.kind == UPDATE:
        return flights.select(*_changed(flights, statement.values, hit=f"coalesce({statement.condition}, false)"))
    source = _source(spark, statement)
    kept = flights.alias("t").join(source, F.expr(f"t.carrier = s.carrier AND {statement.condition}"), "left")
    matched = flights.alias("t").where(statement.condition).select("carrier").distinct()
    new = source.join(matched, "carrier", "left_anti").alias("s")
    values = _new_flight(statement)
    inserted = new.select(*(F.expr(values.get(name, "NULL")).alias(name) for name in flights.columns))
    return kept.select(*_changed(flights, statement.values, hit="s.carrier IS NOT NULL", alias="t.")).union(inserted)


def _changed(flights: DataFrame, values: Mapping[str, str], *, hit: str, alias: str = "") -> list[Any]:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as above

    columns = []
    for field in flights.schema:
        value = F.col(alias + field.name)
        if field.name in values:
            value = F.when(F.expr(hit), F.expr(values[field.name]).cast(field.dataType)).otherwise(value)
        columns.append(value.alias(field.name))
    return columns


def _source(spark: SparkSession, statement: Statement) -> DataFrame:
    return spark.createDataFrame(list(statement.source), SOURCE).alias("s")


def _new_flight(statement: Statement) -> dict[str, Any]:
    return {**_NEW_FLIGHT, "month": str(statement.month)}


def _on_time(carrier: str, month: int) -> Statement:
    return Statement(
        kind=UPDATE,
        words=f"early departures of {carrier} in month {month} count as on time",
        condition=f"carrier = '{carrier}' AND month = {month} AND dep_delay < 0",
        values={"dep_delay": "0"},
    )


def _without_cancelled(month: int) -> Statement:
    return Statement(
        kind=DELETE,
        words=f"without the cancelled flights of month {month}",
        condition=f"month = {month} AND dep_time IS NULL",
    )


def _corrected(month: int) -> Statement:
    return Statement(
        kind=MERGE,
        words=f"corrected arrivals of AA and DL in month {month}, and a new carrier",
        condition=f"t.month = {month} AND t.dep_time IS NOT NULL",
        values={"arr_delay": "t.arr_delay + s.minutes"},
        month=month,
        source=(("AA", 2), ("DL", 3), (f"Z{month}", 5)),
    )


WAIT_SECONDS_MAX = 300
"""The wait for the next event of any writer; slow machines take a minute to start four sessions."""
STOP_SECONDS_MAX = 10
LOG_LINES = 15


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WriterCommit:
    """One commit of a writer, or a statement that had nothing to change. The fields are the keys of `--json`."""

    writer: str
    number: int
    """The month that it appended, or the number of its statement, from 0."""
    version: int | None
    """None where there was nothing to change."""
    read_version: int | None
    landed_after: tuple[int, ...]
    """Versions that other writers committed between the one read and this one."""
    how: tuple[str, ...]
    """How the commit was reconciled with them, in words."""
    seconds: float

    @classmethod
    def of(cls, writer: str, event: dict[str, Any]) -> WriterCommit:
        """The commit that the writer's event describes."""
        return cls(
            writer=writer,
            number=event["month"] if "month" in event else event["number"],
            version=event["version"],
            read_version=event["read_version"],
            landed_after=tuple(event["landed_after"]),
            how=tuple(event["how"]),
            seconds=event["seconds"],
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WriterConflict:
    """A commit that was refused because of a conflict."""

    writer: str
    error: str
    message: str


class Writers:
    """Processes that write to one table. Leaving the context ends them."""

    def __init__(self, table: Path, count: int, *, scratch: Path) -> None:
        self._scratch = scratch
        self._events: queue.Queue[tuple[str, dict[str, Any] | None]] = queue.Queue()
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._table = table
        self.names = [f"writer-{index}" for index in range(1, count + 1)]

    def __enter__(self) -> Self:
        for name in self.names:
            self._start(name)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            if process.poll() is None:
                process.terminate()
        for process in self._processes.values():
            try:
                process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def wait_until_ready(self) -> None:
        """Wait until every writer has its session. Raises `DemoFailedError`."""
        self._wait_for("ready", len(self.names))

    def append(self, shares: Sequence[Sequence[tuple[int, Path]]]) -> Iterator[WriterCommit]:
        """Let all writers append their months at once. Yields commits as they happen. Raises `DemoFailedError`."""
        for name, share in zip(self.names, shares, strict=True):
            self._send(name, {"do": "append", "months": [[month, str(file)] for month, file in share]})
        yield from self._commits(sum(len(share) for share in shares))

    def execute(self, statements: Sequence[Sequence[Statement]]) -> Iterator[WriterCommit]:
        """Let all writers execute their statements at once. Raises `DemoFailedError`."""
        for name, share in zip(self.names, statements, strict=True):
            self._send(name, {"do": "execute", "statements": [dataclasses.asdict(statement) for statement in share]})
        yield from self._commits(sum(len(share) for share in statements))

    def conflict(self, statement: Statement) -> Iterator[WriterCommit | WriterConflict]:
        """Let two writers prepare the same statement on the same version, and then commit it.

        Raises `DemoFailedError`.
        """
        rivals = self.names[:2]
        for name in rivals:
            self._send(name, {"do": "conflict", "statement": dataclasses.asdict(statement)})
        self._wait_for("prepared", len(rivals))
        for name in rivals:
            self._send(name, {})
        missing = len(rivals)
        while missing:
            name, event = self._next()
            if event is not None and event["event"] == "conflict":
                yield WriterConflict(writer=name, error=event["error"], message=event["message"])
            elif event is not None:
                missing -= 1
                yield WriterCommit.of(name, event)

    def _commits(self, missing: int) -> Iterator[WriterCommit]:
        while missing:
            name, event = self._next()
            if event is not None and event.get("event") == "committed":
                missing -= 1
                yield WriterCommit.of(name, event)

    def _wait_for(self, word: str, count: int) -> None:
        while count:
            _, event = self._next()
            count -= event is not None and event.get("event") == word

    def _send(self, name: str, order: dict[str, Any]) -> None:
        stdin = self._processes[name].stdin
        assert stdin is not None
        # `_next` reports a process that has ended.
        with contextlib.suppress(BrokenPipeError):
            stdin.write(json.dumps(order) + "\n")
            stdin.flush()

    def _start(self, name: str) -> None:
        with self._log(name).open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "anabranch.cli.demo.demo_worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # so that Ctrl-C reaches this process alone, which then ends the writers
            )
        self._processes[name] = process
        scratch = self._scratch / name
        scratch.mkdir()
        self._send(name, {"name": name, "table": str(self._table), "scratch": str(scratch)})
        threading.Thread(target=self._listen, args=(name, process), daemon=True).start()

    def _listen(self, name: str, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            with contextlib.suppress(ValueError):
                event = json.loads(line)
                if isinstance(event, dict):
                    self._events.put((name, event))
        self._events.put((name, None))

    def _next(self) -> tuple[str, dict[str, Any] | None]:
        """The next event and its writer; None instead of an event when a writer has ended without an error."""
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        try:
            name, event = self._events.get(timeout=deadline - time.monotonic())
        except queue.Empty:
            raise DemoFailedError(
                part="its writers", problem=f"none has reported anything for {WAIT_SECONDS_MAX} s"
            ) from None
        if event is None and self._processes[name].wait(STOP_SECONDS_MAX) != 0:
            raise DemoFailedError(part=name, problem=f"its process ended with an error.\n{self._last_words(name)}")
        return name, event

    def _log(self, name: str) -> Path:
        return self._scratch / f"{name}.stderr"

    def _last_words(self, name: str) -> str:
        lines = self._log(name).read_text(errors="replace").splitlines()
        return "\n".join(lines[-LOG_LINES:])
