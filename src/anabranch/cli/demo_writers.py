"""The writers of the demo: started together, told what to do, listened to."""

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

from anabranch.cli.demo_statements import Statement
from anabranch.errors.cli import DemoFailedError

WAIT_SECONDS_MAX = 300
"""For the next thing that any writer says; slow machines take a minute to start four sessions."""
STOP_SECONDS_MAX = 10
LOG_LINES = 15


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """One commit of a writer, or a statement of his that had nothing to change."""

    writer: str
    number: int
    """The month that he appended, or which of his statements it was, from 0."""
    version: int | None
    """None where there was nothing to change."""
    read_version: int | None
    landed_after: tuple[int, ...]
    """Versions of others that came first, between the one read and this one."""
    how: tuple[str, ...]
    """What it took to fit it behind them, in words."""
    seconds: float

    @classmethod
    def of(cls, writer: str, event: dict[str, Any]) -> Landing:
        """From what the writer said."""
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
class Loss:
    """A true conflict: a commit that could not stand."""

    writer: str
    error: str
    message: str


class Writers:
    """Processes that write to one table. Leaving the context ends those that still run."""

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
        """Until each has its session. Raises `DemoFailedError`."""
        self._wait_for("ready", len(self.names))

    def append(self, shares: Sequence[Sequence[tuple[int, Path]]]) -> Iterator[Landing]:
        """Let all begin at once to append their months; what they land, as it happens. Raises `DemoFailedError`."""
        for name, share in zip(self.names, shares, strict=True):
            self._tell(name, {"do": "append", "months": [[month, str(file)] for month, file in share]})
        yield from self._landings(sum(len(share) for share in shares))

    def race(self, statements: Sequence[Sequence[Statement]]) -> Iterator[Landing]:
        """Let all begin at once to execute their statements. Raises `DemoFailedError`."""
        for name, share in zip(self.names, statements, strict=True):
            self._tell(name, {"do": "race", "statements": [dataclasses.asdict(each) for each in share]})
        yield from self._landings(sum(len(share) for share in statements))

    def clash(self, statement: Statement) -> Iterator[Landing | Loss]:
        """Let two prepare the same statement on the same version, and then commit it. Raises `DemoFailedError`."""
        rivals = self.names[:2]
        for name in rivals:
            self._tell(name, {"do": "clash", "statement": dataclasses.asdict(statement)})
        self._wait_for("prepared", len(rivals))
        for name in rivals:
            self._tell(name, {})
        missing = len(rivals)
        while missing:
            name, event = self._next()
            if event is not None and event["event"] == "lost":
                yield Loss(writer=name, error=event["error"], message=event["message"])
            elif event is not None:
                missing -= 1
                yield Landing.of(name, event)

    def _landings(self, missing: int) -> Iterator[Landing]:
        while missing:
            name, event = self._next()
            if event is not None and event.get("event") == "landed":
                missing -= 1
                yield Landing.of(name, event)

    def _wait_for(self, word: str, count: int) -> None:
        while count:
            _, event = self._next()
            count -= event is not None and event.get("event") == word

    def _tell(self, name: str, order: dict[str, Any]) -> None:
        stdin = self._processes[name].stdin
        assert stdin is not None
        # One that has ended says so in `_next`.
        with contextlib.suppress(BrokenPipeError):
            stdin.write(json.dumps(order) + "\n")
            stdin.flush()

    def _start(self, name: str) -> None:
        with self._log(name).open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "anabranch.cli.demo_worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # Ctrl-C is for us; we end them in order.
            )
        self._processes[name] = process
        scratch = self._scratch / name
        scratch.mkdir()
        self._tell(name, {"name": name, "table": str(self._table), "scratch": str(scratch)})
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
        """The next thing a writer says; None for one that has ended well."""
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        try:
            name, event = self._events.get(timeout=deadline - time.monotonic())
        except queue.Empty:
            raise DemoFailedError(
                part="its writers", problem=f"none has said a word for {WAIT_SECONDS_MAX} s"
            ) from None
        if event is None and self._processes[name].wait(STOP_SECONDS_MAX) != 0:
            raise DemoFailedError(part=name, problem=f"its process ended with an error.\n{self._last_words(name)}")
        return name, event

    def _log(self, name: str) -> Path:
        return self._scratch / f"{name}.stderr"

    def _last_words(self, name: str) -> str:
        lines = self._log(name).read_text(errors="replace").splitlines()
        return "\n".join(lines[-LOG_LINES:])
