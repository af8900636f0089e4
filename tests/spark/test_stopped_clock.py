"""The clock in a text is stopped where it is read, and nowhere else. No Spark needed."""

from __future__ import annotations

import zoneinfo

import pytest

from anabranch.cli.rows.local_time_zone import PythonTimeZone
from anabranch.spark.conditions.repeatable_rows import fix_clock

NEW_YEAR_MS = 1_704_067_200_000

LOS_ANGELES = PythonTimeZone(zoneinfo.ZoneInfo("America/Los_Angeles"))


@pytest.mark.parametrize(
    ("text", "stopped"),
    [
        ("d = current_date()", "d = DATE'2023-12-31'"),
        ("d = CURDATE ( ) and a", "d = DATE'2023-12-31' and a"),
        ("d = current_date", "d = DATE'2023-12-31'"),
        ("t < now()", "t < TIMESTAMP'2024-01-01 00:00:00.000000+00:00'"),
        ("t < localtimestamp", "t < TIMESTAMP_NTZ'2023-12-31 16:00:00.000000'"),
        ("now > 1", "now > 1"),
        ("current_timestamp = 1", "current_timestamp = 1"),
        ("current_date.x = t.current_date", "current_date.x = t.current_date"),
        ("s = 'now()' and `now`() -- now()", "s = 'now()' and `now`() -- now()"),
        ("current_date(1) = 'it", "DATE'2023-12-31'(1) = 'it"),
    ],
)
def test_the_clock_stops(text: str, stopped: str) -> None:
    """`current_timestamp` is a column here."""
    text_at_that_time = fix_clock(text, columns={"current_timestamp"}, time_zone=LOS_ANGELES, now_ms=NEW_YEAR_MS)
    assert text_at_that_time == stopped
