"""Writers against writers: processes that change the same files of one table at once.

    python -m benchmarks writers [--writers 4] [--statements 8] [--mix M1 M4 …] [--theta 0.8]

Each writer is a process with a Spark session of its own on one core. A mix runs with deletion vectors, where rows
decide, and, for M1, without them, where files do; losers are executed again, at most 20 times. A statement that lost
although no other changed a row of its own is a spurious abort. With `ANABRANCH_JARS` naming the jars, as
`scripts/test_jar.sh` sets it, and PySpark 4.2, writers of delta-spark run M1 too, on a table with deletion vectors.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from anabranch.cli.demo.demo_flights import small_session
from anabranch.exceptions import DeltaConcurrentModificationException
from anabranch.tables import DeltaTable
from benchmarks._comparison import DELTA, JARS, ROOT, session

ROWS = 200_000
HOT_ROWS = 100
RETRIES_MAX = 20
OURS, DELTA_SPARK = "anabranch", "delta-spark"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """What writers do."""

    title: str
    statement: Callable[[SparkSession, DeltaTable, Chooser], None]
    target: str
    shares_rows: bool
    """Whether writers may want the same rows, so that some aborts are true."""
    compacts: bool = False
    appends: bool = False


class Chooser:
    """Chooses rows for one writer."""

    def __init__(self, writer: int, writers: int, theta: float, seed: int) -> None:
        self.chance = random.Random(seed)
        self.writer = writer
        self._own = range(writer, ROWS, writers)
        weights = [1 / (rank + 1) ** theta for rank in range(1000)]
        total = sum(weights)
        self._zipf = [weight / total for weight in weights]

    def own(self, count: int) -> str:
        """Rows that no other writer changes, as a list for SQL."""
        return ", ".join(map(str, self.chance.sample(self._own, count)))

    def zipf(self, count: int) -> str:
        """Rows that others like as well; popular ones more."""
        ranks = self.chance.choices(range(1000), self._zipf, k=count)
        return ", ".join(str(rank * (ROWS // 1000)) for rank in set(ranks))


def _update_own(_: SparkSession, table: DeltaTable, choose: Chooser) -> None:
    table.update(f"id IN ({choose.own(5)})", {"n": "n + 1"})


def _update_or_delete(_: SparkSession, table: DeltaTable, choose: Chooser) -> None:
    if choose.chance.random() < 0.5:
        table.delete(f"id IN ({choose.zipf(2)})")
    else:
        table.update(f"id IN ({choose.zipf(2)})", {"n": "n + 1"})


def _upsert(spark: SparkSession, table: DeltaTable, choose: Chooser) -> None:
    keys = [int(key) for key in choose.own(50).split(", ")]
    if choose.chance.random() < 0.01:
        keys.append(0)
    new = ROWS + choose.chance.randrange(10**9) * 100 + choose.writer
    source = spark.createDataFrame([(key, 1) for key in {*keys, new}], "id long, n long")
    merging = table.alias("t").merge(source.alias("s"), "t.id = s.id")
    merging.whenMatchedUpdate(set={"n": "t.n + s.n"}).whenNotMatchedInsertAll().execute()


def _count_up(_: SparkSession, table: DeltaTable, choose: Chooser) -> None:
    table.update(f"id = {choose.chance.randrange(HOT_ROWS)}", {"n": "n + 1"})


MIXES = {
    "M1": Mix(title="UPDATE of disjoint keys", statement=_update_own, target="0 aborts", shares_rows=False),
    "M2": Mix(
        title="UPDATE and DELETE, Zipf keys", statement=_update_or_delete, target="true aborts only", shares_rows=True
    ),
    "M3": Mix(title="upserts, 1 % overlapping", statement=_upsert, target="true aborts only", shares_rows=True),
    "M4": Mix(title="M1 beside OPTIMIZE", statement=_update_own, target="0 aborts", shares_rows=False, compacts=True),
    "M5": Mix(
        title="M1 beside blind appends", statement=_update_own, target="0 aborts", shares_rows=False, appends=True
    ),
    "M6": Mix(title="increments of 100 hot rows", statement=_count_up, target="sum = successes", shares_rows=True),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--statements", type=int, default=8)
    parser.add_argument("--theta", type=float, default=0.8)
    parser.add_argument("--mix", nargs="*", default=list(MIXES), choices=list(MIXES))
    parser.add_argument("--worker", nargs=2, metavar=("ENGINE", "FOLDER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker is not None:
        engine, folder = arguments.worker
        work(Path(folder), by_delta=engine == DELTA_SPARK)
        return
    with tempfile.TemporaryDirectory(prefix="anabranch-benchmark-", ignore_cleanup_errors=True) as scratch:
        measure(Path(scratch), arguments)


def measure(scratch: Path, arguments: argparse.Namespace) -> None:
    """Run the mixes and print a line of figures for each."""
    spark = small_session("measuring", scratch=scratch, cores=1)
    print(f"PySpark {pyspark.__version__}, Python {platform.python_version()}, {os.cpu_count()} cores, {arguments}\n")
    print("| mix | engine | vectors | statements/s | aborts | of them spurious | p50 s | p99 s | sum right | target |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    with _workers(scratch, OURS, arguments.writers) as workers:
        for name in arguments.mix:
            for vectors in ("on", "off") if name == "M1" else ("on",):
                print(_line(spark, workers, scratch, OURS, name, vectors, arguments), flush=True)
    if os.environ.get(JARS) and "M1" in arguments.mix:
        with _workers(scratch, DELTA_SPARK, arguments.writers) as workers:
            print(_line(spark, workers, scratch, DELTA_SPARK, "M1", "on", arguments), flush=True)
    spark.stop()


@contextlib.contextmanager
def _workers(scratch: Path, engine: str, count: int) -> Iterator[list[subprocess.Popen[str]]]:
    """That many writers, which have run a statement each before, so that no start of a session is measured."""
    workers = [_start(scratch / f"{engine}-{number}", engine) for number in range(count)]
    for worker in workers:
        _answer(worker)
    yield workers
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.close()
        worker.wait()


def _line(
    spark: SparkSession,
    workers: list[subprocess.Popen[str]],
    scratch: Path,
    engine: str,
    name: str,
    vectors: str,
    arguments: argparse.Namespace,
) -> str:
    mix, path = MIXES[name], str(scratch / f"{name}-{engine}-{vectors}")
    frame = spark.range(0, ROWS, 1, 2).selectExpr("id", "0L AS n", "concat('row ', id) AS word")
    frame.write.format("delta").option("delta.enableDeletionVectors", str(vectors == "on").lower()).save(path)
    task = {"path": path, "mix": name, "writers": len(workers), "statements": arguments.statements}
    for number, worker in enumerate(workers):
        _tell(worker, {**task, "writer": number, "theta": arguments.theta})
    started = time.perf_counter()
    answers = list(_while_others_work(spark, path, mix, workers))
    seconds = time.perf_counter() - started
    times = sorted(time_ for answer in answers for time_ in answer["times"])
    aborts = sum(answer["aborts"] for answer in answers)
    spurious = "?" if mix.shares_rows else str(aborts)
    total = spark.read.format("delta").load(path).agg({"n": "sum"}).collect()[0][0]
    right = "-" if name in ("M2", "M3") else str(total == sum(answer["added"] for answer in answers))
    p99 = times[min(len(times) - 1, int(len(times) * 0.99))]
    return (
        f"| {name} {mix.title} | {engine} | {vectors} | {len(times) / seconds:.2f} | {aborts} | {spurious} | "
        f"{statistics.median(times):.2f} | {p99:.2f} | {right} | {mix.target} |"
    )


def _while_others_work(
    spark: SparkSession, path: str, mix: Mix, workers: list[subprocess.Popen[str]]
) -> Iterator[dict[str, Any]]:
    """Compact or append for as long as writers write; then what they say."""
    first = workers[0].stdout
    assert first is not None
    table = DeltaTable.forPath(spark, path)
    rows = spark.range(ROWS, ROWS + 10).selectExpr("id", "0L AS n", "'new' AS word")
    rounds = 6 if mix.compacts or mix.appends else 0
    for _ in range(rounds):
        if mix.compacts:
            table.optimize().executeCompaction()
        else:
            rows.write.format("delta").mode("append").save(path)
    for worker in workers:
        yield _answer(worker)


def work(scratch: Path, *, by_delta: bool) -> None:
    """The life of a writer."""
    if by_delta:
        spark = session({"spark.master": "local[1]", "spark.jars": os.environ[JARS], **DELTA})
    else:
        spark = small_session(scratch.name, scratch=scratch, cores=1)
    own = str(scratch / "warm-up")
    spark.range(ROWS).selectExpr("id", "0L AS n").write.format("delta").save(own)
    _statement(spark, own, _update_own, by_delta)(Chooser(0, 1, 0.0, seed=0))
    _say({"ready": True})
    for line in sys.stdin:
        task = json.loads(line)
        choose = Chooser(task["writer"], task["writers"], task["theta"], seed=task["writer"])
        run = _statement(spark, task["path"], MIXES[task["mix"]].statement, by_delta)
        times, aborts = [], 0
        for _ in range(task["statements"]):
            started = time.perf_counter()
            aborts += _until_it_lands(run, choose)
            times.append(time.perf_counter() - started)
        added = len(times) * (1 if task["mix"] == "M6" else 5)
        _say({"times": times, "aborts": aborts, "added": added})
    spark.stop()


def _statement(spark: SparkSession, path: str, statement: Any, by_delta: bool) -> Callable[[Chooser], object]:
    """The statement of a mix on a table; of delta-spark's mixes there is only the first."""
    if by_delta:
        update = f"UPDATE delta.`{path}` SET n = n + 1 WHERE id IN"
        return lambda choose: spark.sql(f"{update} ({choose.own(5)})").collect()
    table = DeltaTable.forPath(spark, path)
    return lambda choose: statement(spark, table, choose)


def _until_it_lands(run: Callable[[Chooser], object], choose: Chooser) -> int:
    """How often the statement had to be executed again."""
    state = choose.chance.getstate()
    for aborts in range(RETRIES_MAX):
        choose.chance.setstate(state)
        try:
            run(choose)
        except Exception as error:
            if not isinstance(error, DeltaConcurrentModificationException) and "DELTA_CONCURRENT_" not in str(error):
                raise
            time.sleep(random.uniform(0, 0.1 * 2 ** min(aborts, 5)))
        else:
            return aborts
    raise AssertionError(f"a statement lost {RETRIES_MAX} times")


def _start(folder: Path, engine: str) -> subprocess.Popen[str]:
    folder.mkdir()
    command = [sys.executable, __file__, "--worker", engine, str(folder)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    )


def _tell(worker: subprocess.Popen[str], task: dict[str, Any]) -> None:
    assert worker.stdin is not None
    worker.stdin.write(json.dumps(task) + "\n")
    worker.stdin.flush()


def _answer(worker: subprocess.Popen[str]) -> dict[str, Any]:
    assert worker.stdout is not None
    answer: dict[str, Any] = json.loads(worker.stdout.readline())
    return answer


def _say(facts: dict[str, Any]) -> None:
    print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main()
