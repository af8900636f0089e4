"""The tables of a session: its own, or those of its server for a client of Spark Connect."""

from __future__ import annotations

from pyspark.sql import SparkSession

from anabranch.connect_messages.server_capabilities import answers_messages
from anabranch.errors.arguments import SessionNotEnabledError
from anabranch.spark.extension.install import is_installed
from anabranch.spark.session.delta_session import DeltaSession
from anabranch.tables.local_tables import LocalTables
from anabranch.tables.table_operations import SessionTables


def tables_of(spark: SparkSession) -> SessionTables:
    """The tables of the session. Raises `SessionNotEnabledError`, and for a client `ServerWithoutDeltaError`."""
    if answers_messages(spark):
        from anabranch.tables.message_tables import MessageTables  # noqa: PLC0415 - needs packages of Spark Connect

        return MessageTables(spark)
    if not is_installed(spark):
        raise SessionNotEnabledError(call="DeltaTable")
    return LocalTables(DeltaSession.of(spark))
