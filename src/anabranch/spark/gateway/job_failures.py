"""Failures of Spark's jobs that are not about rows: executors end; memory, disks or file descriptors are used up."""

from __future__ import annotations

import errno
import re
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from anabranch.errors.base import DeltaError
from anabranch.errors.environment import JobFailedError
from anabranch.storage.log_store import redact

_USED_UP = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOMEM}
_TEXT_OF_IO = re.compile("No space left|quota exceeded|Read-only file system|Too many open files", re.IGNORECASE)
_OF_FILES = ("IOException", "FileNotFoundException", "FileSystemException", "FSError", "SocketException")
_LOST_EXECUTOR = re.compile(r"ExecutorLostFailure \((.*)")
_CAUSES_MAX = 16


def job_failure(failure: Exception, operation: str, table: str) -> JobFailedError | None:
    """The error to raise where a statement ends by such a failure; None for all others."""
    if isinstance(failure, DeltaError) or not isinstance(failure, PySparkException | Py4JError | OSError):
        return None
    cause = _cause(failure)
    return None if cause is None else JobFailedError(operation=operation, table=table, cause=redact(cause))


def is_used_up(reason: str) -> bool:
    """Whether an error of Java's has this text because a disk or the file descriptors are used up."""
    return _TEXT_OF_IO.search(reason) is not None


def _cause(failure: BaseException) -> str | None:
    """What failed, in one line; None for another failure."""
    if isinstance(failure, OSError):
        return str(failure) if failure.errno in _USED_UP else None
    java = getattr(failure, "java_exception", None) or getattr(failure, "_origin", None)
    for _ in range(_CAUSES_MAX):
        if java is None:
            return None
        cause = _cause_in(java)
        if cause is not None:
            return cause
        java = java.getCause()
    return None


def _cause_in(java: Any) -> str | None:
    """What this one of Java's exceptions says of it."""
    message = str(java.getMessage())
    name = str(java.getClass().getSimpleName())
    lost = _LOST_EXECUTOR.search(message)
    if name == "SparkException" and lost is not None:
        return lost[1].replace(") Reason:", ":").strip()
    if name.endswith("OutOfMemoryError"):
        return f"{name}: {message.partition(chr(10))[0]}"
    # Not an exception of the program's own functions, whose message has a traceback.
    if name.endswith(_OF_FILES) and is_used_up(message):
        return message.partition("\n")[0]
    return None
