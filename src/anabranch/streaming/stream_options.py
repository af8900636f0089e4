"""The options of a stream that writes to a table, parsed and checked."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Mapping

from anabranch.commands.write.write_options import WriteOptions
from anabranch.errors.arguments import InvalidOptionError
from anabranch.spark.session.session_settings import SessionSettings, Settings

CHECKPOINTS_SETTING = "spark.sql.streaming.checkpointLocation"
"""A folder for the checkpoints of all queries, in subfolders by their names."""
_CHECKPOINT = "checkpointLocation"
_MODES = {"append": "append", "complete": "overwrite"}
_TRIGGERS = ("continuous", "realTime")
_NUMBERED = "a stream numbers its batches itself, by the id of its query"
_WHOLE = "a stream adds rows, or replaces them all; to replace some, use foreachBatch and df.write"
_NOT_FOR_STREAMS = {
    "replaceWhere": _WHOLE,
    "replaceOn": _WHOLE,
    "replaceUsing": _WHOLE,
    "partitionOverwriteMode": _WHOLE,
    "txnAppId": _NUMBERED,
    "txnVersion": _NUMBERED,
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StreamOptions:
    """How the batches of a query are written, and where Spark keeps its progress."""

    write: WriteOptions
    """The options for every batch. Mode OVERWRITE is the output mode `complete`."""
    output_mode: str
    checkpoint: str
    query_name: str | None
    trigger: Mapping[str, object]

    @classmethod
    def parse(
        cls,
        options: Mapping[str, str],
        *,
        output_mode: str | None,
        partition_by: tuple[str, ...],
        cluster_by: tuple[str, ...],
        query_name: str | None,
        trigger: Mapping[str, object],
        settings: SessionSettings,
    ) -> StreamOptions:
        """Parse the options of a `DataStreamWriter`. Raises `InvalidOptionError`."""
        mode = (output_mode or "append").lower()
        if mode not in _MODES:
            problem = "a stream into a Delta table needs output mode append or complete; for updates use foreachBatch"
            raise InvalidOptionError(option="outputMode", value=str(output_mode), problem=problem)
        lowered = {key.lower(): value for key, value in options.items()}
        for name, problem in _NOT_FOR_STREAMS.items():
            if name.lower() in lowered:
                raise InvalidOptionError(option=name, value=lowered[name.lower()], problem=problem)
        for name in _TRIGGERS:
            if name in trigger:
                problem = "a Delta table is written in batches; use processingTime or availableNow"
                raise InvalidOptionError(option="trigger", value=f"{name}={trigger[name]}", problem=problem)
        write = WriteOptions.parse(
            options, mode=_MODES[mode], partition_by=partition_by, cluster_by=cluster_by, settings=settings
        )
        return cls(
            # Complete mode replaces all rows, also if a setting of the session has overwrites replace partitions.
            write=dataclasses.replace(write, dynamic_partition_overwrite=False, application=None),
            output_mode=mode,
            checkpoint=_checkpoint(lowered, query_name, settings),
            query_name=query_name,
            trigger=trigger,
        )


def _checkpoint(options: Mapping[str, str], query_name: str | None, settings: Settings) -> str:
    """The checkpoint folder, which is where Spark itself would put it."""
    location = options.get(_CHECKPOINT.lower())
    if location:
        return location
    root = settings.setting(CHECKPOINTS_SETTING)
    if not root:
        problem = (
            "a stream into a Delta table needs a folder of its own, in which Spark keeps its progress; "
            f"give one, or set {CHECKPOINTS_SETTING}"
        )
        raise InvalidOptionError(option=_CHECKPOINT, value="", problem=problem)
    return f"{root.rstrip('/')}/{query_name or uuid.uuid4()}"
