"""Format fields of `spark.sql`: `{df}` stands for a DataFrame, `{n}` for a value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from anabranch.spark.session_identity import is_connect


class _Name:
    """Stands in a text as it is, not as a string of SQL."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return self._text

    def __format__(self, specification: str) -> str:
        return self._text


def filled(spark: SparkSession, text: str, fields: Mapping[str, Any], view_of: Callable[[DataFrame], str]) -> str:
    """The text with its fields filled in by PySpark's own rules; `view_of` gives a DataFrame a name to be read by."""
    views = {name: _Name(view_of(value)) if _is_frame(value) else value for name, value in fields.items()}
    return str(_formatter(spark).format(text, **views))


def _is_frame(value: Any) -> bool:
    return isinstance(value, DataFrame) or type(value).__name__ == "DataFrame"


def _formatter(spark: SparkSession) -> Any:
    # Only a session that is there already brings the packages that these modules need.
    if is_connect(spark):
        from pyspark.sql.connect.sql_formatter import SQLStringFormatter as Formatter  # noqa: PLC0415
    else:
        from pyspark.sql.sql_formatter import SQLStringFormatter as Formatter  # type: ignore[assignment]  # noqa: PLC0415
    return Formatter(spark)  # type: ignore[arg-type]
