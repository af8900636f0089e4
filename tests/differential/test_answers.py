"""The text of recorded answers says all that is compared, and there is an answer for each step."""

from __future__ import annotations

import pytest

from differential.answers import Answer, as_file, as_text, parsed, recorded, recorded_subjects
from differential.programs import Program
from differential.sides import differences
from differential.sources import all_programs

STEPS = (
    "CREATE TABLE t (a STRING) USING delta",
    "SELECT * FROM t",
    "DELETE FROM u",
    ">>> 1",
    ">>> None",
    ">>> [[1]]",
    "SELECT",
)
ANSWERS: list[Answer] = [
    {"schema": "struct<>", "rows": []},
    {"schema": "struct<a:string,b:int>", "rows": [["one\nline", 1], ["! é\u2028", None]]},
    {"error": "TABLE_OR_VIEW_NOT_FOUND", "state": "42P01", "kind": "AnalysisException", "text": "a text"},
    {"rows": [1, "x"]},
    {"rows": None},
    {"rows": [[1, "x"], [2]]},
    {"error": "ParseException", "state": None, "kind": "ParseException", "text": "a text"},
    {"step": "at the end: SELECT * FROM t", "schema": "struct<a:string>", "rows": []},
]
PROGRAM = Program(number=0, subject="rows", title="some", steps=STEPS)


def test_answers_are_read_as_they_were_written() -> None:
    ((program, steps),) = parsed("A header.\n\n" + as_text(PROGRAM, ANSWERS)).items()
    assert program == "rows: some"
    assert [step for step, _ in steps] == [*STEPS, "at the end: SELECT * FROM t"]
    read = [answer for _, answer in steps]
    assert differences(PROGRAM, read, ANSWERS) == []


def test_metrics_that_are_the_same_stand_in_a_file_once() -> None:
    one = [[0, "MERGE", ["mode", '["a"]'], ["one", "two"]], [1, "MERGE", ["one", "three"]], [2, "WRITE", []]]
    two = [[7, "MERGE", ["one", "two"]], [8, "DROP FEATURE", ["k", "v"], ["one"]]]
    program = Program(number=0, subject="rows", title="histories", steps=(">>> one", ">>> two"))
    answers: list[Answer] = [{"rows": one}, {"rows": two}]
    text = as_file("a jar", [as_text(PROGRAM, ANSWERS), as_text(program, answers)])
    assert text.count('"two"') == 1
    assert parsed(text)["rows: histories"] == [
        (step, {"step": step, **answer}) for step, answer in zip(program.steps, answers, strict=True)
    ]


@pytest.mark.parametrize("number", range(len(ANSWERS)))
def test_another_answer_differs(number: int) -> None:
    ((_, steps),) = parsed(as_text(PROGRAM, ANSWERS)).items()
    others = [
        {**answer, "schema": "struct<z:int>", "rows": [7], "error": "OTHER", "state": "00000"} for answer in ANSWERS
    ]
    ours = [*ANSWERS[:number], others[number], *ANSWERS[number + 1 :]]
    differing = differences(PROGRAM, [answer for _, answer in steps], ours)
    # An error of the jar without SQLSTATE has no condition to compare.
    assert len(differing) == (0 if ANSWERS[number].get("state", "") is None else 1)


@pytest.mark.parametrize("subject", sorted(recorded_subjects()))
def test_every_step_of_a_file_is_recorded(subject: str) -> None:
    played = {str(program): program.steps for program in all_programs() if program.subject == subject}
    of_file = {program: tuple(step for step, _ in steps) for program, steps in recorded(subject).items()}
    again = f"record it: make record-statements SUBJECTS={subject}, or only the new: SUBJECTS='--missing {subject}'"
    assert sorted(of_file) == sorted(played), again
    for program, steps in played.items():
        assert of_file[program][: len(steps)] == steps, again
        assert all(step.startswith("at the end: ") for step in of_file[program][len(steps) :]), again
