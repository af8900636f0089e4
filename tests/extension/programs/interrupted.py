"""Ctrl-C, as a real signal, at points of a statement that are known: each leaves table and session whole.

Standard error shows what a user sees beside KeyboardInterrupt.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

from pyspark.sql import functions as F
from start import started

import anabranch
from anabranch.clock import SystemClock
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.storage.local.local_store import LocalStore
from anabranch.storage.log_store import PutOutcome

SOON = 30
"""Seconds; the jobs below take minutes."""
FOREVER = 300

spark = anabranch.enable(started())
handler = signal.getsignal(signal.SIGINT)
context: Any = spark.sparkContext
spark.sql("CREATE TABLE t (id BIGINT, v STRING) USING delta")
spark.range(0, 10, 1, 2).selectExpr("id", "'a' v").write.format("delta").mode("append").saveAsTable("t")


@F.udf("boolean")
def slowly(number: int) -> bool:
    time.sleep(FOREVER)
    return number > 0


spark.udf.register("slowly", slowly)


def press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def works() -> bool:
    return bool(context.statusTracker().getActiveStageIds())


def when(condition: Callable[[], bool], *, times: int = 1) -> None:
    """Press Ctrl-C as soon as it holds."""

    def wait() -> None:
        while not condition():
            time.sleep(0.05)
        for _ in range(times):
            time.sleep(0.7)
            press()

    threading.Thread(target=wait, daemon=True).start()


def version() -> int:
    return int(spark.sql("DESCRIBE HISTORY t LIMIT 1").collect()[0].version)


def stopped(
    point: str, work: Callable[[], object], *, at: Callable[[], bool] | None, times: int = 1, landed: int = 0
) -> KeyboardInterrupt:
    """What the program sees when Ctrl-C is pressed as soon as `at` holds. `landed` is how many commits there are of it."""
    before = version()
    if at is not None:
        when(at, times=times)
    begun = time.monotonic()
    try:
        work()
    except KeyboardInterrupt as stop:
        interrupt = stop
    else:
        raise AssertionError(f"{point}: nothing was raised")
    took = time.monotonic() - begun
    assert took < SOON, f"{point}: {took} s"
    assert signal.getsignal(signal.SIGINT) is handler, point
    # The next statements work, over a connection that is in order, and see all or nothing.
    assert version() == before + landed, point
    spark.sql("INSERT INTO t VALUES (100, 'b')")
    assert spark.sql("DELETE FROM t WHERE id = 100").collect() == [(1,)], point
    assert sorted(row.id for row in spark.table("t").collect()) == list(range(10)), point
    deadline = time.monotonic() + SOON
    while works():
        assert time.monotonic() < deadline, f"{point}: jobs go on"
        time.sleep(0.1)
    print(point, f"{took:.1f} s", flush=True)
    return interrupt


def reading() -> None:
    stopped("a query", lambda: spark.table("t").where("slowly(id)").collect(), at=works)


def waiting() -> None:
    """Nothing that can be cancelled: the call is given up."""
    seconds = SOON * 2
    reached = threading.Event()

    def wait() -> None:
        reached.set()
        spark._jvm.java.lang.Thread.sleep(1000 * seconds)

    stopped("a call that lasts", wait, at=reached.is_set)


def changing() -> None:
    for point, text in {
        "DELETE": "DELETE FROM t WHERE slowly(id)",
        "UPDATE": "UPDATE t SET v = CASE WHEN slowly(id) THEN 'x' END",
        "MERGE": "MERGE INTO t USING (SELECT id FROM range(5) WHERE slowly(id)) s ON t.id = s.id WHEN MATCHED THEN DELETE",
        "INSERT": "INSERT INTO t SELECT id, 'a' FROM range(5) WHERE slowly(id)",
    }.items():
        stopped(f"jobs of {point}", lambda text=text: spark.sql(text), at=works)
    slow = spark.range(5).selectExpr("id", "'a' v").where("slowly(id)")
    stopped("jobs of a writer", lambda: slow.write.format("delta").mode("append").saveAsTable("t"), at=works)


def compacting() -> None:
    """Bins are rewritten by threads of their own."""
    files = spark.range(0, 200, 1, 4).selectExpr("id", "id % 50 AS p")
    files.write.format("delta").partitionBy("p").saveAsTable("many")
    begun = time.monotonic()
    when(works)
    try:
        spark.sql("OPTIMIZE many")
        raise AssertionError("nothing was raised")
    except KeyboardInterrupt:
        print("OPTIMIZE", f"{time.monotonic() - begun:.1f} s", flush=True)
    assert spark.sql("DESCRIBE HISTORY many").count() == 1
    assert spark.table("many").count() == 200


class SlowClock(SystemClock):
    """The session's clock, whose reading takes long: statements read it before they work."""

    def __init__(self, wait: Callable[[], object]) -> None:
        self.wait = wait

    def now_ms(self) -> int:
        self.wait()
        return super().now_ms()


def with_clock(wait: Callable[[], object]) -> Callable[[], None]:
    def work() -> None:
        session = DeltaSession.of(spark)
        session.clock = SlowClock(wait)
        try:
            spark.sql("DELETE FROM t WHERE id = 3")
        finally:
            session.clock = SystemClock()

    return work


def in_python() -> None:
    """No job and no call to the JVM is under way."""
    reached = threading.Event()

    def wait() -> None:
        reached.set()
        time.sleep(FOREVER)

    stopped("Python at work", with_clock(wait), at=reached.is_set)


def twice() -> None:
    """The JVM is at something that ends by itself alone."""
    reached = threading.Event()

    def wait() -> None:
        reached.set()
        spark._jvm.java.lang.Thread.sleep(1000 * SOON * 2)

    stopped("pressed twice", with_clock(wait), at=reached.is_set, times=2)


def once() -> None:
    """The call comes back by itself, and nothing follows it."""
    reached = threading.Event()

    def wait() -> None:
        if not reached.is_set():
            reached.set()
            spark._jvm.java.lang.Thread.sleep(4000)

    stopped("a call that is not a job", with_clock(wait), at=reached.is_set)


def landing() -> None:
    put = LocalStore.put_if_absent
    pressed: list[str] = []

    def press_once(path: str) -> None:
        if path.endswith(".json") and not pressed:
            pressed.append(path)
            press()

    def pressed_before(self: LocalStore, path: str, data: bytes) -> PutOutcome:
        press_once(path)
        return put(self, path, data)

    def pressed_behind(self: LocalStore, path: str, data: bytes) -> PutOutcome:
        outcome = put(self, path, data)
        press_once(path)
        return outcome

    for point, around in {"before it lands": pressed_before, "once landed": pressed_behind}.items():

        def work(around: Any = around) -> None:
            pressed.clear()
            LocalStore.put_if_absent = around  # type: ignore[method-assign]
            try:
                spark.sql("UPDATE t SET v = 'c' WHERE id = 3")
            finally:
                LocalStore.put_if_absent = put  # type: ignore[method-assign]

        stop = stopped(f"a commit, {point}", work, at=None, landed=1)
        assert any("was already committed" in note for note in stop.__notes__), point


def handled_by_the_program() -> None:
    """A handler of the program's own that lets it go on: the statement ends as if nothing had been."""
    seen: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: seen.append(number))
    try:
        reached = threading.Event()

        def wait() -> None:
            if not reached.is_set():
                reached.set()
                time.sleep(2)

        when(reached.is_set)
        before = version()
        with_clock(wait)()
        assert (version(), seen) == (before + 1, [signal.SIGINT])
    finally:
        signal.signal(signal.SIGINT, handler)
    spark.sql("INSERT INTO t VALUES (3, 'a')")


for point in (reading, waiting, changing, compacting, in_python, once, twice, landing, handled_by_the_program):
    try:
        point()
    except BaseException:
        traceback.print_exc()
        sys.exit(f"{point.__name__} failed")
anabranch.disable(spark)
assert "send_command" not in vars(context._gateway._gateway_client)
spark.stop()
print("done")
