"""Writes down what the programs give with the delta-spark jar: `make record-statements`.

    python tests/differential/recording.py [SUBJECT ...]

A subject is a file of `programs`, or `sources`; without one all are played.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from differential.answers import FOLDER, as_file, as_text, file_of
from differential.programs import Program
from differential.sides import Side
from differential.sources import all_programs
from new_processes import OF_SPARK


def main() -> None:
    by_subject: dict[str, list[Program]] = {}
    for program in all_programs():
        by_subject.setdefault(program.subject, []).append(program)
    os.environ.update(OF_SPARK)
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        side = Side("jar", Path(folder, "jar"), os.environ["ANABRANCH_DELTA_PACKAGE"])
        versions = f"delta-spark {os.environ['JAR_VERSION']} on Spark {side.spark_version}"
        for subject in sys.argv[1:] or by_subject:
            parts = []
            for program in by_subject[subject]:
                side.begin(program)
                parts.append(as_text(program, side.end()))
                print(program, flush=True)
            file_of(subject).write_text(as_file(versions, parts), "utf-8")
        side.close()


if __name__ == "__main__":
    main()
