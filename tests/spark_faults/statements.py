"""Statements whose jobs fail, and what they make of the rows."""

from __future__ import annotations

import dataclasses
import re
import shutil
from pathlib import Path

from pyspark.sql import SparkSession

Rows = dict[int, int]
"""`n` by `id`."""
FILES, ROWS = 4, 1000
"""Of the table: so many files with so many rows each."""
BEFORE: Rows = {number: number for number in range(FILES * ROWS)}
REACHED = re.compile(r"reached\(([\w.]+)\)")
"""A condition on an id. It is true; what computing it does besides is the trial's."""
FIFTHS = {**BEFORE, **{number: -1 for number in BEFORE if number % 5 == 0}}
LATER = {number: number for number in range(4000, 8000)}
NEW_ROWS = "SELECT id, id AS n FROM range(4000, 8000, 1, 4) WHERE reached(id)"
SOURCE = "(SELECT id FROM range(3000, 5000, 1, 4)) s"
MERGED = {**BEFORE, **{number: -1 if number < 4000 else number for number in range(3000, 5000)}}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Statement:
    """One statement of SQL on the table at a path, or a stream into it."""

    text: str
    after: Rows
    before: Rows = dataclasses.field(default_factory=lambda: BEFORE)
    """Empty where the statement makes the table."""
    setup: str = ""
    """What is run on the table before; it changes no row."""
    of_parquet: bool = False

    @property
    def refused(self) -> Rows:
        """The rows of the table where the statement did not land; none where there is no table."""
        return {} if self.of_parquet else self.before

    @property
    def reaches(self) -> bool:
        """Whether its tasks compute `reached`."""
        return REACHED.search(self.text) is not None

    def with_condition(self, condition: str) -> Statement:
        """The statement with another condition in the place of `reached`, whose id is `\\1` there."""
        return dataclasses.replace(self, text=REACHED.sub(condition, self.text))

    def prepare(self, originals: Path, path: Path) -> None:
        """Put at `path` what is there before."""
        if self.before:
            shutil.copytree(originals / ("parquet" if self.of_parquet else self.setup or "table"), path)

    def clear(self, path: Path) -> None:
        """Remove the files that a statement of a killed process left where it was to make a table. VACUUM needs one."""
        if not self.before:
            shutil.rmtree(path, ignore_errors=True)

    def run(self, spark: SparkSession, path: Path) -> None:
        if self.text.startswith("stream "):
            self._stream(spark, path)
        else:
            spark.sql(self.text.format(table=f"delta.`{path}`", parquet=f"parquet.`{path}`"))

    def _stream(self, spark: SparkSession, path: Path) -> None:
        source = spark.readStream.schema("id LONG, n LONG").parquet(f"{path.parent}/originals/later")
        stream = source.where(self.text.removeprefix("stream ")).writeStream.format("delta")
        stream = stream.option("checkpointLocation", f"{path.parent}/checkpoints/{path.name}").trigger(
            availableNow=True
        )
        stream.start(str(path)).awaitTermination()


STATEMENTS = {
    "OPTIMIZE": Statement(text="OPTIMIZE {table}", after=BEFORE),
    "a stream's batch": Statement(text="stream reached(id)", after={**BEFORE, **LATER}),
    "CREATE TABLE AS SELECT": Statement(
        text=f"CREATE TABLE {{table}} USING delta AS {NEW_ROWS}", before={}, after=LATER
    ),
    "CONVERT": Statement(text="CONVERT TO DELTA {parquet}", after=BEFORE, of_parquet=True),
    "MERGE": Statement(
        text=f"MERGE INTO {{table}} t USING {SOURCE} ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = IF(reached(t.id), -1, 0) "
        "WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, s.id)",
        after=MERGED,
    ),
    "INSERT": Statement(text=f"INSERT INTO {{table}} {NEW_ROWS}", after={**BEFORE, **LATER}),
    "UPDATE": Statement(text="UPDATE {table} SET n = IF(reached(id), -1, 0) WHERE n % 5 = 0", after=FIFTHS),
    "DELETE": Statement(
        text="DELETE FROM {table} WHERE n % 5 = 0 AND reached(id)",
        after={number: n for number, n in BEFORE.items() if n % 5},
    ),
    "ADD CONSTRAINT": Statement(text="ALTER TABLE {table} ADD CONSTRAINT c CHECK (n < 10000)", after=BEFORE),
    "OPTIMIZE ZORDER": Statement(text="OPTIMIZE {table} ZORDER BY (n)", after=BEFORE),
    "REORG": Statement(text="REORG TABLE {table} APPLY (PURGE)", after=BEFORE, setup="hidden"),
    "MERGE of a query": Statement(
        text=f"MERGE INTO {{table}} t USING (SELECT id FROM {SOURCE} WHERE reached(id)) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET n = -1 WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, s.id)",
        after=MERGED,
    ),
    "INSERT REPLACE WHERE": Statement(
        text=f"INSERT INTO {{table}} REPLACE WHERE id >= 2000 {NEW_ROWS}",
        after={**{number: number for number in range(2000)}, **LATER},
    ),
    "VACUUM": Statement(text="VACUUM {table} RETAIN 0 HOURS", after=BEFORE, setup="hidden"),
}


def make_originals(spark: SparkSession, folder: Path) -> None:
    """What statements begin with, below a folder: a table, one with files that it does not need, Parquet files."""
    rows = spark.range(0, FILES * ROWS, 1, FILES).selectExpr("id", "id AS n")
    rows.write.parquet(f"{folder}/parquet")
    spark.range(4000, 8000, 1, 4).selectExpr("id", "id AS n").write.parquet(f"{folder}/later")
    for name in ("table", "hidden"):
        rows.write.format("delta").option("delta.enableChangeDataFeed", "true").option(
            "delta.enableDeletionVectors", "true"
        ).save(f"{folder}/{name}")
    # Files that are in no version any more, and rows that are hidden by vectors.
    hidden = f"delta.`{folder}/hidden`"
    spark.sql(f"INSERT INTO {hidden} SELECT id + 4000, n FROM {hidden}")
    spark.sql(f"DELETE FROM {hidden} WHERE id >= 4000")
    spark.sql(f"UPDATE {hidden} SET n = id WHERE id % 10 = 0")
