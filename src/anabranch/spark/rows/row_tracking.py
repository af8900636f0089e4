"""Row ids and row commit versions of rows that are read. See "Reader Requirements for Row Tracking"."""

from __future__ import annotations

import dataclasses

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own convention

from anabranch.schema.computed_columns import RowTrackingColumns
from anabranch.schema.paths import quote
from anabranch.spark.engine import FILE_ID_COLUMN, ROW_INDEX_COLUMN, ScanRequest
from anabranch.spark.layout.range_numbers import constant_array

_NONE = -1
"""Instead of the id of a file that has none; ids are not negative."""


def with_tracking(request: ScanRequest, tracking: RowTrackingColumns | None) -> ScanRequest:
    """The scan with the ids stored in files and with positions, from which `with_stable_ids` computes the ids."""
    if tracking is None:
        return request
    return dataclasses.replace(request, schema=tracking.added_to(request.schema), with_positions=True)


def with_stable_ids(frame: DataFrame, files: pa.Table, tracking: RowTrackingColumns | None) -> DataFrame:
    """The frame of a scan of `with_tracking`, with the stable ids and commit versions of its rows.

    An id stored in the file goes before the one that the position gives.
    """
    if tracking is None:
        return frame
    defaults = {
        tracking.row_id: _of_file(frame, files["base_row_id"]) + frame[ROW_INDEX_COLUMN],
        tracking.commit_version: _of_file(frame, files["default_row_commit_version"]),
    }
    return frame.select(
        *(
            F.coalesce(frame[quote(name)], defaults[name]).alias(name) if name in defaults else frame[quote(name)]
            for name in frame.columns
        )
    )


def stored_tracking_columns(tracking: RowTrackingColumns) -> list[Column]:
    """The row-tracking columns of changed rows for a new file: their ids, from a column of the rows, and no version.

    Rows without a stored version have that of the commit.
    """
    return [F.col(quote(tracking.row_id)), F.lit(None).cast("bigint").alias(tracking.commit_version)]


def with_ids_in_metadata(frame: DataFrame, files: pa.Table, tracking: RowTrackingColumns) -> DataFrame:
    """The frame of a scan of `with_tracking`, with ids and versions as the last fields of its `_metadata`.

    The columns from which they are computed are left out.
    """
    hidden = {tracking.row_id, tracking.commit_version, FILE_ID_COLUMN, ROW_INDEX_COLUMN, "_metadata"}
    shown = [frame[quote(name)] for name in frame.columns if name not in hidden]
    return frame.select(*shown, metadata_with_ids(frame, files, tracking).alias("_metadata"))


def metadata_with_ids(frame: DataFrame, files: pa.Table, tracking: RowTrackingColumns) -> Column:
    """`_metadata` of the frame of a scan of `with_tracking`, with ids and versions as its last fields."""
    metadata = frame["_metadata"]
    base, version = _of_file(frame, files["base_row_id"]), _of_file(frame, files["default_row_commit_version"])
    ids = {
        "base_row_id": base,
        "default_row_commit_version": version,
        "row_id": F.coalesce(frame[quote(tracking.row_id)], base + frame[ROW_INDEX_COLUMN]),
        "row_commit_version": F.coalesce(frame[quote(tracking.commit_version)], version),
    }
    fields = [metadata[name].alias(name) for name in frame.select("_metadata.*").columns]
    return F.struct(*fields, *(value.alias(name) for name, value in ids.items()))


def _of_file(frame: DataFrame, values: pa.ChunkedArray) -> Column:
    if len(values) == 0:
        # Without files there are no rows.
        return F.lit(None).cast("bigint")
    array = constant_array(pc.fill_null(values, _NONE).to_pylist())
    return F.nullif(F.get(array, frame[FILE_ID_COLUMN]), F.lit(_NONE).cast("bigint"))
