"""The first session on a machine, which writes to a table that others make as well: `first_start.py FOLDER NUMBER`."""

from __future__ import annotations

import sys
from pathlib import Path

import anabranch

ROWS_EACH = 10


def main(folder: Path, number: int) -> None:
    scratch = folder / f"scratch-{number}"
    scratch.mkdir()
    spark = anabranch.session(
        f"first-{number}",
        cores=1,
        spark__ui__enabled="false",
        spark__driver__host="127.0.0.1",
        spark__driver__bindAddress="127.0.0.1",
        spark__local__dir=str(scratch),
        spark__sql__warehouse__dir=str(scratch / "warehouse"),
    )
    table = f"delta.`{folder}/table`"
    spark.sql(f"CREATE TABLE IF NOT EXISTS {table} (id BIGINT, n BIGINT) USING delta")
    ids = f"range({number * ROWS_EACH}, {(number + 1) * ROWS_EACH})"
    spark.sql(f"INSERT INTO {table} SELECT id, 0 FROM {ids}")
    spark.sql(f"UPDATE {table} SET n = id WHERE id >= {number * ROWS_EACH} AND id < {(number + 1) * ROWS_EACH}")
    spark.stop()
    print("done")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
