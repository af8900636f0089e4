"""The Python data source `delta`: for sessions in which nothing was enabled, and names in the catalog of any.

Its methods run in Python processes that Spark starts, without a session.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, DataSourceStreamWriter
from pyspark.sql.types import StructType

from anabranch.connect.python_source.source_reader import DeltaReader, FilteringDeltaReader, TableOptions
from anabranch.connect.python_source.source_writer import DeltaWriter
from anabranch.connect.python_source.stream_reader import stream_reader
from anabranch.connect.python_source.stream_request import StreamTold
from anabranch.errors.arguments import SessionNotEnabledError
from anabranch.schema.paths import with_comments_only

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceWriter

_PUSHDOWN_WORKER = "data_source_pushdown_filters.py"
_ROWS_THAT_GO = {name.lower(): name for name in ("replaceWhere", "replaceOn", "replaceUsing")}


@dataclasses.dataclass(frozen=True, kw_only=True)
class SessionFacts:
    """What the source knows of the session it was registered in."""

    time_zone: str = "UTC"
    file_system: Mapping[str, str] = dataclasses.field(default_factory=dict)


class DeltaDataSource(DataSource):
    """Options: `path`, `versionAsOf`, `timestampAsOf`, `timeZone`, and settings of the file system; of streams,
    those of `SourceOptions`.
    """

    facts: ClassVar[SessionFacts] = SessionFacts()
    called: ClassVar[str] = "delta"

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        self._version: int | None = None

    @classmethod
    def name(cls) -> str:
        return cls.called

    def schema(self) -> StructType:
        """Columns of the version that will be read: whoever asks for the schema reads that very version."""
        snapshot = self._options().snapshot()
        self._version = snapshot.version
        # Nullable throughout, since Spark compares what it gets with what it was told, and plans by neither.
        return with_comments_only(snapshot.schema)

    def reader(self, schema: StructType) -> DataSourceReader:
        # Spark refuses a reader that takes filters where the session does not hand them out.
        reader = FilteringDeltaReader if _is_asked_to_filter() else DeltaReader
        return reader(self._options(), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        for option in self.options:
            # Whoever says which rows go must not lose the others.
            if option.lower() in _ROWS_THAT_GO:
                raise SessionNotEnabledError(call=f"Writing with the option {_ROWS_THAT_GO[option.lower()]}")
        return DeltaWriter(self._options(), schema, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        facts = type(self).facts
        told = StreamTold.parse(self.options, time_zone=facts.time_zone, file_system=facts.file_system)
        return stream_reader(told, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002
        raise SessionNotEnabledError(call='writeStream.format("delta")')

    def _options(self) -> TableOptions:
        facts = type(self).facts
        parsed = TableOptions.parse(self.options, time_zone=facts.time_zone, file_system=facts.file_system)
        return parsed if self._version is None else dataclasses.replace(parsed, version=self._version, timestamp=None)


def _is_asked_to_filter() -> bool:
    return any(frame.filename.endswith(_PUSHDOWN_WORKER) for frame in inspect.stack(context=0))
