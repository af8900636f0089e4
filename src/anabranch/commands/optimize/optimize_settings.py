"""The settings of OPTIMIZE and REORG, by Delta's names, read once."""

from __future__ import annotations

import dataclasses
from typing import Final

from anabranch.errors.arguments import InvalidOptionError
from anabranch.protocol.properties import TableProperties
from anabranch.spark.session.session_settings import AUTO_COMPACT, SessionSettings

PREFIX: Final = "spark.databricks.delta.optimize."
AUTO_COMPACT_FILE_BYTES_DEFAULT: Final = 128 << 20
CHECK_STATISTICS_SETTING: Final = f"{PREFIX}zorder.checkStatsCollection.enabled"
RANGES_SETTING: Final = "spark.databricks.io.skipping.mdc.rangeId.max"
FILE_BYTES_DEFAULT: Final = 1 << 30
_CUBES: Final = f"{PREFIX}clustering.mergeStrategy.minCubeSize."
_STABLE_CUBE_BYTES_DEFAULT: Final = 100 * FILE_BYTES_DEFAULT
_CUBE_BYTES_DEFAULT: Final = _STABLE_CUBE_BYTES_DEFAULT * 3 // 2


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeSettings:
    """Limits that decide which files are rewritten, and how large the new files are."""

    min_file_bytes: int
    """Smaller files are rewritten."""
    max_file_bytes: int
    """Files are written up to this size."""
    hidden_ratio_max: float
    """Files that hide a larger share of their rows are rewritten, however large they are."""
    threads_max: int
    batch_bytes_max: int | None
    """How many bytes one commit may rewrite; None for no limit."""
    check_statistics: bool
    ranges_max: int
    """Into how many ranges ZORDER BY and clustering divide the values of a column."""
    stable_cube_bytes: int
    """Cubes of at least this size are not rewritten."""
    cube_bytes_max: int
    """Files are clustered into cubes up to this size."""

    @classmethod
    def of(cls, session: SessionSettings, properties: TableProperties) -> OptimizeSettings:
        """The file size of the table's properties overrides the session's. Raises `InvalidOptionError`."""
        target = properties.target_file_size_bytes
        min_bytes = whole_number(session, f"{PREFIX}minFileSize", FILE_BYTES_DEFAULT)
        max_bytes = whole_number(session, f"{PREFIX}maxFileSize", FILE_BYTES_DEFAULT) if target is None else target
        stable = whole_number(session, f"{_CUBES}threshold", _STABLE_CUBE_BYTES_DEFAULT)
        return cls(
            min_file_bytes=min_bytes if target is None else min(min_bytes, target),
            max_file_bytes=max_bytes,
            hidden_ratio_max=_share(session, f"{PREFIX}maxDeletedRowsRatio", 0.05),
            threads_max=max(1, whole_number(session, f"{PREFIX}maxThreads", 15)),
            batch_bytes_max=whole_number(session, f"{PREFIX}batchSize", 0) or None,
            check_statistics=session.flag(CHECK_STATISTICS_SETTING, default=True),
            ranges_max=max(2, whole_number(session, RANGES_SETTING, 1000)),
            stable_cube_bytes=stable,
            cube_bytes_max=max(stable, whole_number(session, f"{_CUBES}targetCubeSize", _CUBE_BYTES_DEFAULT)),
        )

    @classmethod
    def for_auto_compaction(cls, session: SessionSettings, properties: TableProperties) -> OptimizeSettings:
        """Files are smaller than those of OPTIMIZE, so that statements wait less; sizes of the session override this.

        Raises `InvalidOptionError`.
        """
        default = properties.target_file_size_bytes or AUTO_COMPACT_FILE_BYTES_DEFAULT
        max_bytes = whole_number(session, f"{AUTO_COMPACT}maxFileSize", default)
        min_bytes = whole_number(session, f"{AUTO_COMPACT}minFileSize", max_bytes // 2)
        return dataclasses.replace(cls.of(session, properties), min_file_bytes=min_bytes, max_file_bytes=max_bytes)


def whole_number(session: SessionSettings, key: str, default: int) -> int:
    """A setting of the session that is a whole number. Raises `InvalidOptionError`."""
    text = (session.setting(key) or str(default)).strip()
    if not text.isdecimal():
        raise InvalidOptionError(option=key, value=text, problem="it must be a whole number, 0 or more")
    return int(text)


def _share(session: SessionSettings, key: str, default: float) -> float:
    """A setting of the session that is a number from 0 to 1. Raises `InvalidOptionError`."""
    text = (session.setting(key) or str(default)).strip()
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise InvalidOptionError(option=key, value=text, problem="it must be a number from 0 to 1")
    return share
