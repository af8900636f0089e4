"""The session, and the table in it, for commands that need Spark."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from anabranch.cli.table_opening import milliseconds, open_snapshots, storage_options
from anabranch.commands.table_access import TimeTravel
from anabranch.errors.arguments import InvalidArgumentError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from anabranch.commands.table_access import TableRef

_DEFAULTS = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
"""A session of a few seconds has no reader of its web UI, and Spark's progress bar would be mixed into the output."""


def session_settings(conf: Sequence[str]) -> dict[str, str]:
    """The strings of `--conf`, each `KEY=VALUE`. Raises `InvalidArgumentError`, which does not repeat the value."""
    settings: dict[str, str] = {}
    for setting in conf:
        key, equals, value = setting.partition("=")
        if not key.strip() or not equals:
            raise InvalidArgumentError(argument="--conf", value=key, problem="it must be KEY=VALUE")
        settings[key.strip()] = value
    return settings


@contextlib.contextmanager
def running_session(settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """A local session that is stopped at the end. One that runs in this process already is used, and left running."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - arguments are checked before this slow import

    from anabranch.sessions import session  # noqa: PLC0415 - as above

    running = SparkSession.getActiveSession()
    chosen: dict[str, Any] = {key.replace(".", "__"): value for key, value in {**_DEFAULTS, **settings}.items()}
    spark = session("anabranch", **chosen)
    try:
        yield spark
    finally:
        if running is None:
            spark.stop()


@contextlib.contextmanager
def table_in_session(table: str, *, options: Sequence[str], conf: Sequence[str]) -> Iterator[TableRef]:
    """The table at a path or URL, for a command that changes it.

    Its log is read before Java is started, so that a wrong path and missing credentials are reported at once. Raises as
    `open_snapshots`.
    """
    settings, storage = session_settings(conf), storage_options(options)
    root = open_snapshots(table, options).latest().table_root
    from anabranch.commands.table_access import existing_table_at  # noqa: PLC0415 - as in `running_session`
    from anabranch.spark.session.delta_session import DeltaSession  # noqa: PLC0415 - as above

    with running_session(settings) as spark:
        yield existing_table_at(DeltaSession.of(spark), root, storage)


def travel_to(*, version: int | None, timestamp: str | None) -> TimeTravel:
    """The version that one of `--version` and `--timestamp` names. Raises `InvalidArgumentError`."""
    moment = None if timestamp is None else datetime.datetime.fromtimestamp(milliseconds(timestamp) / 1000).astimezone()
    return TimeTravel(version=version, timestamp=moment)
