"""What the programs gave with the jar, as text: `answers/*.txt`, a file for each of `programs`.

A line `# subject: title` begins a program. Each line without indentation is a step, and the indented lines after it are
what it gave:

    struct<…>           the schema of rows
    [1, "a"]            a row
    = 1                 a value of Python
    - [1, "a"]          an item of such a value that is a list of lists
    ! CONDITION STATE   an error; `-` is no SQLSTATE

Statements without rows, and Python without a value, have no such lines. What tables held in the end follows the steps.

Names of metrics, which are many and the same in most histories, stand before the programs: `@DELETE ["executionTimeMs", …]`
is what `@DELETE` means at the end of an item.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from differential.player import PYTHON
from differential.programs import Program

FOLDER = Path(__file__).with_name("answers")
_INDENT = "    "
_NO_COLUMNS = "struct<>"
_METRICS = re.compile(r'^( *- \[\d+, "([A-Z ]+)", .*)(\["\w+"(?:, "\w+")+\])\]$', re.MULTILINE)
_NAMED_METRICS = re.compile(r"^( *- .*, )@(\w+)\]$", re.MULTILINE)
_NAME_OF_METRICS = re.compile(r"^@(\w+) (.*)$", re.MULTILINE)

Answer = dict[str, Any]
Recorded = list[tuple[str, Answer]]
"""Steps with their answers."""


def as_file(versions: str, programs: list[str]) -> str:
    """The text of a file, of what `as_text` made of its programs."""
    names: dict[str, str] = {}
    taken: dict[str, int] = {}

    def named(line: re.Match[str]) -> str:
        before, operation, metrics = line.groups()
        if metrics not in names:
            name = operation.replace(" ", "_")
            taken[name] = taken.get(name, 0) + 1
            names[metrics] = name if taken[name] == 1 else f"{name}_{taken[name]}"
        return f"{before}@{names[metrics]}]"

    text = "\n".join(_METRICS.sub(named, program) for program in programs)
    defined = "".join(f"@{name} {metrics}\n" for metrics, name in names.items())
    return f"Recorded by `make record-statements` with {versions}.\n\n{defined}\n{text}"


def as_text(program: Program, answers: list[Answer]) -> str:
    """The part of a file that is about one program."""
    ends = [answer["step"] for answer in answers[len(program.steps) :]]
    lines = [f"# {program}"]
    for step, answer in zip((*program.steps, *ends), answers, strict=True):
        lines += [step, *(_INDENT + line for line in _lines(step, answer))]
    return "\n".join(lines) + "\n"


def recorded(subject: str) -> dict[str, Recorded]:
    """What is recorded of a file of programs, by program as `str` of it has it."""
    return parsed(file_of(subject).read_text("utf-8"))


def parsed(text: str) -> dict[str, Recorded]:
    """The programs of a file's text."""
    metrics = dict(_NAME_OF_METRICS.findall(text))
    text = _NAMED_METRICS.sub(lambda line: f"{line[1]}{metrics[line[2]]}]", text)
    lines_of_steps: dict[str, list[tuple[str, list[str]]]] = {}
    program = ""
    # Not `splitlines`: texts in JSON may hold other ends of lines.
    for line in text.split("\n"):
        if line.startswith("# "):
            program = line.removeprefix("# ")
            lines_of_steps[program] = []
        elif line.startswith(_INDENT):
            lines_of_steps[program][-1][1].append(line.removeprefix(_INDENT))
        elif program and line:
            lines_of_steps[program].append((line, []))
    return {
        program: [(step, {"step": step, **_answer(step, lines)}) for step, lines in steps]
        for program, steps in lines_of_steps.items()
    }


def recorded_subjects() -> set[str]:
    """The files of programs with answers. `make test-statements` alone plays the others."""
    return {file.stem for file in FOLDER.glob("*.txt")}


def file_of(subject: str) -> Path:
    return FOLDER / f"{subject}.txt"


def _lines(step: str, answer: Answer) -> list[str]:
    if "error" in answer:
        return [f"! {answer['error']} {answer['state'] or '-'}"]
    if "schema" not in answer:
        return _lines_of_value(answer["rows"])
    if answer["schema"] == _NO_COLUMNS and not answer["rows"] and not step.startswith(PYTHON):
        return []
    return [answer["schema"], *map(_json, answer["rows"])]


def _lines_of_value(value: Any) -> list[str]:
    if isinstance(value, list) and value and all(isinstance(item, list) for item in value):
        return [f"- {_json(item)}" for item in value]
    return [] if value is None else [f"= {_json(value)}"]


def _answer(step: str, lines: list[str]) -> Answer:
    if not lines:
        return {"rows": None} if step.startswith(PYTHON) else {"schema": _NO_COLUMNS, "rows": []}
    first, rest = lines[0], lines[1:]
    if first.startswith("! "):
        _, condition, state = first.split(" ")
        return {"error": condition, "state": None if state == "-" else state}
    if first.startswith("= "):
        return {"rows": json.loads(first.removeprefix("= "))}
    if first.startswith("- "):
        return {"rows": [json.loads(line.removeprefix("- ")) for line in lines]}
    return {"schema": first, "rows": [json.loads(row) for row in rest]}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
