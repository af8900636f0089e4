"""Writes down what the programs give with the delta-spark jar: `make record-statements`.

    python tests/differential/recording.py [--missing] [SUBJECT ...]

A subject is a file of `programs`, or `sources`; without one all are played. A file is written after each program. With
`--missing` only those programs are played of which not every step is recorded: the others keep their answers, and a run that
was ended goes on.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from differential.answers import FOLDER, as_file, as_text, file_of, recorded
from differential.programs import Program
from differential.sides import Answers, Side
from differential.sources import all_programs
from new_processes import OF_SPARK

MISSING = "--missing"


def main() -> None:
    by_subject: dict[str, list[Program]] = {}
    for program in all_programs():
        by_subject.setdefault(program.subject, []).append(program)
    os.environ.update(OF_SPARK)
    FOLDER.mkdir(exist_ok=True)
    subjects = [argument for argument in sys.argv[1:] if argument != MISSING]
    with tempfile.TemporaryDirectory() as folder:
        side = Side("jar", Path(folder, "jar"), os.environ["ANABRANCH_DELTA_PACKAGE"])
        versions = f"delta-spark {os.environ['JAR_VERSION']} on Spark {side.spark_version}"
        for subject in subjects or by_subject:
            played = by_subject[subject]
            answers = _recorded(subject, played) if MISSING in sys.argv else {}
            for program in played:
                if program in answers:
                    continue
                side.begin(program)
                answers[program] = side.end()
                texts = [as_text(program, answers[program]) for program in played if program in answers]
                file_of(subject).write_text(as_file(versions, texts), "utf-8")
                print(program, flush=True)
        side.close()


def _recorded(subject: str, played: list[Program]) -> dict[Program, Answers]:
    """The answers of programs that are recorded with the steps that they have today."""
    steps = recorded(subject) if file_of(subject).exists() else {}
    return {
        program: [answer for _, answer in steps[str(program)]]
        for program in played
        if tuple(step for step, _ in steps.get(str(program), []))[: len(program.steps)] == program.steps
    }


if __name__ == "__main__":
    main()
