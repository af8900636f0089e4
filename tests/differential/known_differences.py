"""What gives something else with anabranch than with the jar, each with the reason: `known_differences.txt`.

A line `# subject: title` begins a program, a line `! reason` the steps that follow it. What many steps have in common is
a name, which is listed here.
"""

from __future__ import annotations

from pathlib import Path

from differential.programs import Program

REASONS = {
    "SPARKS": "Spark's own analyzer answers here; the jar has a check and a condition of its own",
    "UNNAMED": "the jar's condition is of DESCRIBE HISTORY alone; here all statements say the same of what is no Delta table",
    "ONE_WORD": "the jar has a condition for each statement; here all say the same of what is no Delta table",
    "OWN": "ours tells the same refusal by another of Delta's conditions, which names the table, the column and the way out",
    "NO_SUGGESTION": "the jar's kind of DATATYPE_MISMATCH suggests a function that casts; ours names the column and both types",
    "JAR_FAILS": "the jar fails here, or breaks the table; ours does what the statement says, or refuses it before",
    "JARS_PARSER": "the jar's parser does not take the parameters of statements, from Spark 4.2 on",
    "NO_SUCH_TABLE": "ours says DELTA_MISSING_DELTA_TABLE of what is not there, too, as `DeltaTable.forName` does; the SQLSTATE is the same",
    "HIDDEN_METADATA": "ours tells of a column's metadata what users may see, the jar all of it",
    "TRUNCATED": "ours tells of TRUNCATE how many rows and bytes went, too",
    "WRITER_FLAGS": "the jar notes flags of Spark's writer, and partition columns that nobody gave",
}


Differences = dict[tuple[str, str], str]
"""Reasons by program, as `str` of it has it, and step."""


def expected_differences(program: Program) -> set[str]:
    """The steps of a program that are known to differ, with the Spark that the jar runs on."""
    return {step for title, step in EXPECTED if title == str(program)}


def expected_differences_with(spark: str, program: Program) -> set[str]:
    """The same with another Spark, such as `4.3.0`."""
    file = _FOLDER / f"known_differences_{spark[:3]}.txt"
    differs, agrees = _read(file) if file.exists() else ({}, {})
    of_program = [{step for title, step in listed if title == str(program)} for listed in (EXPECTED, differs, agrees)]
    return (of_program[0] | of_program[1]) - of_program[2]


def _read(file: Path) -> tuple[Differences, Differences]:
    """What differs, and under `!!` what does not."""
    listed: tuple[Differences, Differences] = ({}, {})
    program = reason = ""
    agrees = False
    for line in file.read_text().splitlines():
        if line.startswith("# "):
            program, reason = line.removeprefix("# "), ""
        elif line.startswith(("! ", "!! ")):
            agrees = line.startswith("!! ")
            text = line.removeprefix("!! ").removeprefix("! ")
            reason = REASONS.get(text, text)
        elif line.strip():
            assert reason, f"{program}: {line} has no reason"
            assert (program, line) not in listed[agrees], f"{program}: {line} is there twice"
            listed[agrees][program, line] = reason
    return listed


_FOLDER = Path(__file__).parent
EXPECTED, _ = _read(_FOLDER / "known_differences.txt")
"""With the Spark that the jar runs on."""
