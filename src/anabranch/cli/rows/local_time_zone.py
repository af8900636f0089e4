"""This machine's time zone by Python's time zone data, for commands that run without a JVM. Only for display."""

from __future__ import annotations

import dataclasses
import datetime
import os
import zoneinfo
from collections.abc import Iterable

from anabranch.protocol.time_zones import UTC, TimeZone
from anabranch.protocol.value_text import datetime_to_micros

_LOCAL_TIME = "/etc/localtime"
_EPOCH = datetime.datetime(1970, 1, 1)
_FIRST = datetime_to_micros(datetime.datetime(2, 1, 1))
_LAST = datetime_to_micros(datetime.datetime(9998, 1, 1))
"""Outside the years of `datetime`, the offsets of its first and last years are used."""


@dataclasses.dataclass(frozen=True, slots=True)
class PythonTimeZone:
    """A time zone by the data of Python's `zoneinfo`."""

    region: datetime.tzinfo

    def to_utc(self, local: int) -> int:
        return local - self._offset(local, fold=0)

    def is_unambiguous(self, local: int) -> bool:
        # The two offsets differ only for times that a change of the clocks skips or repeats.
        return self._offset(local, fold=0) == self._offset(local, fold=1)

    def to_local(self, moment: int) -> int:
        within = _EPOCH + datetime.timedelta(microseconds=min(max(moment, _FIRST), _LAST))
        offset = within.replace(tzinfo=datetime.UTC).astimezone(self.region).utcoffset()
        return moment + _micros(offset)

    def _offset(self, local: int, *, fold: int) -> int:
        plain = _EPOCH + datetime.timedelta(microseconds=min(max(local, _FIRST), _LAST))
        return _micros(self.region.utcoffset(plain.replace(fold=fold)))


def _micros(offset: datetime.timedelta | None) -> int:
    return 0 if offset is None else offset // datetime.timedelta(microseconds=1)


def local_time_zone() -> TimeZone:
    """The zone of this machine's clock; UTC where none is configured."""
    candidates: Iterable[str] = (os.environ.get("TZ", "").lstrip(":"), _zone_of_link())
    for name in candidates:
        if name and not name.startswith("/"):
            try:
                return PythonTimeZone(zoneinfo.ZoneInfo(name))
            except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
                continue
    return UTC


def _zone_of_link() -> str:
    return os.path.realpath(_LOCAL_TIME).partition("zoneinfo/")[2]
