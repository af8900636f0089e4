"""Writes and statements with another format for a Delta table, most often because they name no format."""

from __future__ import annotations

import logging
from typing import NoReturn

from anabranch.errors.other_formats import (
    CreateAtPathFormatError,
    PathFormatError,
    TableFormatMismatchError,
    TableFormatReplacedError,
)
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.spark.session.table_identifiers import PathIdentifier, identifier_of

LOGGER = logging.getLogger("anabranch.commit")
SAVE_AS_TABLE = "saveAsTable"
"""The operation `saveAsTable` as `anabranch.CheckTableFormat` names it; other operations are words of SQL."""


def refuse(session: DeltaSession, operation: str, parts: tuple[str, ...], table_format: str) -> NoReturn:
    """Raises an error that names the format of the table, which Spark's own error would not."""
    identifier = identifier_of(parts)
    table, default = str(identifier), default_format(session)
    if isinstance(identifier, PathIdentifier) and not operation.startswith("REPLACE"):
        at_path = PathFormatError if operation == SAVE_AS_TABLE else CreateAtPathFormatError
        raise at_path(table=table, operation=operation, table_format=table_format, default_format=default)
    if operation == SAVE_AS_TABLE:
        raise TableFormatMismatchError(table=table, table_format=table_format, default_format=default)
    raise TableFormatReplacedError(table=table, operation=operation, table_format=table_format, default_format=default)


def warn_of_replacement(session: DeltaSession, parts: tuple[str, ...]) -> None:
    """Log a warning: Spark drops a Delta table before `saveAsTable` makes a table of another format with its name."""
    LOGGER.warning(
        "saveAsTable in mode overwrite drops the Delta table %s with its history, and creates a table of another "
        'format: the write names no format("delta"), and spark.sql.sources.default is %s. To replace the rows of the '
        'Delta table, write .format("delta"), or set spark.sql.sources.default to delta where the session is created',
        identifier_of(parts),
        default_format(session),
    )


def warn_of_files(folder: str, table_format: str, *, deletes: bool) -> None:
    """Log a warning: Spark writes files into the folder of a Delta table that are not in its log."""
    if deletes:
        LOGGER.warning(
            "A write of %s in mode overwrite deletes the Delta table in %s with its log. To replace the rows of "
            'the table, write .format("delta")',
            table_format,
            folder,
        )
        return
    LOGGER.warning(
        "%s files are written into the folder of the Delta table in %s. They are not part of the table: its readers "
        'do not see their rows, and VACUUM deletes them. To add the rows to the table, write .format("delta")',
        table_format,
        folder,
    )


def default_format(session: DeltaSession) -> str:
    """The format of writes that name no format."""
    return session.setting("spark.sql.sources.default", "parquet") or "parquet"
