"""Time zones by the data of Spark's JVM."""

from __future__ import annotations

import threading
from typing import Any

from pyspark.sql import SparkSession

from anabranch.protocol.time_zones import FixedOffset, TimeZone, ZoneRules, Zones

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
