"""Times as users write them."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from anabranch.errors.arguments import InvalidOptionError
from anabranch.spark.delta_session import DeltaSession


def to_milliseconds(session: DeltaSession, timestamp: str | datetime, *, option: str = "timestampAsOf") -> int:
    """Milliseconds since the epoch of what Spark's cast to TIMESTAMP gives, in the session's zone."""
    if isinstance(timestamp, datetime):
        zone = ZoneInfo(session.setting("spark.sql.session.timeZone", "UTC") or "UTC")
        aware = timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=zone)
        return int(aware.timestamp() * 1000)
    query = "SELECT unix_millis(try_cast(:written AS TIMESTAMP)) AS at"
    row = session.spark.sql(query, args={"written": timestamp}).first()
    if row is None or row[0] is None:
        problem = "Spark cannot read it as a timestamp; write it as 2024-01-31 or 2024-01-31 09:30:00"
        raise InvalidOptionError(option=option, value=timestamp, problem=problem)
    return int(row[0])
