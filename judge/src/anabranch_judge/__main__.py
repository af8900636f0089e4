"""`python -m anabranch_judge TABLE HISTORY…`: judge what writers recorded of a table.

It exits with 0 if the history is right and satisfies the level of `--level`, with 1 if not, and with 2 if it cannot be
judged.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path

from anabranch_judge.errors import JudgeError
from anabranch_judge.isolation import LEVELS
from anabranch_judge.judgement import Judgement, judge
from anabranch_judge.recorded_history import read_history
from anabranch_judge.table_log import TableLog


def main(arguments: list[str] | None = None) -> int:
    """Judge, print the judgement, and return the exit code."""
    parser = argparse.ArgumentParser(prog="anabranch_judge", description=__doc__.splitlines()[0])
    parser.add_argument("table", help="a path, or a URL that pyarrow can open")
    parser.add_argument("histories", nargs="+", type=Path, metavar="HISTORY", help="files of JSON lines")
    parser.add_argument("--key", required=True, help="the columns that identify a row, with commas between")
    parser.add_argument("--first", type=int, help="the last version before the history")
    parser.add_argument("--level", choices=LEVELS, help="the level that the history must satisfy")
    parser.add_argument("--json", action="store_true", help="print the judgement as JSON")
    options = parser.parse_args(arguments)
    try:
        history = read_history(options.histories)
        judgement = judge(TableLog(options.table), history, key=options.key.split(","), first=options.first)
    except JudgeError as error:
        print(f"cannot be judged: {error}", file=sys.stderr)
        return 2
    print(json.dumps(dataclasses.asdict(judgement), indent=1) if options.json else text_of_judgement(judgement))
    demanded = options.level is not None and judgement.witnesses[options.level] is not None
    return 1 if judgement.faults or demanded else 0


def text_of_judgement(judgement: Judgement) -> str:
    """A judgement for people."""
    counts = ", ".join(f"{count} {outcome}" for outcome, count in judgement.outcomes.items())
    lines = [f"Versions {judgement.first + 1} to {judgement.last}; statements: {counts}."]
    lines += [f"FAULT, {fault.kind}: {fault.text}" for fault in judgement.faults]
    lines += [] if judgement.faults else ["No fault."]
    for level, witness in judgement.witnesses.items():
        lines.append(f"{level}: " + ("yes" if witness is None else f"no: {witness}"))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
