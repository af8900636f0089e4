"""Write the classes that Spark loads into an archive of the JVM, which halves the start of each Spark of the tests.

The archive (class-data sharing) lies in the environment and fits the jars there and the Java that wrote it alone; a JVM
that finds it unfit goes on without it. `new_processes` names it to Spark.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

import anabranch
from new_processes import ARCHIVE, FIRST_COMPILER

OPTIONS = f"{FIRST_COMPILER} -Xlog:disable -XX:ArchiveClassesAtExit={ARCHIVE}"
STATEMENTS = (
    "CREATE TABLE t (id BIGINT, name STRING, part INT) USING delta PARTITIONED BY (part)",
    "INSERT INTO t SELECT id, 'n' || id, CAST(id % 3 AS INT) FROM range(100)",
    "UPDATE t SET name = upper(name) WHERE id % 7 = 0",
    "DELETE FROM t WHERE id IN (SELECT id FROM t WHERE name LIKE 'n1%')",
    """MERGE INTO t USING (SELECT id + 50 AS id FROM range(60)) s ON t.id = s.id
       WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, name, part) VALUES (s.id, 'm', 0)""",
    "SELECT part, count(*), max(name) FROM t GROUP BY part ORDER BY part",
    "OPTIMIZE t",
    "DESCRIBE HISTORY t",
)


def load(folder: str) -> None:
    """Run what most tests run."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = anabranch.enable(builder.config("spark.sql.warehouse.dir", folder).getOrCreate())
    for statement in STATEMENTS:
        spark.sql(statement).collect()
    spark.stop()


def write() -> None:
    """Write the archive, or say why there is none: the tests go on without it."""
    ARCHIVE.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        # The JVM writes the archive when the program has ended, and holds the pipe until then.
        done = subprocess.run(
            [sys.executable, str(Path(__file__).resolve()), folder],
            env={**os.environ, "SPARK_SUBMIT_OPTS": OPTIONS, "PYSPARK_PYTHON": sys.executable},
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    if not ARCHIVE.exists():
        print(f"No archive of Spark's classes was written: tests take longer.\n{done.stdout}")


if __name__ == "__main__":
    load(sys.argv[1]) if sys.argv[1:] else write()
