"""A streaming query that tells why its sink failed."""

from __future__ import annotations

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from anabranch.streaming.sink import StreamSink


class SinkQuery(StreamingQuery):
    """Spark's handle of a query into a table. Its exceptions have the sink's error as their cause.

    Spark knows of that error only as text, so that `StreamingQueryException` is all that PySpark itself raises.
    """

    def __init__(self, query: StreamingQuery, sink: StreamSink) -> None:
        super().__init__(query._jsq)
        self._sink = sink

    def awaitTermination(self, timeout: int | None = None) -> bool | None:  # noqa: N802
        try:
            return super().awaitTermination(timeout)
        except StreamingQueryException as failure:
            self._explain(failure)
            raise

    def processAllAvailable(self) -> None:  # noqa: N802
        try:
            super().processAllAvailable()
        except StreamingQueryException as failure:
            self._explain(failure)
            raise

    def exception(self) -> StreamingQueryException | None:
        found = super().exception()
        if found is not None:
            self._explain(found)
        return found

    def _explain(self, failure: StreamingQueryException) -> None:
        failure.__cause__ = self._sink.failure
