"""Writers of one engine on one table, as a program in that engine's environment: each records its history.

`engine_writers.py ENGINE TABLE FOLDER SEED STATEMENTS WRITERS`. It prints a line when it is ready, and begins when it gets
one, so that the writers of all engines begin at once. It imports nothing of the tests: not every engine has our packages.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import random
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

KEYS = range(1, 13)
CONTESTED = range(900, 904)
"""Keys that several writers insert if they are absent."""
LIMIT = 10_000
"""Rows with larger values are deleted by a condition on the value."""

Columns = dict[str, Any]


class NotSupportedError(Exception):
    """The engine has no such statement."""


class Engine:
    """What a writer lets its engine do. Statements return the version that they committed, where the engine says it."""

    name = ""
    lacks: frozenset[str] = frozenset()
    """Statements that the engine does not have."""
    conflicts: tuple[str, ...] = ()
    """Texts in errors by which the engine says that nothing was committed."""

    def __init__(self, table: str) -> None:
        self.table = table

    def begin(self, statement: str) -> None:
        """Let the commit carry the statement's name, where the engine can."""

    def rows(self) -> tuple[int | None, list[Columns]]:
        raise NotSupportedError

    def insert(self, row: Columns) -> int | None:
        raise NotSupportedError

    def update(self, condition: str, value: str) -> int | None:
        raise NotSupportedError

    def delete(self, condition: str) -> int | None:
        raise NotSupportedError

    def merge(self, row: Columns, *, updates: bool) -> int | None:
        raise NotSupportedError

    def compact(self) -> int | None:
        raise NotSupportedError

    def feed(self) -> list[Columns]:
        raise NotSupportedError


class DeltaRs(Engine):
    conflicts = ("CommitFailedError", "Failed to commit transaction", "conflict")

    def __init__(self, table: str) -> None:
        super().__init__(table)
        self.name = f"deltalake {importlib.metadata.version('deltalake')}"
        self.statement = ""

    def begin(self, statement: str) -> None:
        self.statement = statement

    def _opened(self) -> Any:
        from deltalake import CommitProperties, DeltaTable

        self.properties = CommitProperties(custom_metadata={"statement": self.statement})
        return DeltaTable(self.table)

    def _arrow(self, row: Columns) -> Any:
        import pyarrow as pa

        return pa.table({name: pa.array([value], pa.int64()) for name, value in row.items()})

    def rows(self) -> tuple[int | None, list[Columns]]:
        import pyarrow as pa
        from deltalake import QueryBuilder

        table = self._opened()
        rows = pa.table(QueryBuilder().register("t", table).execute("SELECT * FROM t").read_all()).to_pylist()
        return table.version(), rows

    def insert(self, row: Columns) -> int | None:
        from deltalake import write_deltalake

        self._opened()
        write_deltalake(self.table, self._arrow(row), mode="append", commit_properties=self.properties)
        return None

    def update(self, condition: str, value: str) -> int | None:
        self._opened().update(predicate=condition, updates={"v": value}, commit_properties=self.properties)
        return None

    def delete(self, condition: str) -> int | None:
        self._opened().delete(condition, commit_properties=self.properties)
        return None

    def merge(self, row: Columns, *, updates: bool) -> int | None:
        table = self._opened()
        merger = table.merge(
            self._arrow(row), "t.k = s.k", source_alias="s", target_alias="t", commit_properties=self.properties
        )
        if updates:
            merger = merger.when_matched_update_all()
        merger.when_not_matched_insert_all().execute()
        return None

    def compact(self) -> int | None:
        self._opened().optimize.compact(commit_properties=self.properties)
        return None

    def feed(self) -> list[Columns]:
        import pyarrow as pa

        return pa.table(self._opened().load_cdf(starting_version=1).read_all()).to_pylist()


class DuckDb(Engine):
    lacks = frozenset(
        {"increase", "compare and set", "delete", "delete by value", "upsert", "insert if absent", "compact"}
    )
    conflicts = ("TransactionContext Error", "Transaction conflict", "conflict")

    def __init__(self, table: str) -> None:
        super().__init__(table)
        import duckdb
        import duckdb_ext

        self.name = f"DuckDB {duckdb.__version__}"
        self.extension = next(Path(duckdb_ext.__path__[0]).rglob("delta.duckdb_extension"))

    def _run(self, query: str) -> Any:
        import duckdb

        with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
            connection.execute(f"LOAD '{self.extension}'")
            connection.execute(f"ATTACH '{self.table}' AS t (TYPE delta)")
            return connection.execute(query).fetchall()

    def rows(self) -> tuple[int | None, list[Columns]]:
        return None, [{"k": k, "v": v} for k, v in self._run("SELECT k, v FROM t")]

    def insert(self, row: Columns) -> int | None:
        self._run(f"INSERT INTO t VALUES ({row['k']}, {row['v']})")
        return None


class SparkSql(Engine):
    """An engine that speaks Spark's SQL, in a session of the writer's own."""

    conflicts = ("Concurrent", "concurrent", "conflict", "CONCURRENT", "Commit failed")

    def __init__(self, table: str, name: str, spark: Any, target: str) -> None:
        super().__init__(table)
        self.name, self.spark, self.target = name, spark, target

    def begin(self, statement: str) -> None:
        self.spark.conf.set("spark.databricks.delta.commitInfo.userMetadata", statement)

    def _run(self, query: str) -> list[Columns]:
        return [row.asDict() for row in self.spark.sql(query).collect()]

    def rows(self) -> tuple[int | None, list[Columns]]:
        return None, self._run(f"SELECT k, v FROM {self.target}")

    def insert(self, row: Columns) -> int | None:
        self._run(f"INSERT INTO {self.target} VALUES ({row['k']}L, {row['v']}L)")
        return None

    def update(self, condition: str, value: str) -> int | None:
        self._run(f"UPDATE {self.target} SET v = {value} WHERE {condition}")
        return None

    def delete(self, condition: str) -> int | None:
        self._run(f"DELETE FROM {self.target} WHERE {condition}")
        return None

    def merge(self, row: Columns, *, updates: bool) -> int | None:
        update = "WHEN MATCHED THEN UPDATE SET v = s.v" if updates else ""
        self._run(
            f"MERGE INTO {self.target} AS t USING (SELECT {row['k']}L AS k, {row['v']}L AS v) AS s ON t.k = s.k "
            f"{update} WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, s.v)"
        )
        return None


class DeltaSparkSql(SparkSql):
    """Delta on Spark itself, which has commands and a change feed in SQL."""

    def compact(self) -> int | None:
        self._run(f"OPTIMIZE {self.target}")
        return None

    def feed(self) -> list[Columns]:
        reader = self.spark.read.format("delta").option("readChangeFeed", True).option("startingVersion", 1)
        return [row.asDict() for row in reader.load(self.table).drop("_commit_timestamp").collect()]


def engines_of_spark(name: str, table: str) -> Callable[[], Engine]:
    """A function that makes an engine with a session of its own, in one Spark."""
    settings = {
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.warehouse.dir": f"{tempfile.mkdtemp()}/warehouse",
    }
    if name == "anabranch":
        import anabranch

        spark = anabranch.session(cores=2, **{key.replace(".", "__"): value for key, value in settings.items()})
        version = f"anabranch {anabranch.__version__}"
    else:
        from pyspark.sql import SparkSession

        jars = os.environ["ANABRANCH_JARS"]
        settings |= {
            "spark.jars": jars,
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        }
        builder = SparkSession.builder.master("local[2]")
        for key, value in settings.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        version = next(Path(jar).stem for jar in jars.split(",") if Path(jar).name.startswith("delta-spark"))
    spark.sparkContext.setLogLevel("OFF")
    spark.sql(f"SELECT count(*) FROM delta.`{table}`").collect()
    return lambda: DeltaSparkSql(table, f"{version} on Spark {spark.version}", spark.newSession(), f"delta.`{table}`")


def engines_of_sail(table: str) -> Callable[[], Engine]:
    import pysail
    from pysail.spark import SparkConnectServer
    from pyspark.sql import SparkSession

    server = SparkConnectServer(port=0)
    server.start(background=True)
    host, port = server.listening_address

    def engine() -> Engine:
        spark = SparkSession.builder.remote(f"sc://{host}:{port}").create()
        spark.sql(f"CREATE TABLE t USING delta LOCATION '{table}'").collect()
        return SailSql(table, f"Sail {pysail.__version__}", spark, "t", server)

    return engine


class SailSql(SparkSql):
    lacks = frozenset({"compact"})
    conflicts = (*SparkSql.conflicts, "Failed to commit transaction")

    def __init__(self, table: str, name: str, spark: Any, target: str, server: Any) -> None:
        super().__init__(table, name, spark, target)
        self.server = server  # it ends with its object

    def begin(self, statement: str) -> None:
        """Sail has no setting for a commit's metadata."""


class Writer:
    """One writer: random statements, each recorded before and after."""

    def __init__(self, name: str, engine: Engine, path: Path, seed: int) -> None:
        self.name, self.engine, self.random = name, engine, random.Random(seed)
        self.file, self.number = path.open("w", encoding="utf-8"), 0
        self.base = 100 * (1 + seed % 90)

    def record(self, event: str, **fields: Any) -> None:
        self.file.write(json.dumps({"event": event, **fields}) + "\n")
        self.file.flush()

    def run(self, statements: int) -> None:
        for _ in range(statements):
            self.number += 1
            self._statement()

    def end(self) -> None:
        try:
            rows = self.engine.feed()
        except NotSupportedError:
            return
        except Exception as error:
            self.record_error("feed", error)
            return
        kept = [{name: value for name, value in row.items() if name != "_commit_timestamp"} for row in rows]
        last = max((row["_commit_version"] for row in kept), default=0)
        self.record("feed", reader=self.engine.name, **{"from": 1, "to": last}, rows=kept)

    def record_error(self, operation: str, error: Exception) -> None:
        text = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        with self.file_of_errors() as file:
            file.write(json.dumps({"engine": self.engine.name, "operation": operation, "error": text}) + "\n")

    def file_of_errors(self) -> Any:
        return Path(self.file.name).with_suffix(".errors").open("a", encoding="utf-8")

    def _statement(self) -> None:
        """One statement of a random kind. Numbers are unique, so that a row shows who wrote it."""
        key, number = self.random.choice(KEYS), self.base * 1000 + self.number
        contested = self.random.choice(CONTESTED)
        new_row, contested_row = {"k": number, "v": number}, {"k": contested, "v": number}
        kinds: list[tuple[str, int, list[dict[str, Any]], Callable[[], int | None]]] = [
            ("increase", 6, [increase(key, number)], lambda: self.engine.update(f"k = {key}", f"v + {number}")),
            ("compare and set", 3, [], self.compare_and_set),
            ("insert", 3, [{"do": "insert", "row": new_row}], lambda: self.engine.insert(new_row)),
            ("delete", 2, [{"do": "delete", "where": {"k": key}}], lambda: self.engine.delete(f"k = {key}")),
            (
                "delete by value",
                1,
                [{"do": "delete", "where": {"v": {">": LIMIT * self.base}}}],
                lambda: self.engine.delete(f"v > {LIMIT * self.base}"),
            ),
            (
                "upsert",
                3,
                [{"do": "upsert", "row": {"k": key, "v": number}}],
                lambda: self.engine.merge({"k": key, "v": number}, updates=True),
            ),
            (
                "insert if absent",
                2,
                [{"do": "insert if absent", "row": contested_row}],
                lambda: self.engine.merge(contested_row, updates=False),
            ),
            ("compact", 1, [], self.engine.compact),
            ("read", 3, [], self.read),
        ]
        kinds = [kind for kind in kinds if kind[0] not in self.engine.lacks]
        operation, _, changes, execute = self.random.choices(kinds, weights=[kind[1] for kind in kinds])[0]
        self.statement = f"{self.name}-{self.number}"
        self.record("begin", statement=self.statement, writer=self.name, engine=self.engine.name, operation=operation)
        self.engine.begin(self.statement)
        if changes:
            self.record("change", statement=self.statement, changes=changes)
        try:
            version = execute()
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            refused = any(part in text for part in self.engine.conflicts)
            self.record("end", statement=self.statement, outcome="conflict" if refused else "unknown")
            self.record_error(operation, error)
        else:
            self.record("end", statement=self.statement, outcome="committed", version=version)

    def compare_and_set(self) -> int | None:
        """A change of a row that must still have the value that was read."""
        _, rows = self.engine.rows()
        if not rows:
            return None
        row, number = self.random.choice(rows), self.base * 1000 + self.number
        change = {"do": "update", "where": {"k": row["k"], "v": row["v"]}, "set": {"v": number}}
        self.record("change", statement=self.statement, changes=[change])
        return self.engine.update(f"k = {row['k']} AND v = {row['v']}", str(number))

    def read(self) -> int | None:
        version, rows = self.engine.rows()
        self.record("read", statement=self.statement, rows=rows, **({} if version is None else {"version": version}))
        return None


def increase(key: int, number: int) -> dict[str, Any]:
    return {"do": "update", "where": {"k": key}, "add": {"v": number}}


def main() -> None:
    name, table, folder, seed, statements, count = sys.argv[1:]
    if name in {"anabranch", "jar"}:
        engine = engines_of_spark(name, table)
    elif name == "sail":
        engine = engines_of_sail(table)
    else:
        engine = lambda: {"deltalake": DeltaRs, "duckdb": DuckDb}[name](table)  # noqa: E731
    writers = []
    for index in range(int(count)):
        names = f"{name}{seed}.{index}"
        writers.append(Writer(names, engine(), Path(folder, f"{names}.jsonl"), int(seed) * 10 + index))
    print(f"@ready {writers[0].engine.name}", flush=True)
    sys.stdin.readline()
    threads = [threading.Thread(target=writer.run, args=(int(statements),)) for writer in writers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("@done", flush=True)
    sys.stdin.readline()
    writers[0].end()
    print("@end", flush=True)
    sys.stdout.flush()
    os._exit(0)  # Sail's server does not end with its client


if __name__ == "__main__":
    main()
