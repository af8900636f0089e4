"""A writer that changes rows: a process with a Spark session of its own, run as `python changer.py SCRATCH`.

Reads tasks from standard input, one JSON object a line, and answers each with one on standard output: how often it
succeeded and which conflicts it met.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from anabranch.cli.demo.demo_flights import small_session
from anabranch.exceptions import DeltaConcurrentModificationException
from anabranch.table_transactions import TableTransaction, transact
from anabranch.tables import DeltaTable

Work = Callable[[SparkSession, DeltaTable, random.Random, int, int], None]


def shift_own_rows(_: SparkSession, table: DeltaTable, chance: random.Random, writer: int, number: int) -> None:
    """Move an amount from one row of the writer's own to another: the sum stays."""
    first, second = chance.sample(range(writer * 100, writer * 100 + 100), 2)
    moved = f"CASE id WHEN {first} THEN n - {number + 1} ELSE n + {number + 1} END"
    table.update(f"id IN ({first}, {second})", {"n": moved})


def transfer(_: SparkSession, table: DeltaTable, chance: random.Random, writer: int, number: int) -> None:
    """Move an amount between any two accounts."""
    first, second = chance.sample(range(10), 2)
    amount = chance.randrange(1, 20)
    table.update(f"id IN ({first}, {second})", {"n": f"CASE id WHEN {first} THEN n - {amount} ELSE n + {amount} END"})


def count_up(_: SparkSession, table: DeltaTable, chance: random.Random, writer: int, number: int) -> None:
    """Add one to a counter that others count on too."""
    table.update(f"id = {chance.randrange(3)}", {"n": "n + 1"})


def upsert(spark: SparkSession, table: DeltaTable, chance: random.Random, writer: int, number: int) -> None:
    """Insert keys that are not there, add to those that are."""
    keys = chance.sample(range(12), 3)
    source = spark.createDataFrame([(key, 1) for key in keys], "id long, n long")
    merge = table.alias("t").merge(source.alias("s"), "t.id = s.id")
    merge.whenMatchedUpdate(set={"n": "t.n + s.n"}).whenNotMatchedInsertAll().execute()


def number_rows(spark: SparkSession, table: DeltaTable, chance: random.Random, writer: int, number: int) -> None:
    """Append rows whose ids the table generates, by INSERT or by MERGE; `n` says by whom, and the how-manieth they are."""
    rows = f"SELECT id + {writer * 1000 + number * 10} AS n FROM range(3)"
    if chance.random() < 0.7:
        spark.sql(f"INSERT INTO {_name(table)} (n) {rows}")
    else:
        merge = (
            f"MERGE INTO {_name(table)} t USING ({rows}) s ON t.n = s.n WHEN NOT MATCHED THEN INSERT (n) VALUES (s.n)"
        )
        spark.sql(merge)


def transfer_by_queries(
    spark: SparkSession, table: DeltaTable, chance: random.Random, writer: int, number: int
) -> None:
    """Move an amount between two accounts, by two statements with amounts that queries have read."""
    first, second = chance.sample(range(10), 2)
    amount, name = chance.randrange(1, 20), _name(table)

    def work(_: TableTransaction) -> None:
        for account, moved in ((first, -amount), (second, amount)):
            before = spark.sql(f"SELECT n FROM {name} WHERE id = {account}").collect()[0].n
            spark.sql(f"UPDATE {name} SET n = {before + moved} WHERE id = {account}")

    _in_transaction(spark, table, work)


def withdraw(spark: SparkSession, table: DeltaTable, chance: random.Random, writer: int, number: int) -> None:
    """Take from one of two accounts as long as both together have enough, which each withdrawal reads."""
    pair, name = 2 * chance.randrange(3), _name(table)

    def work(_: TableTransaction) -> None:
        total = spark.sql(f"SELECT sum(n) AS total FROM {name} WHERE id IN ({pair}, {pair + 1})").collect()[0].total
        if total >= 40:
            spark.sql(f"UPDATE {name} SET n = n - 40 WHERE id = {pair + chance.randrange(2)}")

    _in_transaction(spark, table, work)


def close_and_open(spark: SparkSession, table: DeltaTable, chance: random.Random, writer: int, number: int) -> None:
    """Close the open version of one of the writer's own keys, and open the next: `n` is its number, or minus that."""
    key, name = writer * 100 + chance.randrange(5), _name(table)

    def work(_: TableTransaction) -> None:
        newest = spark.sql(f"SELECT max(abs(n)) AS newest FROM {name} WHERE id = {key}").collect()[0].newest
        spark.sql(f"UPDATE {name} SET n = -n WHERE id = {key} AND n > 0")
        spark.sql(f"INSERT INTO {name} VALUES ({key}, {newest + 1})")

    _in_transaction(spark, table, work)


def _in_transaction(spark: SparkSession, table: DeltaTable, work: Callable[[TableTransaction], None]) -> None:
    retries = int(str(spark.conf.get("spark.anabranch.conflictRetries")))
    transact(spark, table.detail().collect()[0].location.removeprefix("file:"), work, conflict_retries=retries)


def _name(table: DeltaTable) -> str:
    return f"delta.`{table.detail().collect()[0].location.removeprefix('file:')}`"


STATEMENTS = (shift_own_rows, transfer, count_up, upsert, number_rows)
TRANSACTIONS = (transfer_by_queries, withdraw, close_and_open)
WORK: dict[str, Work] = {work.__name__: work for work in (*STATEMENTS, *TRANSACTIONS)}


def main() -> None:
    """Changes rows until standard input ends."""
    scratch = Path(sys.argv[1])
    spark = small_session(scratch.name, scratch=scratch, cores=1)
    _say(ready=True)
    for line in sys.stdin:
        _say(**_perform(spark, json.loads(line)))
    spark.stop()


def _perform(spark: SparkSession, task: dict[str, Any]) -> dict[str, Any]:
    table = DeltaTable.forPath(spark, task["table"])
    chance = random.Random(task["seed"])
    spark.conf.set("spark.anabranch.conflictRetries", task["retries"])
    successes, conflicts = 0, []
    for number in range(task["count"]):
        try:
            WORK[task["work"]](spark, table, chance, task["writer"], number)
            successes += 1
        except DeltaConcurrentModificationException as conflict:
            conflicts.append(str(conflict))
    return {"successes": successes, "conflicts": conflicts}


def _say(**facts: Any) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
