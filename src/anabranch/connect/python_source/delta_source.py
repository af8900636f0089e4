"""The Python data source `delta`: for sessions in which nothing was enabled, and names in the catalog of any.

Its methods run in Python processes that Spark starts, without a session.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import pyspark.sql.datasource
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, DataSourceStreamWriter
from pyspark.sql.types import StructType

from anabranch.connect.python_source.source_reader import DeltaReader, FilteringDeltaReader, TableOptions
from anabranch.connect.python_source.source_writer import DeltaWriter
from anabranch.connect.python_source.stream_reader import stream_reader
from anabranch.connect.python_source.stream_request import StreamTold
from anabranch.errors.arguments import SessionNotEnabledError
from anabranch.schema.paths import with_comments_only
from anabranch.spark.session.session_settings import is_connect
from anabranch.storage.external_files import PLACES_SETTING

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


# Making Spark know the format `delta` by name.


_PUSHDOWN_SETTING = "spark.sql.python.filterPushdown.enabled"
_TIME_ZONE_SETTING = "spark.sql.session.timeZone"
_HADOOP = "spark.hadoop."


def register(spark: SparkSession, *, name: str = "delta") -> None:
    """Let `spark` read and append to Delta tables as format `delta`, or by another `name`, through public API alone.

    Python workers must be able to import anabranch. Of the session, its time zone and its `spark.hadoop.*`
    settings are taken as they are now; register again after changing them. Calling it again is harmless.

    Where PySpark can hand filters to Python sources, it is set to, unless the session says not to: without
    that, no file is ever skipped.
    """
    if hasattr(pyspark.sql.datasource, "Filter") and spark.conf.get(_PUSHDOWN_SETTING, None) is None:
        spark.conf.set(_PUSHDOWN_SETTING, "true")
    settings = dict(spark.conf.getAll)
    facts = SessionFacts(
        time_zone=settings.get(_TIME_ZONE_SETTING) or spark.conf.get(_TIME_ZONE_SETTING) or "UTC",
        file_system={key: value for key, value in settings.items() if key.startswith(_HADOOP) or key == PLACES_SETTING},
    )
    # The class travels to Python workers, and what it knows of the session with it.
    source = type(
        DeltaDataSource.__name__, (DeltaDataSource,), {"facts": facts, "called": name, "__module__": __name__}
    )
    with _active(spark):
        spark.dataSource.register(source)


@contextlib.contextmanager
def _active(spark: SparkSession) -> Iterator[None]:
    """Spark looks for a source of the name in the thread's active session, whichever session registers."""
    if is_connect(spark):
        yield
        return
    jvm: Any = spark.sparkContext._jvm
    sessions = jvm.org.apache.spark.sql.classic.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(spark._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()
