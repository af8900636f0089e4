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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from anabranch.cli.demo.demo_statements import Statement
from anabranch.errors.arguments import DemoFailedError

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
