"""A soak: processes with Spark sessions of their own work on the same tables, are killed and started again, and are judged.

    python -m soak.soaking SECONDS [FOLDER] [SEED]

with `src` and `tests` on the path. Prints what it comes to, and ends with 1 where a judge found
something. The folder keeps the tables, the journals and what the processes said.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from soak.foreign import problems_of_foreign_readers
from soak.judge import Begun, TableJudge
from soak.statements import KINDS
from soak.writer import newest_version

WRITER = Path(__file__).with_name("writer.py")
STUCK_SECONDS = 240
LINT_SECONDS = 180
PROBLEMS_MAX = 200


@dataclasses.dataclass
class Process:
    """A writer, and how far its journal has been read."""

    name: str
    popen: subprocess.Popen[bytes]
    errors: Path
    journal: Path
    life_seconds: float
    """How long it may work before it is killed."""
    position: int = 0
    heard: float = dataclasses.field(default_factory=time.monotonic)
    at_work_since: float | None = None


class Soak:
    """The processes and their judges."""

    def __init__(self, folder: Path, *, writers: int, seed: int, life_seconds: tuple[float, float]) -> None:
        self.folder, self.chance, self.life_seconds = folder, random.Random(seed), life_seconds
        for name in ("tables", "journals", "scratch", "errors"):
            (folder / name).mkdir(parents=True)
        self.judges = {kind.name: TableJudge(folder / "tables" / kind.name, kind.name) for kind in KINDS}
        self.of_statement: dict[str, TableJudge] = {}
        self.started, self.kills, self.ended = 0, 0, 0
        self.problems: list[str] = []
        self.slowest: tuple[float, str] = (0, "")
        self.writers = [self._start() for _ in range(writers)]

    def _start(self) -> Process:
        self.started += 1
        name = f"w{self.started}"
        seed = self.chance.randrange(2**31)
        errors = self.folder / "errors" / f"{name}.log"
        with errors.open("wb") as output:
            popen = subprocess.Popen(
                [sys.executable, str(WRITER), str(self.folder), name, str(self.started), str(seed)],
                stdout=output,
                stderr=output,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                start_new_session=True,
            )
        journal = self.folder / "journals" / f"{name}.jsonl"
        return Process(name, popen, errors, journal, self.chance.uniform(*self.life_seconds))

    def run(self, seconds: float, *, statements: int = 0) -> list[str]:
        """What is wrong, in words. As long as it says from when the first process is at work, and until so many
        statements have ended.
        """
        end: float | None = None
        linted: float | None = None
        while end is None or time.monotonic() < end or self.ended < statements:
            if len(self.problems) >= PROBLEMS_MAX:
                break
            time.sleep(0.5)
            self.look()
            if end is None and self.ended:
                linted = time.monotonic()
                end = linted + seconds
            if linted is not None and time.monotonic() > linted + LINT_SECONDS:
                self.report(problem for judge in self.judges.values() for problem in judge.lint())
                print(self.summary(), flush=True)
                linted = time.monotonic()
            self.writers = [self._tended(process) for process in self.writers]
        (self.folder / "stop").touch()
        self._wait()
        self.look(final=True)
        for judge in self.judges.values():
            self.report(judge.lint())
            self.report(problems_of_foreign_readers(judge))
        return self.problems

    def report(self, problems: Any) -> None:
        for problem in problems:
            if problem not in self.problems:
                self.problems.append(problem)
                print(f"FOUND {time.strftime('%H:%M:%S')} {problem}", flush=True)

    def look(self, *, final: bool = False) -> None:
        """Hear the writers, follow the logs, judge."""
        # Versions first, then journals: whatever has landed was begun in a journal before.
        newest = {name: newest_version(judge.path) for name, judge in self.judges.items()}
        for process in self.writers:
            self._hear(process)
        for name, judge in self.judges.items():
            self.report(judge.follow(newest[name]))
            self.report(judge.judge_ended(final=final))

    def _hear(self, process: Process) -> None:
        if not process.journal.exists():
            return
        with process.journal.open("rb") as journal:
            journal.seek(process.position)
            unread = journal.read()
        whole = unread[: unread.rfind(b"\n") + 1]
        process.position += len(whole)
        for line in whole.splitlines():
            process.heard = time.monotonic()
            facts = json.loads(line)
            if process.at_work_since is None and facts.get("statement", {}).get("kind", "create") != "create":
                process.at_work_since = process.heard
            self._note(facts)

    def _note(self, facts: dict[str, Any]) -> None:
        if "begins" in facts:
            name = facts["begins"]
            judge = self.of_statement[name] = self.judges[facts["table"]]
            judge.begin(Begun(name=name, statement=facts["statement"], newest=facts["newest"]))
            return
        judge = self.of_statement[facts["ends"]]
        kind = judge.end(facts["ends"], facts)["kind"]
        self.ended += kind != "create"
        self.slowest = max(self.slowest, (facts["seconds"], f"{kind} {facts['ends']}"))

    def _tended(self, process: Process) -> Process:
        """The process, or the one that takes its place."""
        now = time.monotonic()
        if process.popen.poll() is not None:
            self.report([f"{process.name} ended by itself: {process.errors.read_text(errors='replace')[-3000:]}"])
            kill(process.popen)
        elif now > process.heard + STUCK_SECONDS:
            process.popen.send_signal(signal.SIGUSR1)
            time.sleep(1)
            self.report([f"{process.name} is stuck: {process.errors.read_text(errors='replace')[-3000:]}"])
            kill(process.popen)
        elif process.at_work_since is not None and now > process.at_work_since + process.life_seconds:
            kill(process.popen)
            self.kills += 1
        else:
            return process
        self._hear(process)
        return self._start()

    def _wait(self) -> None:
        """Let the writers come to their end."""
        for process in self.writers:
            try:
                process.popen.wait(STUCK_SECONDS)
            except subprocess.TimeoutExpired:
                self.report([f"{process.name} does not end"])
            if process.popen.poll() != 0:
                self.report([f"{process.name} failed: {process.errors.read_text(errors='replace')[-3000:]}"])
            kill(process.popen)

    def summary(self) -> str:
        lines = [
            f"{time.strftime('%H:%M:%S')}: {self.started} processes, {self.kills} killed, "
            f"{len(self.of_statement)} statements, {len(self.problems)} problems; slowest {self.slowest}"
        ]
        for name, judge in self.judges.items():
            ended = [begun for begun in judge.begun.values() if begun.ended is not None]
            refused = Counter(judge.refused)
            lines.append(
                f"  {name}: {len(judge.states)} versions, {len(ended)} ended, {refused.total()} refused; "
                f"{dict(judge.counts)}; {dict(refused.most_common())}"
            )
        return "\n".join(lines)


def kill(popen: subprocess.Popen[bytes]) -> None:
    """The process and its JVM, at once."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(popen.pid, signal.SIGKILL)
    popen.wait()


def main() -> None:
    seconds = float(sys.argv[1])
    folder = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(tempfile.mkdtemp(prefix="soak-"))
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.SystemRandom().randrange(2**31)
    print(f"seed {seed}, {folder}", flush=True)
    # Ended from outside, it ends its writers.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))
    soak = Soak(folder, writers=3, seed=seed, life_seconds=(40, 240))
    try:
        problems = soak.run(seconds)
    finally:
        for process in soak.writers:
            kill(process.popen)
    print(soak.summary())
    for judge in soak.judges.values():
        for refusal, example in sorted(judge.example.items()):
            print(f"{judge.kind}: {refusal}: {example[:400]}")
    print(f"{len(problems)} problems")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
