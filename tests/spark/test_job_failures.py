"""Failures that are not about rows, where they come from Python. Those of Spark's jobs are in `tests/spark_faults`."""

from __future__ import annotations

import errno
import os

import pytest

from anabranch.errors.environment import FileMissingError
from anabranch.spark.gateway.job_failures import job_failure


@pytest.mark.parametrize(
    ("number", "way_out"),
    [(errno.ENOSPC, "spark.local.dir"), (errno.EROFS, "can be written"), (errno.EMFILE, "ulimit -n")],
)
def test_what_is_used_up_names_statement_table_and_way_out(number: int, way_out: str) -> None:
    message = str(job_failure(OSError(number, os.strerror(number), "/tmp/x"), "DELETE", "a.b"))
    assert message.startswith("[ANABRANCH_JOB_FAILED] A job of DELETE on a.b failed: ")
    assert os.strerror(number) in message
    assert way_out in message


@pytest.mark.parametrize("error", [FileNotFoundError(errno.ENOENT, "gone"), FileMissingError(root="/t", path="f")])
def test_other_errors_stay_as_they_are(error: OSError) -> None:
    assert job_failure(error, "DELETE", "a.b") is None
