"""Tables that other programs wrote, and sessions to read them with either engine."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import anabranch
from anabranch.spark.delta_session import ENGINE_SETTING, DeltaSession
from interop.corpus_tables import CORPUS, unpack


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked folder: `golden/<name>/delta`, `dat/<name>/delta`."""
    if not CORPUS.is_dir():
        pytest.skip(f"no tables of other engines at {CORPUS}")
    unpacked = tmp_path_factory.mktemp("corpus")
    unpack(unpacked)
    return unpacked


@pytest.fixture(scope="session")
def portable(delta: SparkSession) -> SparkSession:
    """A second session of the same Spark that reads through the public API alone."""
    session = delta.newSession()
    session.conf.set(ENGINE_SETTING, "portable")
    anabranch.enable(session)
    assert type(DeltaSession.of(session).engine).__name__ == "PortableEngine"
    return session


@pytest.fixture(scope="session", params=["native", "portable"])
def either(request: pytest.FixtureRequest) -> SparkSession:
    """A session of each engine."""
    return request.getfixturevalue("delta" if request.param == "native" else "portable")
