"""A client in a process of its own, so that it can be killed in a transaction.

    python transaction_client.py connect|jdbc PORT TABLE

Prints `begun` when it has a transaction that has changed the table, and stays.
"""

from __future__ import annotations

import sys
import time

STAY_SECONDS = 600


def main() -> None:
    protocol, port, table = sys.argv[1:]
    if protocol == "connect":
        from pyspark.sql.connect.session import SparkSession

        run = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").create().sql
    else:
        from pyhive import hive

        run = hive.connect(host="127.0.0.1", port=int(port)).cursor().execute
    for statement in (
        "BEGIN TRANSACTION",
        f"DELETE FROM {table} WHERE id = 1",
        f"INSERT INTO {table} VALUES (100)",
    ):
        run(statement)
    print("begun", flush=True)
    time.sleep(STAY_SECONDS)


if __name__ == "__main__":
    main()
