"""A table as the source of a stream, where PySpark tells its limits: 4.2 and later."""

from __future__ import annotations

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from anabranch.connect.python_source.stream_reader import DeltaStreamReader, Position


class LimitedStreamReader(DeltaStreamReader, SupportsTriggerAvailableNow):
    """Batches of limited size, also where the query ends with what there is at its start."""

    def latestOffset(self, start: Position, limit: ReadLimit) -> Position:
        return self._end(start, is_limited=not isinstance(limit, ReadAllAvailable))

    def getDefaultReadLimit(self) -> ReadLimit:
        # Spark has no limit of both; that there is one is all that counts, `StreamSource` knows which.
        options = self._told.options
        if options.files_max is not None:
            return ReadMaxFiles(options.files_max)
        return ReadAllAvailable() if options.bytes_max is None else ReadMaxBytes(options.bytes_max)

    def prepareForTriggerAvailableNow(self) -> None:
        self._run().source.prepare_for_available_now()
