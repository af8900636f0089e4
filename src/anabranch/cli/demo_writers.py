"""The writers of the demo: started together, set off at once, followed to their end."""

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

from anabranch.errors.cli import DemoFailedError

WAIT_SECONDS_MAX = 300
"""For the next thing that any writer says; slow machines take a minute to start four sessions."""
STOP_SECONDS_MAX = 10
LOG_LINES = 15


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """One append that is in the table."""

    writer: str
    month: int
    version: int
    read_version: int | None
    landed_after: tuple[int, ...]
    """Versions of others that came first, between the one read and this one."""
    seconds: float


class Writers:
    """Processes that append months to one table. Leaving the context ends those that still run."""

    def __init__(self, table: Path, shares: Sequence[Sequence[tuple[int, Path]]], *, scratch: Path) -> None:
        self._scratch = scratch
        self._events: queue.Queue[tuple[str, dict[str, Any] | None]] = queue.Queue()
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._table = table
        self._shares = {f"writer-{index}": share for index, share in enumerate(shares, start=1)}

    def __enter__(self) -> Self:
        for name, share in self._shares.items():
            self._start(name, share)
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
        waiting = set(self._shares)
        while waiting:
            name, event = self._next()
            if event is not None and event.get("event") == "ready":
                waiting.discard(name)

    def set_off(self) -> Iterator[Landing]:
        """Let all begin at once; what they land, as it happens. Raises `DemoFailedError`."""
        for process in self._processes.values():
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write("go\n")
                process.stdin.flush()
        missing = sum(len(share) for share in self._shares.values())
        while missing:
            name, event = self._next()
            if event is not None and event.get("event") == "landed":
                missing -= 1
                yield Landing(
                    writer=name,
                    month=event["month"],
                    version=event["version"],
                    read_version=event["read_version"],
                    landed_after=tuple(event["landed_after"]),
                    seconds=event["seconds"],
                )

    def _start(self, name: str, share: Sequence[tuple[int, Path]]) -> None:
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
        task = {
            "name": name,
            "table": str(self._table),
            "scratch": str(scratch),
            "months": [[month, str(file)] for month, file in share],
        }
        assert process.stdin is not None
        process.stdin.write(json.dumps(task) + "\n")
        process.stdin.flush()
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
