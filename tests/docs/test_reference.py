"""The reference is what the code says."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "anabranch"
PYTHON_PAGE = (ROOT / "docs" / "reference" / "python.md").read_text("utf-8")

NOT_FOR_USERS = {
    "spark.sql.catalog.spark_catalog",  # these two ask for the jar, and are left out for its programs
    "spark.sql.catalogImplementation",
    "spark.sql.codegen.maxFields",
    "spark.sql.codegen.wholeStage",
    "spark.sql.extensions",
    "spark.sql.files.maxPartitionBytes",
    "spark.sql.files.minPartitionNum",
    "spark.sql.parquet.datetimeRebaseModeInWrite",
    "spark.sql.parquet.fieldId.read.enabled",
    "spark.sql.parquet.fieldId.write.enabled",
    "spark.sql.parquet.filterPushdown",
    "spark.sql.parquet.outputTimestampType",
    "spark.sql.parquet.writeLegacyFormat",
    "spark.sql.streaming.checkpointFileManagerClass",
    "spark.sql.streaming.fileSink.log.compactInterval",
    "spark.sql.variant.inferShreddingSchema",
    "spark.ui.enabled",
    "spark.ui.showConsoleProgress",
    "spark.sql.warehouse.dir",  # the two of Spark that `anabranch serve` sets
}
"""Settings that anabranch sets for itself, or reads to learn what Spark is going to do, or what a script is written for."""


@pytest.fixture(scope="module")
def make_reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_reference", ROOT / "scripts" / "make_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_reference"] = module
    spec.loader.exec_module(module)
    return module


def test_pages_are_up_to_date(make_reference: ModuleType) -> None:
    """Run `python scripts/make_reference.py` where this fails, and read what it changed."""
    stale = [path.name for path, text in make_reference.pages().items() if path.read_text("utf-8") != text]
    assert stale == []


def test_every_write_option_is_listed() -> None:
    """An option that the code reads and the page lacks is one that nobody finds."""
    source = (SOURCE / "commands" / "write" / "write_options.py").read_text("utf-8")
    read = {name.lower() for name in re.findall(r'given\.get\("(\w+)"', source)}
    read |= {name.lower() for name in re.findall(r'_flag\(given, "(\w+)"', source)}
    assert len(read) >= 7, "the options are no longer found this way"
    listed = {name.lower() for name in re.findall(r"^\| `(\w+)`", PYTHON_PAGE, re.MULTILINE)}
    assert read - listed == set()


def test_every_session_setting_is_listed() -> None:
    """Settings are found in the code by how they are spelled."""
    sources = [path.read_text("utf-8") for path in SOURCE.rglob("*.py")]
    found = {
        name for source in sources for name in re.findall(r'"(spark\.(?:sql|anabranch|databricks)\.[\w.]*\w)"', source)
    }
    found |= {
        f"spark.databricks.delta.{rest}"
        for source in sources
        for rest in re.findall(r'f"\{_SETTINGS\}([\w.]+)"', source)
    }
    assert "spark.anabranch.engine" in found
    missing = [name for name in sorted(found - NOT_FOR_USERS) if name not in PYTHON_PAGE]
    assert missing == []
