"""What a process and its JVM have of what might be left behind, by kind."""

from __future__ import annotations

import gc
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession

from anabranch.snapshot.snapshot import Snapshot
from anabranch.spark.session import delta_session

STILL_SECONDS = 1.2
"""Py4J lets go of the JVM's objects, and the JVM of Python's, on threads that look about once a second."""
GONE_SECONDS = 20
POOLS = re.compile(
    r"(?:Thread\[)?(?:#\d+,)?(?:QueryStageCreator|ResultQueryStageExecution|block-manager-|broadcast-exchange|shuffle-exchange"
    r"|subquery)"
)
"""Spark's pools for the stages of queries, by the text of a thread. They start a thread for each task until there are
hundreds, and end those that were idle for a minute: their size is the number of tasks in the last minute. They are not
counted; what starts threads of any other name is."""


def check_nothing_is_left(delta: SparkSession, work: Callable[[], object], *, slack: int) -> None:
    """No kind has grown by more than `slack` through `work`, which has been warmed up."""
    counted(delta)
    before = counted(delta)
    work()
    deadline = time.monotonic() + GONE_SECONDS
    while True:
        after = counted(delta)
        grown = {kind: after[kind] - before[kind] for kind in after if after[kind] - before[kind] > slack}
        if not grown or time.monotonic() > deadline:
            break
    growth = ", ".join(f"{kind} {before[kind]} → {after[kind]}" for kind in after)
    theirs = Counter(f"{type(item).__module__}.{type(item).__name__}" for item in _pool(delta).values())
    assert grown == {}, f"{growth}; {classes(delta).most_common(5)}; {theirs.most_common(5)}; {threads(delta)}"
    print(growth)


def counted(delta: SparkSession) -> dict[str, int]:
    """How many there are of each kind, once the collectors have run."""
    jvm: Any = delta._jvm
    context: Any = delta.sparkContext
    gc.collect()
    jvm.java.lang.System.gc()
    time.sleep(STILL_SECONDS)
    return {
        "threads of Python": threading.active_count(),
        "threads of the JVM": sum(threads(delta).values()),
        "descriptors of Python": len(os.listdir("/proc/self/fd")),
        "descriptors of the JVM": len(os.listdir(f"/proc/{jvm.java.lang.ProcessHandle.current().pid()}/fd")),
        "objects of Python's that the JVM has": len(_pool(delta)),
        "objects of the JVM that Python has": len(_bindings(delta)),
        "snapshots": sum(type(item) is Snapshot for item in gc.get_objects()),
        "sessions": len(delta_session._sessions),
        "RDDs that are kept": len(context._jsc.getPersistentRDDs()),
        "blocks, in units of 64 KB": block_bytes(context) // 65_536,
    }


def block_bytes(context: Any) -> int:
    """The memory of Spark's block manager in use, for kept rows and broadcasts."""
    # Such as `Map(host:port -> (limit,free))`.
    numbers = re.findall(r"\((\d+),(\d+)\)", str(context._jsc.sc().getExecutorMemoryStatus().toString()))
    return sum(int(limit) - int(free) for limit, free in numbers)


def threads(delta: SparkSession) -> Counter[str]:
    """The JVM's by name, without numbers and without Spark's pools."""
    jvm: Any = delta._jvm
    running = jvm.java.lang.Thread.getAllStackTraces().keySet()
    # As one text: a call for each of hundreds takes long.
    texts = str(running.toString()).strip("[]").split(", Thread[")
    return Counter(re.sub(r"\d+", "N", text) for text in texts if not POOLS.match(text))


def classes(delta: SparkSession) -> Counter[str]:
    """The classes of the objects of the JVM that Python has."""
    bindings = _bindings(delta)
    objects = [bindings.get(key) for key in list(bindings.keySet())]
    return Counter(
        str(item.getClass().getName()) if isinstance(item, JavaObject) else str(type(item)) for item in objects
    )


def _pool(delta: SparkSession) -> dict[str, object]:
    gateway: Any = delta.sparkContext._gateway
    return dict(gateway.gateway_property.pool.dict)


def _bindings(delta: SparkSession) -> Any:
    gateway: Any = delta.sparkContext._gateway
    return JavaObject("GATEWAY_SERVER", gateway._gateway_client).getGateway().getBindings()  # type: ignore[operator]
