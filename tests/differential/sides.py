"""The two players, as the test talks to them, and what differs between their answers."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from differential.player import ANSWER
from differential.programs import Program

Answers = list[dict[str, Any]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Difference:
    """One step that gave two things."""

    program: Program
    step: str
    jar: dict[str, Any]
    ours: dict[str, Any]

    def __str__(self) -> str:
        jar, ours = _shown(self.jar), _shown(self.ours)
        # Long answers are shown from a little before where they part.
        alike = next((index for index, (one, other) in enumerate(zip(jar, ours, strict=False)) if one != other), 0)
        start = max(0, alike - 100)
        return f"{self.step}\n    jar:  {jar[start : start + 600]}\n    ours: {ours[start : start + 600]}"


class Side:
    """A player in a process of its own."""

    def __init__(self, side: str, folder: Path, *paths: str) -> None:
        folder.mkdir()
        self._log = folder / "stderr"
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("player.py")), side, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log.open("w"),
            text=True,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [*paths, *sys.path]))},
        )
        self.spark_version: str = self._answer()["ready"]

    def begin(self, program: Program) -> None:
        """Hand the program over; `end` waits for it."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(dataclasses.asdict(program)) + "\n")
        self._process.stdin.flush()

    def end(self) -> Answers:
        answers: Answers = self._answer()["answers"]
        return answers

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(ANSWER):
                answer: dict[str, Any] = json.loads(line.removeprefix(ANSWER))
                return answer
        raise AssertionError(f"the process ended: {self._log.read_text()[-4000:]}")


def differences(program: Program, jar: Answers, ours: Answers) -> list[Difference]:
    """Steps with other rows, another schema, another condition or another SQLSTATE; tables that end otherwise."""
    pairs = list(zip(program.steps, jar, ours, strict=False))
    count = len(program.steps) if len(jar) > 1 < len(ours) else 0
    ends = [{answer.get("step", "?"): answer for answer in answers[count:]} for answers in (jar, ours)]
    missing = {"error": "no such table"}
    pairs += [(step, ends[0].get(step, missing), ends[1].get(step, missing)) for step in sorted({*ends[0], *ends[1]})]
    return [
        Difference(program=program, step=step, jar=answer_of_jar, ours=answer)
        for step, answer_of_jar, answer in pairs
        if not _alike(answer_of_jar, answer)
    ]


def surprises(program: Program, jar: Answers, ours: Answers, expected: Collection[str]) -> str:
    """What differs and is not expected to, and what is expected to differ and does not; empty if there is nothing."""
    actual = differences(program, jar, ours)
    unlisted = [str(difference) for difference in actual if difference.step not in expected]
    gone = [f"no longer differs: {step}" for step in sorted(set(expected) - {difference.step for difference in actual})]
    return "\n".join(("", *unlisted, *gone)) if unlisted or gone else ""


def _alike(jar: dict[str, Any], ours: dict[str, Any]) -> bool:
    if "error" not in jar or "error" not in ours:
        return _rows(jar) == _rows(ours)
    if jar["state"] is None and not jar["error"].startswith("DELTA_"):
        # An error without SQLSTATE has no name either, only a text. Ours has both.
        return True
    # One side may name the kind of a condition and the other not, and it differs by release.
    parts = [answer["error"].split(".") for answer in (jar, ours)]
    length = min(map(len, parts))
    return parts[0][:length] == parts[1][:length] and jar["state"] in {None, ours["state"]}


def _rows(answer: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in answer.items() if key in {"schema", "rows", "error"}}


def _shown(answer: dict[str, Any]) -> str:
    if "error" in answer:
        return f"{answer['error']} ({answer.get('state')}, {answer.get('kind')}): {answer.get('text', '')[:300]!r}"
    return json.dumps({key: value for key, value in answer.items() if key != "step"})
