"""A Spark session in the JVM: which one an object of Python is, whether it can still be used, and its time zones."""

from __future__ import annotations

import threading
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from anabranch.protocol.time_zones import FixedOffset, TimeZone, ZoneRules, Zones

_KEPT = "_anabranch_identity"


def is_connect(spark: SparkSession) -> bool:
    """Whether the session is one of Spark Connect."""
    return any(cls.__module__.startswith("pyspark.sql.connect") for cls in type(spark).__mro__)


def identity(spark: SparkSession) -> str:
    """The same text for every object that represents one session: `getActiveSession` makes a new one at each call."""
    state: dict[str, Any] = vars(spark)
    uuid = state.get(_KEPT)
    if uuid is None:
        uuid = state[_KEPT] = str(spark._jsparkSession.sessionUUID())
    return str(uuid)


def is_stopped(spark: SparkSession) -> bool:
    """Whether the application of the session has ended, or its JVM."""
    context: Any = spark.sparkContext._jsc
    try:
        return context is None or bool(context.sc().isStopped())
    except (Py4JError, OSError):
        return True


_SECOND = 1_000_000
_LAST = 253_402_300_800 * _SECOND
"""The first moment of the year 10000, up to which we read the JVM's changes of clocks."""
_zones: dict[str, TimeZone | None] = {}
_lock = threading.Lock()


def session_zone(spark: SparkSession) -> TimeZone:
    """The zone of `spark.sql.session.timeZone`, which Spark checked when it was set."""
    jvm: Any = spark._jvm
    zone = zones_of(jvm.anabranch)(spark.conf.get("spark.sql.session.timeZone") or "UTC")
    assert zone is not None
    return zone


def zones_of(classes: Any) -> Zones:
    """A function that finds time zones by name; `classes` has our Java classes. A process reads each zone once."""

    def find(name: str) -> TimeZone | None:
        with _lock:
            if name in _zones:
                return _zones[name]
        rules = classes.TimeZones.rules(name)
        zone = None if rules is None else _zone(str(rules))
        with _lock:
            return _zones.setdefault(name, zone)

    return find


def _zone(rules: str) -> TimeZone:
    first, *changes = (int(part) * _SECOND for part in rules.split(" "))
    if not changes:
        return FixedOffset(first)
    return ZoneRules(tuple(changes[::2]), (first, *changes[1::2]), _LAST)
