"""The programs of this folder: statements and calls, written down as text.

A line `# title` begins a program. Each further line is one step: SQL, or Python after `>>> `. `{path}` is a folder of
the program's own, `{schema}` its schema. A step that fails does not end the program.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

FOLDER = Path(__file__).with_name("programs")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Program:
    """Steps on tables of their own."""

    number: int
    subject: str
    title: str
    steps: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.subject}: {self.title}"


def programs() -> tuple[Program, ...]:
    """All of them, in the order of files and lines."""
    parts: list[tuple[str, str, list[str]]] = []
    for file in sorted(FOLDER.glob("*.txt")):
        for line in file.read_text().splitlines():
            if line.startswith("# "):
                parts.append((file.stem, line.removeprefix("# "), []))
            elif line.strip():
                parts[-1][2].append(line)
    return tuple(
        Program(number=number, subject=subject, title=title, steps=tuple(steps))
        for number, (subject, title, steps) in enumerate(parts)
    )
