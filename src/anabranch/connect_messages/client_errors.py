"""Clients of Spark Connect raise anabranch's errors as the classes that they are on the server."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from anabranch.patches import patch, undo
from anabranch.spark.extension.first_appends import retry_first_appends
from anabranch.spark.extension.stream_causes import show_causes

_OUR_ERRORS = {"delta.DeltaError", "delta.DeltaAnalysisError", "delta.CreatedMeanwhile"}
_STREAM_ERROR = "org.apache.spark.sql.streaming.StreamingQueryException"
_CLIENT = "pyspark.sql.connect.client.core"
"""The module in which clients create exceptions from the server's errors. It needs grpc."""
_EXCEPTIONS = "pyspark.errors.exceptions.connect"
_WRITERS = "pyspark.sql.connect.readwriter"


ErrorFactory = Callable[[Mapping[str, str], str], BaseException | None]
"""Creates an error from the message parameters and the message that a server sent; None if it is not one of ours."""
_factories: dict[str, ErrorFactory] = {}


_PURPOSE = "errors of clients"


def raise_our_errors(owner: str, create_error: ErrorFactory) -> None:
    """Have clients of this process raise the errors that `create_error` returns, until `raise_sparks_errors(owner)`.

    For a stream that failed they still raise Spark's exception, for which programs look; ours is its cause.
    """
    _factories[owner] = create_error
    patch(_PURPOSE, importlib.import_module(_CLIENT), "convert_exception", _converting)
    retry_first_appends(
        _PURPOSE,
        importlib.import_module(_WRITERS).DataFrameWriter,
        lambda writer: (writer._write.mode, writer._write.source),
    )
    show_causes(_PURPOSE, importlib.import_module(_EXCEPTIONS))


def _converting(convert: Callable[..., Any]) -> Callable[..., Any]:
    def convert_exception(info: Any, message: str, details: Any, *more: Any, **named: Any) -> Any:
        ours, is_of_stream = _ours(info, message, details)
        if ours is not None and not is_of_stream:
            return ours
        error = convert(info, message, details, *more, **named)
        if ours is not None:
            error._cause = ours
        return error

    return convert_exception


def raise_sparks_errors(owner: str) -> None:
    """Undo the `raise_our_errors` of this owner."""
    _factories.pop(owner, None)
    if not _factories:
        undo(_PURPOSE)


def _ours(info: Any, message: str, details: Any) -> tuple[BaseException | None, bool]:
    """Our error if it is one, and whether it made a stream fail. Some servers send no `details`."""
    if details is None or not details.HasField("root_error_idx"):
        parameters = json.loads(info.metadata.get("messageParameters") or "{}")
        is_ours = not _OUR_ERRORS.isdisjoint(json.loads(info.metadata.get("classes") or "[]"))
        return (_first(parameters, message) if is_ours else None), False
    is_of_stream = False
    for error in _chain(details):
        is_of_stream = is_of_stream or _STREAM_ERROR in error.error_type_hierarchy
        if not _OUR_ERRORS.isdisjoint(error.error_type_hierarchy):
            return _first(error.spark_throwable.message_parameters, error.message), is_of_stream
    return None, is_of_stream


def _chain(details: Any) -> Iterator[Any]:
    index: int | None = details.root_error_idx
    while index is not None:
        error = details.errors[index]
        yield error
        index = error.cause_idx if error.HasField("cause_idx") else None


def _first(parameters: Mapping[str, str], message: str) -> BaseException | None:
    errors = (create_error(parameters, message) for create_error in _factories.values())
    return next((error for error in errors if error is not None), None)
