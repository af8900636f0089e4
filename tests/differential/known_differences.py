"""What gives something else with anabranch than with the jar, each with the reason: `known_differences.txt`.

A line `# subject: title` begins a program, a line `! reason` the steps that follow it. What many steps have in common is
a name, which is listed here.
"""

from __future__ import annotations

from pathlib import Path

REASONS = {
    "SPARKS": "Spark's own analyzer answers here; the jar has a check and a condition of its own",
    "UNNAMED": "the jar's condition is of DESCRIBE HISTORY alone; here all statements say the same of what is no Delta table",
    "ONE_WORD": "the jar has a condition for each statement; here all say the same of what is no Delta table",
    "OWN": "ours tells the same refusal by another of Delta's conditions, which names the table, the column and the way out",
    "JAR_FAILS": "the jar fails here, or breaks the table; ours does what the statement says, or refuses it before",
    "JARS_PARSER": "the jar's parser does not take the parameters of statements, from Spark 4.2 on",
    "NO_SUCH_TABLE": "ours says DELTA_MISSING_DELTA_TABLE of what is not there, too, as `DeltaTable.forName` does; the SQLSTATE is the same",
    "HIDDEN_METADATA": "ours tells of a column's metadata what users may see, the jar all of it",
    "TRUNCATED": "ours tells of TRUNCATE how many rows and bytes went, too",
    "WRITER_FLAGS": "the jar notes flags of Spark's writer, and partition columns that nobody gave",
}


def _known() -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    program = reason = ""
    for line in Path(__file__).with_suffix(".txt").read_text().splitlines():
        if line.startswith("# "):
            program, reason = line.removeprefix("# "), ""
        elif line.startswith("! "):
            told = line.removeprefix("! ")
            reason = REASONS.get(told, told)
        elif line.strip():
            assert reason, f"{program}: {line} has no reason"
            assert (program, line) not in found, f"{program}: {line} stands there twice"
            found[program, line] = reason
    return found


KNOWN = _known()
"""By program, as `str` of it has it, and step."""
