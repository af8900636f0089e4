"""A table as the sink of a streaming query: every batch is one commit, and is written once.

After a crash between our commit and Spark's record of it, Spark runs the batch again. So a commit has the id of the
query and the number of the batch, and a batch whose number is in the table is skipped. See "Transaction Identifiers"
of PROTOCOL.md.
"""

from __future__ import annotations

import dataclasses

from pyspark.sql import DataFrame
from pyspark.sql.types import NullType, StructType

from anabranch.commands.table_access import TableRef
from anabranch.commands.write.write_command import write_frame
from anabranch.commands.write.write_options import WriteOptions
from anabranch.errors.schema import VoidWriteError
from anabranch.schema.paths import contains_type, quoted
from anabranch.schema.write_rules import WriteApi
from anabranch.spark.session.delta_session import DeltaSession

_QUERY_ID_PROPERTY = "sql.streaming.queryId"
"""A local property of the thread that runs the batches of a query."""


def write_batch(table: TableRef, batch: DataFrame, options: WriteOptions, *, query_id: str, number: int) -> None:
    """Commit the rows of a batch, unless this batch of the query was committed before."""
    if table.entry is not None:
        # Raises for a table that was dropped: a batch must not create it again without its name in the catalog.
        table.latest()
    with_identity = dataclasses.replace(options, application=(query_id, number))
    write_frame(table, batch, with_identity, WriteApi.STREAM)


def query_id_of_thread(session: DeltaSession) -> str:
    """The id of the query whose batch this thread of the JVM runs."""
    return str(session.spark.sparkContext.getLocalProperty(_QUERY_ID_PROPERTY))


def check_batch(schema: StructType, *, table: str) -> None:
    """Raises `VoidWriteError` where a column has no type yet."""
    for field in schema.fields:
        if contains_type(field.dataType, NullType):
            raise VoidWriteError(table=table, column=quoted([field.name]), reason="has void in the rows of a stream")
