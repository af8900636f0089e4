"""Statements of Spark's and Delta's SQL, writers and API: the rows, schemas and errors that are recorded of the jar.

`make record-statements` records them, a file of programs at a time. What differs is in `known_differences.txt`, and what
another Spark than that of the recording gives in a file such as `known_differences_4.3.txt`, with the reasons. Covers bugs B3, B4, B5, B8,
B17, B35, B39, B46, B100, B102, B104, B108 and B110.
"""

from __future__ import annotations

import dataclasses
import os
import warnings
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from differential.answers import recorded, recorded_subjects
from differential.known_differences import expected_differences_with
from differential.player import play
from differential.programs import Program
from differential.sides import surprises
from differential.sources import all_programs
from turns import turn

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(pyspark.__version__ < "4.2", reason="the jar's Spark was 4.2, whose conditions older ones lack"),
]


IN_EVERY_RUN = {"api", "changes"}
"""Files of programs of which `make test` plays each one; `make test-long` plays the others."""
IN_PARTS = "sources"
"""Its programs are alike: a seventh of them is played in each turn. `ANABRANCH_SOURCES=all` is for all of them."""


def _is_long(program: Program) -> bool:
    return program.subject not in IN_EVERY_RUN


def _is_of_this_run(program: Program) -> bool:
    everything = program.subject != IN_PARTS or os.environ.get("ANABRANCH_SOURCES") == "all"
    return everything or program.number % 7 == turn() % 7


RECORDED = {subject: recorded(subject) for subject in recorded_subjects()}
PROGRAMS = [
    pytest.param(program, marks=[pytest.mark.long] if _is_long(program) else [], id=str(program))
    for program in all_programs()
    if str(program) in RECORDED.get(program.subject, {}) and _is_of_this_run(program)
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_gives_what_is_recorded(native: SparkSession, active: None, tmp_path: Path, program: Program) -> None:
    answers = [answer for _, answer in RECORDED[program.subject][str(program)]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a program is played as users run it
        ours = play(native, "anabranch", tmp_path, dataclasses.asdict(program))
    unexpected = surprises(program, answers, ours, expected_differences_with(native.version, program))
    assert not unexpected, unexpected
