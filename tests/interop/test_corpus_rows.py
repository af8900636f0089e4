"""Every table of the corpus reads with equal rows on delta engine, or is refused with the right error."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from anabranch.errors.protocol import UnsafePathError
from interop.arrow_rows import difference
from interop.corpus_tables import (
    LOG_ONLY,
    OUTSIDE,
    REFUSED,
    Expectation,
    expectations,
    expected_table,
    folder_of,
    names,
)
from interop.readers import read_by_delta_rs

pytestmark = pytest.mark.spark

EXPECTATIONS = expectations()
WITHOUT_EXPECTATION = sorted(
    set(names()) - REFUSED.keys() - LOG_ONLY - OUTSIDE - {expectation.name for expectation in EXPECTATIONS}
)


@pytest.mark.parametrize("expectation", EXPECTATIONS, ids=str)
def test_rows_are_those_expected(delta: SparkSession, corpus: Path, expectation: Expectation) -> None:
    reader = delta.read.format("delta")
    if expectation.version is not None:
        reader = reader.option("versionAsOf", expectation.version)
    rows = reader.load(str(corpus / folder_of(expectation.name))).toArrow()
    assert difference(rows, expected_table(corpus, expectation)) == ""


@pytest.mark.parametrize("name", WITHOUT_EXPECTATION)
def test_rows_are_those_of_delta_rs(delta: SparkSession, corpus: Path, name: str) -> None:
    """Where the corpus does not say what is in a table, another reader does."""
    root = str(corpus / folder_of(name))
    rows = delta.read.format("delta").load(root).toArrow()
    assert difference(rows, read_by_delta_rs(root)) == ""


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_cannot_be_read_is_refused(native: SparkSession, corpus: Path, name: str) -> None:
    error, word = REFUSED[name]
    root = str(corpus / folder_of(name))
    with pytest.raises(error, match=word) as refused:
        native.read.format("delta").load(root)
    assert root in str(refused.value)


@pytest.mark.parametrize("name", sorted(LOG_ONLY))
def test_missing_data_files_are_an_error(delta: SparkSession, corpus: Path, name: str) -> None:
    """Covers fault F48: rows that are gone never read as an empty table."""
    with pytest.raises(
        Exception, match=r"(?i)no such file|does not exist|FILE_NOT_EXIST|not found|is not there|no columns"
    ):
        delta.read.format("delta").load(str(corpus / folder_of(name))).toArrow()


@pytest.mark.parametrize("name", sorted(OUTSIDE))
def test_files_outside_the_table_are_refused(delta: SparkSession, corpus: Path, name: str) -> None:
    with pytest.raises(UnsafePathError, match="/some/unqualified"):
        delta.read.format("delta").load(str(corpus / folder_of(name))).toArrow()
