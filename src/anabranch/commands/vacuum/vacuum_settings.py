"""Delta's settings for VACUUM, and the retention."""

from __future__ import annotations

import dataclasses
import math
from typing import Final

from anabranch.errors.arguments import InvalidOptionError
from anabranch.errors.maintenance import HOUR_MS, NegativeRetentionError, RetentionTooShortError
from anabranch.spark.session.delta_session import DeltaSession

CHECK_SETTING: Final = "spark.databricks.delta.retentionDurationCheck.enabled"
LOGGING_SETTING: Final = "spark.databricks.delta.vacuum.logging.enabled"
LITE_SETTING: Final = "spark.databricks.delta.vacuum.lite.enabled"
PARALLEL_SETTING: Final = "spark.databricks.delta.vacuum.parallelDelete.enabled"
PARALLELISM_SETTING: Final = "spark.databricks.delta.vacuum.parallelDelete.parallelism"
SHUFFLE_PARTITIONS_SETTING: Final = "spark.sql.shuffle.partitions"
THREADS_DEFAULT: Final = 8
THREADS_MAX: Final = 64
"""More requests at a time make an object store answer slower, not faster."""
RETENTION_MS_MAX: Final = 2**62


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class VacuumSettings:
    """The session's settings."""

    checks_retention: bool
    logs: bool
    """Whether START and END are committed. Commits are safe on every storage, so this is the default."""
    lite: bool
    """Whether VACUUM is LITE where the statement says neither FULL nor LITE."""
    threads: int
    """How many deletions run at once."""

    @classmethod
    def of(cls, session: DeltaSession) -> VacuumSettings:
        """Raises `InvalidOptionError`."""
        return cls(
            checks_retention=session.flag(CHECK_SETTING, default=True),
            logs=session.flag(LOGGING_SETTING, default=True),
            lite=session.flag(LITE_SETTING, default=False),
            threads=_threads(session),
        )


def retention_ms(hours: float | None, *, table: str, least_ms: int, checks: bool) -> int | None:
    """The retention of the statement in milliseconds; None where it has none. That of the table is `least_ms`.

    Raises `NegativeRetentionError`, `RetentionTooShortError`.
    """
    if hours is None:
        return None
    if math.isnan(hours) or hours < 0:
        raise NegativeRetentionError(table=table, given=f"{hours:g}")
    requested_ms = RETENTION_MS_MAX if hours * HOUR_MS > RETENTION_MS_MAX else round(hours * HOUR_MS)
    if checks and requested_ms < least_ms:
        raise RetentionTooShortError(table=table, given_ms=requested_ms, least_ms=least_ms, setting=CHECK_SETTING)
    return requested_ms


def _threads(session: DeltaSession) -> int:
    """The number of threads: one where parallel deletion is switched off, and a few without a setting."""
    if session.setting(PARALLEL_SETTING) is None:
        return THREADS_DEFAULT
    if not session.flag(PARALLEL_SETTING, default=False):
        return 1
    key = PARALLELISM_SETTING if session.setting(PARALLELISM_SETTING) is not None else SHUFFLE_PARTITIONS_SETTING
    text = (session.setting(key) or str(THREADS_DEFAULT)).strip()
    if not text.isdecimal() or not int(text):
        raise InvalidOptionError(option=key, value=text, problem="it must be a whole number above 0")
    return min(int(text), THREADS_MAX)
