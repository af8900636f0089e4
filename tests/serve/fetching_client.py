"""A client in a process of its own, so that it can be killed while it fetches.

    python fetching_client.py connect|jdbc PORT STATEMENT stay|fetch

Prints `rows` when it has some. Then it fetches no more and stays, or fetches the rest slowly and prints `end`.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Iterator
from typing import Any

FIRST = 5
STAY_SECONDS = 600
PAUSE_SECONDS = 0.001


def rows(protocol: str, port: int, statement: str) -> Iterator[Any]:
    if protocol == "connect":
        from pyspark.sql.connect.session import SparkSession

        yield from SparkSession.builder.remote(f"sc://127.0.0.1:{port}").create().sql(statement).toLocalIterator()
        return
    from pyhive import hive

    cursor = hive.connect(host="127.0.0.1", port=port).cursor()
    cursor.execute(statement)
    yield from cursor


def main() -> None:
    protocol, port, statement, then = sys.argv[1:]
    fetched = rows(protocol, int(port), statement)
    assert len(list(itertools.islice(fetched, FIRST))) == FIRST
    print("rows", flush=True)
    if then == "stay":
        time.sleep(STAY_SECONDS)
    for _ in fetched:
        # All rows together take less than a second on a fast machine, and it is to be killed before their end.
        time.sleep(PAUSE_SECONDS)
    print("end", flush=True)


if __name__ == "__main__":
    main()
