"""A transaction of INSERT, UPDATE, DELETE and MERGE, killed on its way: `python killed_transaction.py SCRATCH TABLE AT`.

`AT` is the number of a call, or `before` or `after` for the put of its commit. Calls are those of the storage of the log
and of vectors, and what the session says before it starts jobs. Prints the number of the call at which it is killed.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from anabranch import transaction
from anabranch.cli.demo.demo_flights import small_session
from anabranch.protocol.log_paths import commit_path
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.storage.local.local_store import LocalStore

READ_VERSION = 1
STORAGE = (
    "delete",
    "delete_many",
    "head",
    "list_from",
    "make_durable",
    "open",
    "put",
    "put_if_absent",
    "read",
    "read_range",
)


class Killer:
    """Counts calls, and kills this process and its JVM at one of them."""

    def __init__(self, at: str) -> None:
        self.count = 0
        self._at = at

    def watch(self, owner: type, name: str) -> None:
        original: Callable[..., Any] = getattr(owner, name)

        def watched(*arguments: Any, **options: Any) -> Any:
            self.count += 1
            commits = name == "put_if_absent" and arguments[1] == commit_path(READ_VERSION + 1)
            if self._at == str(self.count) or (commits and self._at == "before"):
                self._kill()
            result = original(*arguments, **options)
            if commits and self._at == "after":
                self._kill()
            return result

        setattr(owner, name, watched)

    def _kill(self) -> None:
        sys.stdout.write(f"{self.count}\n")
        sys.stdout.flush()
        os.killpg(os.getpgid(0), signal.SIGKILL)


def main(scratch: str, table: str, at: str) -> None:
    """Run the transaction until it is killed."""
    spark = small_session(Path(scratch).name, scratch=Path(scratch), cores=1)
    named, killer = f"delta.`{table}`", Killer(at)
    with transaction(spark, table):
        for name in STORAGE:
            killer.watch(LocalStore, name)
        killer.watch(DeltaSession, "describe_jobs")
        spark.sql(f"INSERT INTO {named} SELECT id + 100, id FROM range(10)")
        spark.sql(f"UPDATE {named} SET n = -1 WHERE id IN (1, 101)")
        spark.sql(f"DELETE FROM {named} WHERE id IN (2, 102)")
        spark.sql(
            f"MERGE INTO {named} t USING (SELECT id FROM range(3, 303, 100)) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET n = -3 WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, 0)"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
